"""Four commands lead from the built wheel to the first gated increment, in folders of their own: nothing of this repository is imported."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wheel import PROJECT

pytestmark = [pytest.mark.packages, pytest.mark.jvm, pytest.mark.timeout(1800)]

LIMIT_SECONDS = 120.0
"""Of the four commands, with a filled package cache. Of processor time, which other work on the machine does not change much."""
_OF_TESTS = ("AIRFLOW", "PYTEST", "PYTHON", "TIDEGATE", "VIRTUAL_ENV")
"""How variables begin that a person does not have."""


def _processor_seconds() -> float:
    """Of all children that have ended, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Shell:
    """A shell of a person who has uv and Java, and no variable of Tidegate."""

    def __init__(self, folder: Path, *, constraints: Path) -> None:
        self.folder, self.seconds = folder, list[tuple[float, str]]()
        (folder / "bin").mkdir()
        (folder / "bin" / "uv").symlink_to(Path(sys.executable).with_name("uv"))
        # What installers need to know of this machine's index, and Spark of its Java, is in the environment.
        others = {name: value for name, value in os.environ.items() if not name.startswith(_OF_TESTS)}
        self.variables = {
            **others,
            "PATH": f"{folder / 'venv' / 'bin'}:{folder / 'bin'}:{os.defpath}",
            "UV_CONSTRAINT": str(constraints),
        }

    def run(self, command: str, folder: str = ".") -> str:
        """The output of a command, which succeeds."""
        started = _processor_seconds()
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder / folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        self.seconds.append((_processor_seconds() - started, command))
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


def test_the_first_increment_of_the_sample_is_gated_after_four_commands(wheel: Path, tmp_path: Path) -> None:
    shell = Shell(tmp_path, constraints=PROJECT / "requirements.txt")
    shell.run(f"uv venv --quiet --python {sys.executable} venv")
    shell.seconds.clear()
    shell.run(f"uv pip install --quiet --python venv/bin/python {wheel}")
    shell.run("tidegate init shop --job-env")
    assert "pyspark" not in shell.run("uv pip list --python venv/bin/python")
    del shell.seconds[-1]
    shell.run("tidegate run orders", "shop")

    flows = {flow["flow"]: flow for flow in json.loads(shell.run("tidegate status --json", "shop"))["flows"]}
    assert flows["silver"]["quarantine"]["open"] == 2
    assert {flow["state"] for flow in flows.values()} == {"up to date"}
    assert shell.run("tidegate query 'SELECT count(*) AS n FROM silver.orders' --json", "shop")
    assert "nothing is new" in shell.run("tidegate run orders", "shop")
    assert "failed" not in shell.run("tidegate doctor", "shop")
    assert "5 passed" in shell.run(".venv-job/bin/python -m pytest -q", "shop")
    for seconds, command in shell.seconds:
        print(f"{seconds:6.1f} s  {command}")
    # `cd shop` is one of the four.
    assert sum(seconds for seconds, _ in shell.seconds[:3]) < LIMIT_SECONDS
