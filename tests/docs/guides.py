"""Runs a guide as a reader would: its console blocks, line by line, in a copy of the project.

A block that is fenced as ``console`` holds commands and what they print::

    $ tidegate run orders        a command; `>` in front of a line carries it on, as a shell shows it
    bronze -> …: done            a line that it prints; lines may be left out between two that are shown

In a printed line `…` stands for anything, and blanks count once. A command must end with 0; where the guide shows
another code it says so with ``; echo $?``. What a command exports is there for those after it. Blocks of another language are
not run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, takewhile
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
_COPIED = ("pipelines", "spark_jobs", "expectations", "dags", "jars.lock.json")
_LINKED = ("jars", ".cache")
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""What makes a small application quick. A command that cannot know how small it is leaves it out."""


@dataclass
class Step:
    """One command of a guide."""

    line: int
    """Of the guide, from 1."""
    command: str
    printed: list[str] = field(default_factory=list)
    """Lines that its output must hold, in this order."""


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


def scaffold(folder: Path) -> dict[str, str]:
    """A copy of the project without anything that ran, and the environment of a shell that knows only it."""
    folder.mkdir(parents=True)
    for name in _COPIED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    for name in _LINKED:
        (folder / name).symlink_to(ROOT / name)
    return shell_of(folder)


def shell_of(folder: Path) -> dict[str, str]:
    """The environment of a shell that knows only this copy of the project."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE_"))}
    commands = Path(sys.executable).parent
    return {
        **ours,
        "TIDEGATE_PROJECT": str(folder),
        "TIDEGATE_KAFKA": "127.0.0.1:9",
        "PATH": os.pathsep.join([str(commands), os.environ.get("PATH", os.defpath)]),
    }


@dataclass(frozen=True)
class Followed:
    """One command of a guide, and what it printed."""

    step: Step
    output: str


Beginning = tuple[str, ...]
"""The first commands of a guide."""


class Reader:
    """Follows guides, each in a fresh copy of the project, as a reader would whose shell says a little more.

    Commands with which several guides begin run once: what they made is copied back for the next guide. A lake holds
    absolute paths, so all guides are followed in the same place; what one left there is gone with the next.

    Args:
        folder: Where to work; nothing else may be there.
        guides: All that will be followed.
        variables: What else the reader's shell says.
    """

    def __init__(self, folder: Path, guides: Iterable[Path], **variables: str) -> None:
        self.project = folder / "place" / "project"
        self._kept = folder / "kept"
        self._variables = variables
        self._shared = shared_beginnings([step.command for step in steps(guide)] for guide in guides)
        self._outputs: dict[Beginning, list[str]] = {}

    def follow(self, guide: Path) -> list[Followed]:
        """Run all commands of a guide; fails at the first that does not end, or does not print, as the guide says.

        Args:
            guide: For example ``GUIDES / "quarantine.md"``.
        """
        todo = list(steps(guide))
        assert todo, f"{guide.name} has no console block"
        commands = tuple(step.command for step in todo)
        known = max((each for each in self._outputs if commands[: len(each)] == each), key=len, default=())
        environment = self._begin(known)
        followed = [Followed(*each) for each in zip(todo, self._outputs.get(known, ()), strict=False)]
        for done in followed:
            check(guide, done.step, 0, done.output)
        for number, step in enumerate(todo[len(followed) :], start=len(followed) + 1):
            code, output = self._run(step, environment)
            check(guide, step, code, output)
            followed.append(Followed(step, output))
            if commands[:number] in self._shared:
                self._keep(commands[:number], [done.output for done in followed])
        return followed

    @property
    def _exported(self) -> Path:
        """What commands export: the next one's shell takes it from here."""
        return self.project.with_name("exported")

    def _begin(self, known: Beginning) -> dict[str, str]:
        """The project as these commands left it, and the environment of the reader's shell."""
        place = self.project.parent
        shutil.rmtree(place, ignore_errors=True)
        if known:
            shutil.copytree(self._kept_of(known), place, symlinks=True)
        else:
            scaffold(self.project)
            self._exported.touch()
        return shell_of(self.project) | self._variables

    def _keep(self, beginning: Beginning, outputs: list[str]) -> None:
        self._outputs[beginning] = outputs
        shutil.copytree(self.project.parent, self._kept_of(beginning), symlinks=True)

    def _kept_of(self, beginning: Beginning) -> Path:
        return self._kept / str(list(self._outputs).index(beginning))

    def _run(self, step: Step, environment: dict[str, str]) -> tuple[int, str]:
        exported = shlex.quote(str(self._exported))
        keep = f"source {exported}; trap {shlex.quote(f'export -p >{exported}')} EXIT\n"
        done = subprocess.run(
            ["bash", "-c", keep + step.command],
            env=environment,
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout


def shared_beginnings(guides: Iterable[list[str]]) -> set[Beginning]:
    """The longest beginning that two lists of commands have in common, for each two that share one."""
    beginnings = set()
    for one, other in combinations(guides, 2):
        same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
        beginnings.add(tuple(command for command, _ in same))
    return beginnings - {()}


def check(guide: Path, step: Step, code: int, output: str) -> None:
    """Fail unless a command ended and printed as the guide says."""
    message = f"{guide.name}, line {step.line}: $ {step.command}\n{output}"
    assert code == 0, f"it ended with {code}: {message}"
    missing = missing_line(step.printed, output)
    assert missing is None, f"it did not print {missing!r}: {message}"


def missing_line(expected: list[str], output: str) -> str | None:
    """The first expected line that the output does not hold behind those before it; None when all are there."""
    printed = iter(" ".join(line.split()) for line in output.splitlines())
    for line in expected:
        pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("…"))
        if not any(re.fullmatch(pattern, each) for each in printed):
            return line
    return None
