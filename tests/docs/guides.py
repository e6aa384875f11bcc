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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
_COPIED = ("pipelines", "spark_jobs", "expectations", "dags", "jars.lock.json")
_LINKED = ("jars", ".cache")


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
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE_"))}
    commands = Path(sys.executable).parent
    return {
        **ours,
        "TIDEGATE_PROJECT": str(folder),
        "TIDEGATE_KAFKA": "127.0.0.1:9",
        "PATH": os.pathsep.join([str(commands), os.environ.get("PATH", os.defpath)]),
    }


def run(guide: Path, folder: Path, **variables: str) -> None:
    """Run all commands of a guide; fails at the first that does not end, or does not print, as the guide says.

    Args:
        guide: For example ``GUIDES / "quarantine.md"``.
        folder: Where the copy of the project is made; it must not exist.
        variables: What else the reader's shell says.
    """
    environment = scaffold(folder) | variables
    found = list(steps(guide))
    assert found, f"{guide.name} has no console block"
    # What one command exports, the next one's shell takes from here.
    said = folder.with_name(f"{folder.name}.exported")
    said.touch()
    keep = f"source {shlex.quote(str(said))}; trap {shlex.quote(f'export -p >{shlex.quote(str(said))}')} EXIT\n"
    for step in found:
        done = subprocess.run(
            ["bash", "-c", keep + step.command],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=300,
            check=False,
        )
        told = f"{guide.name}, line {step.line}: $ {step.command}\n{done.stdout}"
        assert done.returncode == 0, f"it ended with {done.returncode}: {told}"
        missing = missing_line(step.printed, done.stdout)
        assert missing is None, f"it did not print {missing!r}: {told}"


def missing_line(expected: list[str], output: str) -> str | None:
    """The first expected line that the output does not hold behind those before it; None when all are there."""
    printed = iter(" ".join(line.split()) for line in output.splitlines())
    for line in expected:
        pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("…"))
        if not any(re.fullmatch(pattern, each) for each in printed):
            return line
    return None
