"""Histories of a landing zone whose files are touched, copied, restored and overwritten between runs: each content is read once.

The judge knows what was on the disk at each time, in plain Python; it imports nothing of the product.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import spark_jobs
from tests import places
from tests.deployment import Deployment
from tests.fault_points import aborting
from tidegate.checkpoints.landing_folder import MOVED_FILES
from tidegate.checkpoints.note import Note
from tidegate.lake.place import FlowPlace
from tidegate.project import registry
from tidegate.project.resolution import resolve
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table
from tidegate.status import lag
from tidegate.status.source import Backlog

pytestmark = pytest.mark.jvm

FIRST_SECOND = 1_700_000_000
WINDOW = {"from_date": "2020-01-01", "to_date": "2035-01-01"}


@dataclass
class Landed:
    """A file as the disk and as the judge have it."""

    content: str
    second: int
    """Its modification time, in seconds since 1970."""
    contents: list[str] = field(default_factory=list)
    """All that it ever had."""
    read: list[str] = field(default_factory=list)
    """All that was read of it, the last one last."""
    read_at: set[int] = field(default_factory=set)
    """Its times when it was read."""

    @property
    def is_due(self) -> bool:
        """Whether what it has now was not read last. One that got back a time of a reading counts as what was read then."""
        return self.second not in self.read_at and self.content != (self.read[-1] if self.read else None)


class History:
    """A pipeline without keys, whose landing zone is changed at random."""

    def __init__(self, seed: int, deployment: Deployment, register: Callable[[Pipeline], None]) -> None:
        self.rng = random.Random(seed)
        self.deployment, self.register = deployment, register
        self.files: dict[str, Landed] = {}
        self.version = 1
        self.at_once = self.rng.choice([2, 100])
        self.log: list[str] = [f"seed {seed}, {self.at_once} files at once"]
        self.second = FIRST_SECOND
        self.acts: Counter[str] = Counter()
        self.declare()

    def declare(self) -> None:
        source = FileSource(
            path="shop", format="csv", schema="id INT NOT NULL, amount INT", max_files_per_trigger=self.at_once
        )
        bronze = Flow(name="bronze", source=source, target=Table("bronze.shop"), checkpoint_version=self.version)
        log = Flow(
            name="log", source=ChangeFeed("bronze.shop"), transform="touched_shop:rows", target=Table("silver.log")
        )
        self.pipeline = Pipeline(name="shop", flows=(bronze, log))
        self.register(self.pipeline)

    @property
    def place(self) -> FlowPlace:
        return places.of(self.deployment.layout, self.pipeline, self.pipeline.flow("bronze"))

    # What happens to the landing zone.

    def put(self, name: str, content: str, second: int) -> None:
        path = self.deployment.environment.landing / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(".draft")
        draft.write_text(content)
        os.utime(draft, (second, second))
        draft.rename(path)
        landed = self.files.setdefault(name, Landed(content, second))
        landed.content, landed.second = content, second
        landed.contents.append(content)

    def next_second(self) -> int:
        """A time that no file had, sometimes before all others."""
        self.second += 1
        return self.second - self.rng.choice([0, 0, 100_000_000])

    def new_content(self) -> str:
        """Two records, as long as all others, with ids that no other content has."""
        number = len(self.files) + sum(len(each.contents) for each in self.files.values())
        return f"id,amount\n{10_000 + number},1\n{20_000 + number},2\n"

    def land(self) -> None:
        self.put(f"it's {len(self.files)} @#%é.csv", self.new_content(), self.next_second())

    def touch(self) -> None:
        name, landed = self.some_file()
        self.put(name, landed.content, self.next_second())

    def restore_all(self) -> None:
        for name, landed in self.files.items():
            self.put(name, landed.content, self.next_second())

    def copy_back(self) -> None:
        name, landed = self.some_file()
        self.put(name, self.rng.choice(landed.contents), self.next_second())

    def overwrite(self) -> None:
        name, _ = self.some_file()
        self.put(name, self.new_content(), self.next_second())

    def lengthen(self) -> None:
        name, _ = self.some_file()
        self.put(name, self.new_content() + "3,3\n", self.next_second())

    def put_time_back(self) -> None:
        name, landed = self.some_file()
        if landed.read_at:
            content = self.rng.choice([landed.content, self.new_content()])
            self.put(name, content, self.rng.choice(sorted(landed.read_at)))

    def some_file(self) -> tuple[str, Landed]:
        return self.rng.choice(sorted(self.files.items()))

    # What runs, and what it reads.

    def increment(self) -> None:
        self.check_status()
        self.run(None)
        self.read(lambda landed: not landed.read)

    def new_version(self) -> None:
        self.version += 1
        self.declare()
        self.run(None)
        self.read(lambda landed: landed.is_due)

    def reingest(self) -> None:
        self.run({"mode": "reingest", "flows": ["bronze"]})
        self.run(None)
        self.read(lambda landed: landed.is_due)

    def reingest_window(self) -> None:
        self.run({"mode": "reingest", "flows": ["bronze"], **WINDOW})
        self.run(None)
        self.read(lambda landed: landed.is_due)

    def run(self, conf: Any) -> None:
        if conf is None:
            report = self.deployment.run("shop")
        else:
            report = self.deployment.try_run(RunRequest.check(self.pipeline, fresh_id("r"), conf, requested_by="ada"))
        assert all(flow.state in ("done", "idle") for flow in report.flows), (self.log, report)

    def read(self, reads: Callable[[Landed], bool]) -> None:
        for landed in self.files.values():
            if reads(landed):
                landed.read.append(landed.content)
                landed.read_at.add(landed.second)
        self.check_tables()
        self.check_status(after_run=True)

    def check_tables(self) -> None:
        lines = Counter(
            line for landed in self.files.values() for content in landed.read for line in content.splitlines()[1:]
        )
        stored = Counter(row["line"] for row in self.deployment.table("bronze.shop").to_pylist())
        assert stored == lines, (self.log, stored - lines, lines - stored)
        ids = Counter(f"{row['id']},{row['amount']}" for row in self.deployment.table("silver.log").to_pylist())
        assert ids == lines, self.log

    def check_status(self, *, after_run: bool = False) -> None:
        """No touched file is announced as overwritten; all are compared after a run, if it may compare so many."""
        backlog = self.backlog()
        overwritten = sum(landed.is_due for landed in self.files.values() if landed.read)
        assert backlog.rewritten <= overwritten, self.log
        if after_run and self.at_once == 100:
            assert (backlog.rewritten, backlog.touched, backlog.has_data) == (overwritten, 0, False), self.log

    def backlog(self) -> Backlog:
        flow = resolve(self.pipeline, self.deployment.environment.project).flow("bronze")
        return lag.measure(self.deployment.environment, flow).backlog

    def go_on(self, runs: int) -> None:
        self.land()
        self.increment()
        for _ in range(runs):
            for _ in range(self.rng.randrange(1, 5)):
                self.act(ZONE)
            self.act(RUNS)

    def act(self, weights: dict[str, int]) -> None:
        name = self.rng.choices(list(weights), list(weights.values()))[0]
        self.log.append(name)
        self.acts[name] += 1
        getattr(self, name)()


ZONE = {
    "land": 3,
    "touch": 3,
    "restore_all": 1,
    "copy_back": 2,
    "overwrite": 2,
    "lengthen": 1,
    "put_time_back": 2,
}
RUNS = {"increment": 4, "new_version": 2, "reingest": 2, "reingest_window": 2}


@pytest.fixture
def begin(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], History]:
    """A function that begins the history of a seed."""
    (tmp_path / "touched_shop.py").write_text(
        "def rows(of):\n    return of.select('_row_id', '_origin', 'id', 'amount')\n"
    )
    monkeypatch.setattr(spark_jobs, "__path__", [*spark_jobs.__path__, str(tmp_path)])
    return lambda seed: History(
        seed, deployment, lambda pipeline: monkeypatch.setattr(registry, "load", lambda name: pipeline)
    )


@pytest.mark.nightly
def test_an_increment_compares_as_many_files_as_a_batch_may_have_and_says_how_many_are_left(
    begin: Callable[[int], History],
) -> None:
    history = begin(6)
    history.at_once = 2
    history.declare()
    for _ in range(5):
        history.land()
    history.increment()
    history.restore_all()

    for compared, left in ((2, 3), (2, 1), (1, 0)):
        notes = history.deployment.run("shop").flow("bronze").notes
        files = "1 file" if compared == 1 else f"{compared} files"
        assert f"{files} with another time and the same size compared: {compared} the same as when read" in notes
        assert any("the next run compares them" in note for note in notes) == (left > 0), notes
        assert (history.backlog().touched, history.backlog().has_data) == (left, left > 0)
    assert not any("compared" in note for note in history.deployment.run("shop").flow("bronze").notes)
    history.new_version()


@contextlib.contextmanager
def at_the_note(act: Callable[[Any], None], when: str) -> Iterator[None]:
    """Call a function right before or after the times of compared files are noted, the first time."""
    original, reached = Note.change, list[str]()

    def change(note: Any, *args: Any, **options: Any) -> Any:
        is_first = note is MOVED_FILES and not reached
        if is_first:
            reached.append(when)
        if is_first and when == "before":
            act(None)
        result = original(note, *args, **options)
        if is_first and when == "after":
            act(None)
        return result

    with patch.object(Note, "change", change):
        yield


@pytest.mark.nightly
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_new_version_that_is_killed_around_the_note_of_compared_files_reads_nothing_twice(
    when: str, begin: Callable[[int], History], spark: Any
) -> None:
    history = begin(6)
    for _ in range(3):
        history.land()
    history.increment()
    history.restore_all()
    history.overwrite()
    history.version += 1
    history.declare()

    with aborting(lambda act: at_the_note(act, when), history.deployment.lake_folder, spark):
        history.deployment.run("shop")

    assert MOVED_FILES.exists(history.place) == (when == "after")
    history.run(None)
    history.read(lambda landed: landed.is_due)


@pytest.mark.parametrize(
    ("seed", "runs"), [(1, 3), *(pytest.param(seed, 9, marks=pytest.mark.nightly) for seed in (2, 3))]
)
def test_each_content_is_read_once_whatever_the_times_of_the_files(
    seed: int, runs: int, begin: Callable[[int], History]
) -> None:
    history = begin(seed)
    history.go_on(runs)
    assert history.acts.keys() & {"touch", "restore_all", "copy_back"}
    history.deployment.expect_a_balanced_ledger("shop")
