"""Which attempt runs a run: tries, drivers and people at once, in every order of their requests that chance makes.

Each actor is a thread that waits for its turn before each request to the store and to the cluster; who is next is drawn by lot. What must
hold is computed from the contents that the store has had, and knows nothing of how they were made.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import TIMEOUT_SECONDS
from tidegate.checkpoints import lease, recorded_attempt
from tidegate.checkpoints.recorded_attempt import (
    PAUSE_SECONDS,
    ApplicationStates,
    AttemptCheck,
    Cancellation,
    RunApplication,
)
from tidegate.errors import RunCancelledError, RunReplacedError
from tidegate.lake.layout import Layout
from tidegate.lake.place import RunPlace
from tidegate.store import Address
from tidegate.store.memory import MemoryStore
from tidegate.store.store import Content, Entry, Store

ADA = Cancellation(by="ada", at="2026-01-05T00:00:00Z", reason="the wrong day")


def place_in(store: Store) -> RunPlace:
    return RunPlace(Layout(Address(store), Address(MemoryStore())), "orders", "scheduled-1")


def attempt_of(number: int, **changed: Any) -> RunApplication:
    return dataclasses.replace(RunApplication(attempt=f"a{number}", request="q1", at="2026-01-05"), **changed)


class Applications(ApplicationStates):
    """A cluster whose applications are alive until they end or are killed."""

    def __init__(self) -> None:
        self.alive: dict[str, bool] = {}
        self.killed: list[str] = []

    def submit(self) -> str:
        name = f"application_1_{len(self.alive) + 1:04}"
        self.alive[name] = True
        return name

    def is_alive(self, application: str) -> bool:
        return self.alive[application]

    def kill(self, application: str) -> None:
        self.killed.append(application)
        self.alive[application] = False


# ------------------------------------------------------------------------------------------------------------- in every order


class Turns:
    """Threads that go on one request at a time, in an order drawn by lot."""

    def __init__(self, seed: int) -> None:
        self._lot = random.Random(seed)
        self._condition = threading.Condition()
        self._waiting: set[int] = set()
        self._running = 0
        self._next: int | None = None
        self._errors: list[BaseException] = []

    def start(self, act: Callable[[], None]) -> None:
        """Add an actor."""

        def run() -> None:
            try:
                self.take()
                act()
            except BaseException as error:
                self._errors.append(error)
            finally:
                with self._condition:
                    self._running -= 1
                    self._condition.notify_all()

        with self._condition:
            self._running += 1
        threading.Thread(target=run, daemon=True).start()

    def take(self) -> None:
        """Wait for the turn of the thread that calls."""
        own = threading.get_ident()
        with self._condition:
            self._waiting.add(own)
            self._condition.notify_all()
            self._await(lambda: self._next == own)
            self._next = None
            self._waiting.remove(own)

    def play(self) -> None:
        """Give turns until no actor is left."""
        while True:
            with self._condition:
                self._await(lambda: self._next is None and len(self._waiting) == self._running)
                if self._errors:
                    raise self._errors[0]
                if not self._running:
                    return
                self._next = self._lot.choice(sorted(self._waiting))
                self._condition.notify_all()

    def chance(self, share: float) -> bool:
        return self._lot.random() < share

    def _await(self, condition: Callable[[], bool]) -> None:
        assert self._condition.wait_for(condition, TIMEOUT_SECONDS)


@dataclass
class Written:
    """One content that the note has had, and what was true then."""

    value: RunApplication
    alive: dict[str, bool]
    killed: list[str]


class PlayedStore(MemoryStore):
    """Waits for a turn before each request, and keeps what was written."""

    def __init__(self, turns: Turns, cluster: Applications) -> None:
        super().__init__()
        self.turns, self.cluster = turns, cluster
        self.written: list[Written] = []

    def read(self, key: str) -> Content:
        self.turns.take()
        return super().read(key)

    def stat(self, key: str) -> Entry:
        self.turns.take()
        return super().stat(key)

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        self.turns.take()
        new = super().put_if(key, data, tag)
        value = RunApplication(**{**json.loads(data), "cancelled": None})
        if json.loads(data)["cancelled"]:
            value = dataclasses.replace(value, cancelled=ADA)
        self.written.append(Written(value, dict(self.cluster.alive), list(self.cluster.killed)))
        return new


class PlayedApplications(Applications):
    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns

    def is_alive(self, application: str) -> bool:
        self.turns.take()
        return super().is_alive(application)

    def kill(self, application: str) -> None:
        self.turns.take()
        super().kill(application)


@dataclass
class Play:
    """One run of a pipeline, its tries, drivers, and a person."""

    seed: int
    submitted: dict[str, str] = field(default_factory=dict)
    """Attempt to application."""
    attached: list[tuple[str, str]] = field(default_factory=list)
    """The attempt of a try, and the one for which it waits."""
    worked: list[tuple[str, str, int]] = field(default_factory=list)
    """Attempt and application of a driver, and how many contents the note had had at each step."""
    refused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.turns = Turns(self.seed)
        self.cluster = PlayedApplications(self.turns)
        self.store = PlayedStore(self.turns, self.cluster)
        self.place = place_in(self.store)
        self.has_cleared = self.seed % 3 == 0

    def play(self) -> None:
        for number in range(1, 4):
            # The third try is one of a task that a person has cleared, in some plays.
            clears = int(number == 3 and self.has_cleared)
            self.turns.start(partial(self.try_once, attempt_of(number, clears=clears)))
        if self.seed % 2:
            self.turns.start(self.cancel)
        self.turns.play()

    def try_once(self, own: RunApplication) -> None:
        known = recorded_attempt.claim(self.place, own, self.cluster)
        if known is not None:
            self.attached.append((own.attempt, known.attempt))
            return
        if self.turns.chance(0.15):
            # The process of the task ends before it submits.
            return
        application = self.cluster.submit()
        self.submitted[own.attempt] = application
        self.turns.start(lambda: self.drive(own.attempt, application))
        if self.turns.chance(0.3):
            # It ends before it records what the cluster has named.
            return
        try:
            recorded_attempt.name(self.place, own.attempt, application)
        except RunReplacedError:
            return

    def drive(self, attempt: str, application: str) -> None:
        if not self.cluster.alive[application]:
            return
        try:
            recorded_attempt.name(self.place, attempt, application)
        except RunReplacedError:
            self.refused.add(attempt)
            self.cluster.alive[application] = False
            return
        seconds = itertools.count(0, PAUSE_SECONDS)
        check = AttemptCheck(self.place, attempt, clock=lambda: next(seconds))
        for _ in range(3):
            if not self.cluster.alive[application]:
                return
            try:
                check.expect()
            except (RunCancelledError, RunReplacedError):
                break
            self.worked.append((attempt, application, len(self.store.written)))
        self.cluster.alive[application] = False

    def cancel(self) -> None:
        recorded_attempt.cancel(self.place, ADA)


def violations(play: Play) -> Iterator[str]:
    """What must hold of the contents that the note has had, one after the other."""
    written = play.store.written
    for before, after in itertools.pairwise(written):
        old, new = before.value, after.value
        if old.attempt == new.attempt:
            if old.cancelled and not new.cancelled:
                yield f"the cancellation of {old.attempt} is lost"
            if old.application and old.application != new.application:
                yield f"{old.attempt} has two applications"
        elif old.application and after.alive[old.application]:
            yield f"{new.attempt} replaces {old.attempt}, whose application is alive"
        elif old.application in after.killed and old.cancelled is None and not play.has_cleared:
            yield f"{new.attempt} has killed {old.attempt}, for which it should have waited"
    for attempt, application, count in play.worked:
        last = written[count - 1].value
        if (last.attempt, last.application) != (attempt, application) or last.cancelled is not None:
            yield f"the driver of {attempt} works, and {last} is recorded"
    for own, waited in play.attached:
        if not any(each.value.attempt == waited and each.value.application for each in written):
            yield f"{own} waits for {waited}, which has no application"


@pytest.mark.slow
def test_at_most_one_application_of_a_run_works_whatever_the_order() -> None:
    attached = killed = refused = cancelled = 0
    for seed in range(300):
        play = Play(seed)
        play.play()
        assert list(violations(play)) == [], seed
        attached, killed = attached + len(play.attached), killed + len(play.cluster.killed)
        refused += len(play.refused)
        cancelled += any(each.value.cancelled for each in play.store.written)
    # What the plays are about did happen.
    assert min(attached, killed, refused, cancelled) > 10, (attached, killed, refused, cancelled)


# --------------------------------------------------------------------------------------------------------------- one by one


def test_a_try_without_an_earlier_one_records_its_attempt() -> None:
    place, own = place_in(MemoryStore()), attempt_of(1)
    assert recorded_attempt.read(place) is None
    assert recorded_attempt.claim(place, own, Applications()) is None
    assert recorded_attempt.read(place) == own


@pytest.mark.parametrize(
    ("changed", "replaces"),
    [({}, False), ({"clears": 4}, True), ({"request": "q2"}, True)],
)
def test_a_later_try_waits_for_an_application_that_is_alive_unless_the_task_was_cleared(
    changed: dict[str, Any], replaces: bool
) -> None:
    place, cluster, lines = place_in(MemoryStore()), Applications(), list[str]()
    recorded_attempt.claim(place, attempt_of(1), cluster)
    application = cluster.submit()
    recorded_attempt.name(place, "a1", application)
    known = recorded_attempt.claim(place, attempt_of(2, **changed), cluster, lines.append)
    assert (known is None, cluster.killed, len(lines)) == (replaces, [application] if replaces else [], int(replaces))
    recorded = recorded_attempt.read(place)
    assert recorded is not None
    assert recorded.attempt == ("a2" if replaces else "a1")


def test_an_application_that_has_ended_is_replaced() -> None:
    place, cluster = place_in(MemoryStore()), Applications()
    recorded_attempt.claim(place, attempt_of(1), cluster)
    recorded_attempt.name(place, "a1", application := cluster.submit())
    cluster.alive[application] = False
    assert recorded_attempt.claim(place, attempt_of(2), cluster) is None
    assert cluster.killed == []
    assert recorded_attempt.read(place) == attempt_of(2)


def test_a_cancelled_application_is_killed_and_replaced_and_its_driver_ends() -> None:
    place, cluster = place_in(MemoryStore()), Applications()
    recorded_attempt.claim(place, attempt_of(1), cluster)
    recorded_attempt.name(place, "a1", application := cluster.submit())
    now = [0.0]
    check = AttemptCheck(place, "a1", clock=lambda: now[0])
    check.expect()
    cancelled = recorded_attempt.cancel(place, ADA)
    assert cancelled is not None
    # The first one who says so stays.
    assert recorded_attempt.cancel(place, dataclasses.replace(ADA, by="ben")) == cancelled
    check.expect()
    now[0] += PAUSE_SECONDS
    with pytest.raises(RunCancelledError, match="cancelled by ada at 2026-01-05T00:00:00Z: the wrong day"):
        check.expect()
    assert recorded_attempt.claim(place, attempt_of(2), cluster) is None
    assert cluster.killed == [application]
    with pytest.raises(RunReplacedError, match="attempt a2 is recorded"):
        AttemptCheck(place, "a1").expect()
    assert recorded_attempt.cancel(place, ADA, attempt="a1") is None


def test_where_the_cluster_cannot_be_asked_a_try_replaces_the_earlier_one_whose_driver_ends() -> None:
    place = place_in(MemoryStore())
    recorded_attempt.claim(place, attempt_of(1), None)
    recorded_attempt.name(place, "a1", "application_1_0001")
    assert recorded_attempt.claim(place, attempt_of(2), None) is None
    with pytest.raises(RunReplacedError):
        recorded_attempt.name(place, "a1", "application_1_0001")


def test_a_damaged_record_is_replaced() -> None:
    place = place_in(MemoryStore())
    place.application.put(b"{")
    assert recorded_attempt.claim(place, attempt_of(1), Applications()) is None
    assert recorded_attempt.read(place) == attempt_of(1)


def test_a_driver_in_a_bucket_reads_the_record_once_in_ten_seconds() -> None:
    class Counted(MemoryStore):
        reads = 0

        def read(self, key: str) -> Content:
            self.reads += 1
            return super().read(key)

    store, now = Counted(), [0.0]
    place = place_in(store)
    recorded_attempt.claim(place, attempt_of(1), None)
    store.reads = 0
    check = AttemptCheck(place, "a1", clock=lambda: now[0])
    for tenth in range(100):
        now[0] = tenth / 10
        check.expect()
    assert store.reads == 1
    now[0] = PAUSE_SECONDS
    check.expect()
    assert store.reads == 2


def test_a_driver_with_a_lake_in_a_folder_sees_a_cancellation_before_its_next_write(tmp_path: Path) -> None:
    place = RunPlace(Layout.local(tmp_path, tmp_path / "landing"), "orders", "scheduled-1")
    recorded_attempt.claim(place, attempt_of(1), None)
    check = AttemptCheck(place, "a1", clock=lambda: 0.0)
    check.expect()
    recorded_attempt.cancel(place, ADA)
    with pytest.raises(RunCancelledError):
        check.expect()
    Path(place.application).unlink()
    # What was seen is not forgotten.
    with pytest.raises(RunCancelledError):
        check.expect()


def test_every_write_of_a_driver_asks_for_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_in(MemoryStore())
    recorded_attempt.claim(place, attempt_of(1), None)
    monkeypatch.setattr(recorded_attempt, "_check", None)
    recorded_attempt.begin(place, "a1", {"CONTAINER_ID": "container_e17_1410901177871_0003_01_000001"})
    recorded = recorded_attempt.read(place)
    assert recorded is not None
    assert recorded.application == "application_1410901177871_0003"
    lease.expect_certain()
    with pytest.raises(RunReplacedError):
        recorded_attempt.begin(place, "a1", {"CONTAINER_ID": "container_1410901177871_0004_01_000001"})
    with pytest.raises(RunReplacedError):
        recorded_attempt.begin(place, "a2", {})


def test_a_driver_of_a_cancelled_run_starts_and_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_in(MemoryStore())
    recorded_attempt.claim(place, attempt_of(1), None)
    recorded_attempt.cancel(place, ADA)
    monkeypatch.setattr(recorded_attempt, "_check", None)
    recorded_attempt.begin(place, "a1", {})
    with pytest.raises(RunCancelledError):
        lease.expect_certain()


def test_a_process_of_no_container_has_no_application() -> None:
    assert recorded_attempt.application_of({}) is None
    assert recorded_attempt.application_of({"CONTAINER_ID": "docker"}) is None
    assert "CONTAINER_ID" not in os.environ
