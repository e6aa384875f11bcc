"""How a command ends that somebody interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

PROJECT = Path(__file__).parents[1]
COMMAND = """
import signal, sys
from tidegate.ending import leave
signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    # As an import of a dataclass does it.
    exec("import signal, time; signal.raise_signal({number}); time.sleep(600)")
except KeyboardInterrupt:
    print("told", end="")
    {end}(130)
"""


def end(folder: Path, way: str, number: int) -> int:
    """How ``python -m`` ends that is interrupted while it evaluates a string."""
    (folder / "command.py").write_text(COMMAND.format(end=way, number=int(number)))
    done = subprocess.run(
        [sys.executable, "-m", "command"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        # Tests that run in the background of a shell would hand down that it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # this process has one thread
    )
    assert done.stdout == "told"
    return done.returncode


def test_python_alone_forgets_the_code_of_a_command_that_is_interrupted_in_a_string(tmp_path: Path) -> None:
    assert end(tmp_path, "sys.exit", signal.SIGINT) == -signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_code_that_a_command_returns_after_an_interrupt_is_kept(tmp_path: Path, number: int) -> None:
    assert end(tmp_path, "leave", number) == 130
