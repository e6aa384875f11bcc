"""Runs the console blocks of a guide, line by line, in a copy of the project.

A block that is fenced as ``console`` has commands and their output::

    $ tidegate run orders        a command; a line that begins with `>` continues it
    bronze -> …: done            a line of its output; lines of the output may be left out

In an output line `…` matches any text, and several blanks count as one. A command must exit with 0; guides show another
exit code with ``; echo $?``. Exported variables are available to later commands. Blocks of another language are not run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, takewhile
from pathlib import Path

from tests.docs.fork_server import SAME_LAKE
from tidegate.testing.session import SMALL_DATA_CONF

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDES = ROOT / "docs" / "guides"
_COPIED = ("pipelines", "spark_jobs", "expectations", "dags")
_LINKED = (".cache",)
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""JVM options for small applications, for commands that do not set them."""
_INTERPRETED = " ".join(f"-D{name}={value}" for name, value in SMALL_DATA_CONF.items())
"""Settings of Spark for a few rows, which do not generate code; the demo's applications do."""


@dataclass
class Step:
    """One command of a guide."""

    line: int
    """In the guide, from 1."""
    command: str
    printed: list[str] = field(default_factory=list)
    """Lines that its output must contain, in this order."""


def steps(guide: Path) -> Iterator[Step]:
    """The commands of a guide's console blocks, in order."""
    step: Step | None = None
    inside = False
    for number, line in enumerate(guide.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            inside = line == "```console"
            if step is not None:
                yield step
            step = None
        elif inside and line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(number, line.removeprefix("$ "))
        elif inside and step is not None and (line == ">" or line.startswith("> ")) and not step.printed:
            step.command += "\n" + line.removeprefix(">").removeprefix(" ")
        elif inside and step is not None and line.strip() not in ("", "…"):
            step.printed.append(line)


def readme_block(first: str) -> list[str]:
    """The lines of the README's block that begins with this text, with any durations and any widths of headings."""
    (block,) = re.findall(
        rf"^```\w*\n({re.escape(first)}.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    lines = [line for line in block.splitlines() if line.strip() not in ("", "…")]
    return [re.sub(r"─+|\b\d+\.\d(?= s\b)", "…", line) for line in lines]


def scaffold(folder: Path) -> dict[str, str]:
    """Copy the project without lake and other run-time files; the result is the environment of a shell for the copy."""
    folder.mkdir(parents=True)
    for name in _COPIED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    for name in _LINKED:
        (folder / name).symlink_to(ROOT / name)
    return shell_of(folder)


def shell_of(folder: Path, commands: Path | None = None) -> dict[str, str]:
    """The environment of a shell for this copy of the project, without other settings of Airflow and Tidegate.

    Args:
        folder: The copy.
        commands: A folder of programs that are found before all others.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE_"))}
    folders = [commands, Path(sys.executable).parent, os.environ.get("PATH", os.defpath)]
    return {
        **inherited,
        "TIDEGATE_PROJECT": str(folder),
        "TIDEGATE_KAFKA": "127.0.0.1:9",
        "PATH": os.pathsep.join(str(each) for each in folders if each is not None),
    }


@dataclass(frozen=True)
class StepResult:
    """One command of a guide, and its output."""

    step: Step
    output: str


Prefix = tuple[str, ...]
"""The first commands of a guide."""


class GuideRunner:
    """Runs guides, each in a new copy of the project.

    First commands that several guides have in common run once: their result is copied for the next guide. A lake contains
    absolute paths, so all guides run in the same folder, which is deleted before the next guide.

    Args:
        folder: An empty folder.
        guides: All guides that will be run.
        commands: A folder of programs that commands find before all others; None for none.
        project: Whether the folder has the copy; without it the guide makes a project of its own.
        variables: Additional environment variables.
    """

    def __init__(
        self,
        folder: Path,
        guides: Iterable[Path],
        commands: Path | None = None,
        *,
        project: bool = True,
        **variables: str,
    ) -> None:
        self.project = folder / "working" / "project"
        self._copies = folder / "copies"
        self._commands = commands
        self._variables = variables if project else {**variables, "TIDEGATE_PROJECT": ""}
        self._copied = project
        self._shared = common_prefixes([step.command for step in steps(guide)] for guide in guides)
        self._outputs: dict[Prefix, list[str]] = {}

    def run(self, guide: Path) -> list[StepResult]:
        """Run all commands of a guide; fails at the first whose exit code or output is not that of the guide.

        Args:
            guide: For example ``GUIDES / "quarantine.md"``.
        """
        pending = list(steps(guide))
        assert pending, f"{guide.name} has no console block"
        commands = tuple(step.command for step in pending)
        prefix = max((each for each in self._outputs if commands[: len(each)] == each), key=len, default=())
        environment = self._restore(prefix)
        results = [StepResult(*each) for each in zip(pending, self._outputs.get(prefix, ()), strict=False)]
        for result in results:
            check(guide, result.step, 0, result.output)
        for number, step in enumerate(pending[len(results) :], start=len(results) + 1):
            code, output = self._execute(step, environment)
            if code:
                output += "".join(
                    f"\n{each.name}:\n{each.read_text()[-3000:]}" for each in self.project.rglob("failure-*.txt")
                )
            check(guide, step, code, output)
            results.append(StepResult(step, output))
            if commands[:number] in self._shared:
                self._store(commands[:number], [result.output for result in results])
        return results

    @property
    def _exported(self) -> Path:
        """File with the variables that commands export, for the next command's shell."""
        return self.project.with_name("exported")

    def _restore(self, prefix: Prefix) -> dict[str, str]:
        """Restore the project as these commands left it; the result is the environment of the shell."""
        working = self.project.parent
        shutil.rmtree(working, ignore_errors=True)
        if prefix:
            shutil.copytree(self._copy_of(prefix), working, symlinks=True)
        else:
            if self._copied:
                scaffold(self.project)
            self.project.mkdir(parents=True, exist_ok=True)
            self._exported.touch()
        lake = {SAME_LAKE: uuid.uuid4().hex}
        return shell_of(self.project, self._commands) | {"SPARK_SUBMIT_OPTS": _INTERPRETED} | lake | self._variables

    def _store(self, prefix: Prefix, outputs: list[str]) -> None:
        self._outputs[prefix] = outputs
        shutil.copytree(self.project.parent, self._copy_of(prefix), symlinks=True)

    def _copy_of(self, prefix: Prefix) -> Path:
        return self._copies / str(list(self._outputs).index(prefix))

    def _execute(self, step: Step, environment: dict[str, str]) -> tuple[int, str]:
        exported = shlex.quote(str(self._exported))
        export = f'source {exported}; cd "$PWD"\n' + f"trap {shlex.quote(f'export -p >{exported}')} EXIT\n"
        done = subprocess.run(
            ["bash", "-c", export + step.command],
            env=environment,
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout


def common_prefixes(guides: Iterable[list[str]]) -> set[Prefix]:
    """The longest common prefix of each two lists of commands, without empty ones."""
    prefixes = set()
    for one, other in combinations(guides, 2):
        same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
        prefixes.add(tuple(command for command, _ in same))
    return prefixes - {()}


def check(guide: Path, step: Step, code: int, output: str) -> None:
    """Fail unless the exit code is 0 and the output has the lines of the guide."""
    message = f"{guide.name}, line {step.line}: $ {step.command}\n{output}"
    assert code == 0, f"exit code {code}: {message}"
    missing = missing_line(step.printed, output)
    assert missing is None, f"not printed: {missing!r}: {message}"


def missing_line(expected: list[str], output: str) -> str | None:
    """The first expected line that does not follow the previous ones in the output; None if all are there."""
    printed = iter(" ".join(line.split()) for line in output.splitlines())
    for line in expected:
        pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("…"))
        if not any(re.fullmatch(pattern, each) for each in printed):
            return line
    return None
