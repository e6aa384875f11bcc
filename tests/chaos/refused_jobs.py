"""What the tests of refused system calls in whole runs have in common: the driver that serves them, and what is expected of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import slices
from tests.acts.project import FLOWS, TARGETS
from tests.refused_calls import ERRORS, Call, RefusedCalls
from tidegate.errors import EX_CONFIG, EX_TEMPFAIL

PROJECT = Path(__file__).parents[2]
INCREMENTS = 12
"""After so many, Delta has written checkpoints of its logs and Spark has compacted its own."""
_TABLES = [re.escape(table).replace(r"\.", "[/.]") for table in TARGETS.values()]
_OF_FLOW = re.compile("|".join([*_TABLES, *(rf"(?<=acts/){flow}(?=/)|(?<=%\*F){flow}(?=\.)" for flow in FLOWS)]))
RUNS_BEFORE_A_CHECK = 3
MOST_CALLS = 9
"""That one test refuses: there are two to four times as many kinds, at five seconds each. The others follow in the next weeks."""
_ENDS_THE_JVM = re.compile(r"/LOCK$|/OPTIONS-[^/]*$")
"""If RocksDB cannot open its lock file or rename its options, the whole JVM crashes: a crash without a report, as after a kill."""


@dataclass(frozen=True)
class Answer:
    """One run of the driver."""

    code: int
    out: str
    refused: int
    calls: list[Call]
    wrong: list[str]
    """The flows whose tables differ from what they must hold when every run ended."""


@dataclass(frozen=True)
class Driver:
    """A process that runs the pipeline `acts` again and again."""

    process: subprocess.Popen[str]
    calls: RefusedCalls

    def run(self, call: Call | None = None, error: str = "", flows: Sequence[str] = FLOWS) -> Answer:
        """Land a file and run once."""
        refuse = None if call is None else (call.name, call.kind, error)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"refuse": refuse, "flows": list(flows)}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, (self.calls.control.with_name("driver.log")).read_text()[-6000:]
        answer: dict[str, Any] = json.loads(line)
        return Answer(**answer | {"calls": [Call(*each) for each in answer["calls"]]})


@contextmanager
def driver(folder: Path) -> Iterator[Driver]:
    """The process, with the preloaded library."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no C compiler")
    root = folder / "root"
    root.mkdir()
    calls = RefusedCalls.build(folder, root)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.refused_runs", root, calls.library, calls.control],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        env=inherited | calls.variables,
    )
    try:
        yield Driver(process, calls)
    finally:
        process.communicate()


def one_of_each(calls: Sequence[Call]) -> list[Call]:
    """Of the calls that differ only in the flow, one: of another flow for each kind of file."""
    kinds: dict[Call, list[Call]] = {}
    for call in sorted(calls):
        kinds.setdefault(Call(call.name, _OF_FLOW.sub("*", call.kind)), []).append(call)
    return [each[number % len(each)] for number, each in enumerate(kinds.values())]


def refuse_one_of_each(
    driver: Driver, flows: Sequence[str], of: Callable[[str], bool], *, increments: int = INCREMENTS
) -> None:
    """Refuse one call on each kind of file in a run each; after some of these runs, one without a refusal makes everything right.

    Of more than `MOST_CALLS` kinds, a share that changes with the week of the newest commit.

    Args:
        driver: With an empty lake.
        flows: The flows that run.
        of: Whether files of a kind are refused.
        increments: Runs before, from which it learns the kinds of files.
    """
    calls: set[Call] = set()
    for _ in range(increments):
        answer = driver.run(flows=flows)
        assert (answer.code, answer.wrong) == (0, []), answer.out
        calls |= set(answer.calls)
    kinds = one_of_each([call for call in calls if of(call.kind) and not _ENDS_THE_JVM.search(call.kind)])
    chosen = slices.of_week(kinds, MOST_CALLS)
    refused, wrong, unchecked = Counter[str](), list[str](), list[str]()
    for number, call in enumerate(chosen):
        error = ERRORS[number % len(ERRORS)]
        answer = driver.run(call, error, flows)
        refused[f"{call.name} {error}"] += answer.refused > 0
        unchecked.append(f"{call.name} of {call.kind}: {error}")
        wrong += [f"{unchecked[-1]}: {problem}\n{answer.out}" for problem in problems(driver, call, error, answer)]
        if len(unchecked) == RUNS_BEFORE_A_CHECK or number == len(chosen) - 1:
            answer = driver.run(flows=flows)
            if answer.code or answer.wrong:
                wrong.append(f"after {unchecked} exit code {answer.code}, wrong: {answer.wrong}\n{answer.out}")
            unchecked.clear()
    print(len(chosen), "of", len(kinds), "kinds of calls,", refused.total(), "refused:", dict(refused))
    assert not wrong, f"{len(wrong)} problems\n" + "\n\n".join(wrong)
    assert refused.total() > len(chosen) / 2 > MOST_CALLS / 3


def problems(driver: Driver, call: Call, error: str, answer: Answer) -> Iterator[str]:
    """What is wrong with a run in which a call was refused."""
    if "Traceback" in answer.out:
        yield "a traceback"
    if answer.refused and answer.code not in (0, EX_CONFIG if error == "EACCES" else EX_TEMPFAIL):
        yield f"exit code {answer.code}"
    # Java does not say why it could not rename a file.
    named = f"(?:{error}|EIO)" if call.name == "rename" else error
    if answer.code and not re.search(rf"{re.escape(str(driver.calls.root))}/.*\({named}\)\. \w", answer.out):
        yield "a message without file, error or next step"
