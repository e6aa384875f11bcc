"""The slices of the nightly tests: `.ci/run` runs one after each change, so that all of them run within a week.

A slice is a list of test files that takes at most ten minutes on two workers. The seconds of each file are in
``nightly_seconds.json``, which ``make nightly-seconds`` writes::

    python -m tests.slices              all nightly files
    python -m tests.slices 3            the files of the third slice
    python -m tests.slices commit       the slice of the half day of the newest commit
    python -m tests.slices minutes      the expected duration of each slice
    python -m tests.slices record FILE  take the seconds from the report of a run (pytest --junitxml)
"""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

TESTS = Path(__file__).parent
SECONDS_FILE = TESTS / "nightly_seconds.json"
COUNT = 14
"""A week has a half day for each."""
WORKERS = 2
LIMIT_SECONDS = 600
"""Of each slice."""
UNKNOWN_SECONDS = 60
"""Assumed for a file that has not been measured yet."""
_HALF_DAY = 12 * 60 * 60
_WEEK = 14 * _HALF_DAY


@dataclass
class Worker:
    """What one worker of a slice runs."""

    slice: int
    """From 1."""
    number: int
    seconds: float = 0
    files: list[str] = field(default_factory=list)


def balance(
    seconds: Mapping[str, float], files: Iterable[str], *, together: Sequence[Sequence[str]] = ()
) -> list[Worker]:
    """Distribute files to the workers of all slices: the longest first, each to the worker that has the least to do.

    Measured files come first, whether they still exist or not, so that a new or deleted file moves no other one to
    another half day.

    Args:
        seconds: The measured duration of files.
        files: The files that exist.
        together: Groups of files that run in one worker, because they share a resource.
    """
    existing = set(files)
    group_of = {file: tuple(group) for group in together for file in group}
    groups = {group_of.get(file, (file,)) for file in (*seconds, *existing)}

    def duration(group: tuple[str, ...]) -> float:
        return sum(seconds.get(file, UNKNOWN_SECONDS if file in existing else 0) for file in group)

    def order(group: tuple[str, ...]) -> tuple[bool, float, tuple[str, ...]]:
        return not any(file in seconds for file in group), -duration(group), group

    workers = [Worker(slice, number) for slice in range(1, COUNT + 1) for number in range(WORKERS)]
    for group in sorted(groups, key=order):
        least = min(workers, key=lambda worker: (worker.seconds, worker.number, worker.slice))
        least.seconds += duration(group)
        least.files += sorted(existing.intersection(group))
    return workers


def slice_of_half_day(timestamp: float) -> int:
    """The slice of the half day of a commit.

    Every second week the two slices of a day change places, so that a team that commits in the afternoon alone runs all
    slices in two weeks.

    Args:
        timestamp: Seconds since 1970, UTC.
    """
    odd_week = int(timestamp // _WEEK) % 2
    return (int(timestamp // _HALF_DAY) % COUNT ^ odd_week) + 1


def of_week(cases: Sequence[T], count: int) -> list[T]:
    """So many cases of a test that has too many for one night: the next ones with each week of the newest commit, then the first again."""
    count = min(count, len(cases))
    first = _time_of_commit() // _WEEK * count
    return [cases[(first + number) % len(cases)] for number in range(count)]


def nightly_files() -> list[str]:
    """The files that mark a test ``nightly``, with paths from the project's folder."""
    own = {TESTS / name for name in ("slices.py", "test_slices.py")}
    marked = (
        path for path in TESTS.rglob("test_*.py") if path not in own and "mark.nightly" in path.read_text("utf-8")
    )
    return sorted(path.relative_to(TESTS.parent).as_posix() for path in marked)


def recorded_seconds() -> dict[str, float]:
    """The measured duration of each file."""
    seconds: dict[str, float] = json.loads(SECONDS_FILE.read_text(encoding="utf-8"))
    return seconds


def measured(report: Path) -> dict[str, float]:
    """The seconds of each test file in the report of a run, set-up of fixtures included."""
    seconds: dict[str, float] = defaultdict(float)
    # Some entries of a run that was interrupted have a duration alone.
    for case in ElementTree.parse(report).getroot().iterfind(".//testcase[@classname]"):
        # A class of tests comes after the names of the module.
        file = "/".join(part for part in case.attrib["classname"].split(".") if part[0].islower()) + ".py"
        seconds[file] += float(case.attrib["time"])
    return {file: round(total, 1) for file, total in sorted(seconds.items())}


def record(reports: Iterable[Path], into: Path = SECONDS_FILE) -> None:
    """Replace the seconds of the files in these reports, and forget files that no longer exist."""
    known = json.loads(into.read_text(encoding="utf-8")) if into.exists() else {}
    for report in reports:
        known |= measured(report)
    files = set(nightly_files())
    kept = {file: known[file] for file in sorted(known) if file in files}
    into.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def workers() -> list[Worker]:
    """The slices of the files that exist now."""
    from tests.conftest import SHARED_WORKERS

    files = nightly_files()
    together = [[name for name in names if name in files] for names in SHARED_WORKERS.values()]
    return balance(recorded_seconds(), files, together=[group for group in together if group])


def main(arguments: Sequence[str]) -> None:
    """Print the files of a slice, or record the seconds of a run."""
    match arguments:
        case ["record", *reports]:
            record(map(Path, reports))
        case ["minutes"]:
            for number in range(1, COUNT + 1):
                own = [worker for worker in workers() if worker.slice == number]
                files = sum(len(worker.files) for worker in own)
                print(f"slice {number}: {max(worker.seconds for worker in own) / 60:4.1f} minutes, {files} files")
        case []:
            print(*nightly_files(), sep="\n")
        case [which]:
            chosen = slice_of_half_day(_time_of_commit()) if which == "commit" else int(which)
            if not 1 <= chosen <= COUNT:
                raise SystemExit(f"SLICE is a number from 1 to {COUNT}, or commit, not {which}")
            own = [worker for worker in workers() if worker.slice == chosen]
            print(f"slice {chosen} of {COUNT}", file=sys.stderr)
            print(*(file for worker in own for file in worker.files), sep="\n")
        case _:
            raise SystemExit(__doc__)


def _time_of_commit() -> int:
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
