"""The end of a process by `exit_now`: its exit code after an interrupt, and its temporary folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import TIMEOUT_SECONDS

PROJECT = Path(__file__).parents[1]
COMMAND = """
import signal, sys
from tidegate.processes import exit_now
signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    # The import of a dataclass also evaluates a string.
    exec("import signal, time; signal.raise_signal({number}); time.sleep(600)")
except KeyboardInterrupt:
    print("interrupted", end="")
    {exit_function}(130)
"""


def exit_code(folder: Path, exit_function: str, number: int) -> int:
    """The exit code of ``python -m`` when a signal interrupts it during ``exec`` of a string."""
    (folder / "command.py").write_text(COMMAND.format(exit_function=exit_function, number=int(number)))
    result = subprocess.run(
        [sys.executable, "-m", "command"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        # If the tests run in the background of a shell, SIGINT is ignored, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # this process has one thread
    )
    assert result.stdout == "interrupted"
    return result.returncode


def test_with_sys_exit_python_dies_of_sigint_instead_of_returning_the_exit_code(tmp_path: Path) -> None:
    assert exit_code(tmp_path, "sys.exit", signal.SIGINT) == -signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_exit_now_returns_the_exit_code_after_an_interrupt(tmp_path: Path, number: int) -> None:
    assert exit_code(tmp_path, "exit_now", number) == 130


LEAVE = """
import os
from tidegate.processes import exit_now, temporary_folder
folder, delete = temporary_folder("kept-")
other, delete_other = temporary_folder("deleted-")
if os.fork() == 0:
    delete()
    delete_other()
    exit_now(0)
os.wait()
print(folder.exists(), other.exists(), end=" ")
delete_other()
print(folder.exists(), other.exists(), end="")
exit_now(0)
"""


def test_exit_now_deletes_the_temporary_folders_of_its_process_alone(tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(PROJECT), "TMPDIR": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", LEAVE], env=variables, capture_output=True, text=True, check=True)
    assert result.stdout == "True True True False"
    assert not [*tmp_path.iterdir()]
