"""Four commands lead from the built wheel to the first gated increment, in folders of their own: nothing of this repository is imported."""

from __future__ import annotations

import json
import os
import pty
import resource
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.wheel import PROJECT
from tidegate.runtime import jars

pytestmark = [pytest.mark.packages, pytest.mark.jvm, pytest.mark.timeout(1800)]

LIMIT_SECONDS = 120.0
"""Of the four commands, with a filled package cache: of time where nothing else runs on the machine, and always of processor time."""
QUIET = 0.1
"""Which share of the processors other work may have for that."""
_OF_TESTS = ("AIRFLOW", "PYTEST", "PYTHON", "TIDEGATE", "VIRTUAL_ENV")
"""How variables begin that a person does not have."""


@dataclass(frozen=True)
class Clocks:
    """Seconds since some time."""

    wall: float
    own: float
    """Of processor time, of all children that have ended, with theirs."""
    busy: float
    """Of processor time, of all that runs on this machine, and of others that have taken its processors."""

    @classmethod
    def read(cls) -> Clocks:
        """Those of now."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        user, nice, system, _, _, *others = map(int, Path("/proc/stat").read_text().split()[1:9])
        busy = (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")
        return cls(time.monotonic(), used.ru_utime + used.ru_stime, busy)

    def since(self, before: Clocks) -> Clocks:
        """The difference."""
        return Clocks(self.wall - before.wall, self.own - before.own, self.busy - before.busy)


class Shell:
    """A shell of a person who has uv and Java, and no variable of Tidegate."""

    def __init__(self, folder: Path, *, constraints: Path) -> None:
        self.folder, self.spent = folder, list[tuple[Clocks, str]]()
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
        started = Clocks.read()
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder / folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        self.spent.append((Clocks.read().since(started), command))
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run_in_a_terminal(self, *words: str, folder: str, **variables: str) -> str:
        """The output of a command, which succeeds, as a person sees it."""
        shown, terminal = pty.openpty()
        process = subprocess.Popen(
            words,
            cwd=self.folder / folder,
            env=self.variables | variables,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        output = b""
        # Reading fails when all have closed the terminal.
        with suppress(OSError), os.fdopen(shown, "rb", buffering=0) as reader:
            while more := reader.read(4096):
                output += more
        assert process.wait() == 0, output.decode()
        return output.decode()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("first"), constraints=PROJECT / "requirements.txt")


def test_the_first_increment_of_the_sample_is_gated_after_four_commands(wheel: Path, shell: Shell) -> None:
    shell.run(f"uv venv --quiet --python {sys.executable} venv")
    shell.spent.clear()
    shell.run(f"uv pip install --quiet --python venv/bin/python 'tidegate[query] @ {wheel.as_uri()}'")
    shell.run("tidegate init shop --job-env")
    assert "pyspark" not in shell.run("uv pip list --python venv/bin/python")
    del shell.spent[-1]
    shell.run("tidegate run orders", "shop")

    flows = {flow["flow"]: flow for flow in json.loads(shell.run("tidegate status --json", "shop"))["flows"]}
    assert flows["silver"]["quarantine"]["open"] == 2
    assert {flow["state"] for flow in flows.values()} == {"up to date"}
    assert shell.run("tidegate query 'SELECT count(*) AS n FROM silver.orders' --json", "shop")
    assert "nothing is new" in shell.run("tidegate run orders", "shop")
    assert "failed" not in shell.run("tidegate doctor", "shop")
    assert "5 passed" in shell.run(".venv-job/bin/python -m pytest -q", "shop")
    # `cd shop` is one of the four.
    first = [clocks for clocks, _ in shell.spent[:3]]
    wall, own, busy = (sum(getattr(each, name) for each in first) for name in ("wall", "own", "busy"))
    for clocks, command in shell.spent:
        print(f"{clocks.wall:6.1f} s, processor {clocks.own:6.1f} s  {command}")
    print(f"four commands: {wall:.1f} s, processor {own:.1f} s, of others {busy - own:.1f} s")
    assert own < LIMIT_SECONDS
    assert wall < LIMIT_SECONDS or busy - own > QUIET * wall * (os.cpu_count() or 1)


def test_the_first_job_of_a_machine_leaves_a_class_data_archive_to_a_person_at_a_terminal(shell: Shell) -> None:
    """After the first increment. In a cache of its own: that of the user has the archives of other environments."""
    (shell.folder / "jars").mkdir()
    for jar in jars.files(PROJECT, "spark"):
        (shell.folder / "jars" / jar.name).symlink_to(jar)
    own = {"TIDEGATE_CACHE": str(shell.folder / "cache"), "TIDEGATE_MAVEN_REPOSITORY": str(shell.folder / "jars")}
    says, archives = "creating the class data archive", shell.folder / "cache/archive"
    assert says in shell.run_in_a_terminal("tidegate", "run", "orders", "--force", folder="shop", **own)
    [made] = archives.glob("driver-*.jsa")
    os.utime(made, (1, 1))
    assert says not in shell.run_in_a_terminal("tidegate", "run", "orders", "--force", folder="shop", **own)
    assert made.stat().st_mtime > 1, "the second job did not use it"
