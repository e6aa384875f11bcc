"""The lease as an object: one holder is certain at a time, whatever clocks, pauses, crashes and lost answers do."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.s3_server import S3Process
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate import json_codec
from tidegate.checkpoints import lease, object_lease
from tidegate.checkpoints.object_lease import Contender, LeaseRecord, ObjectLease
from tidegate.environment import Environment
from tidegate.errors import LeaseHeldError, LeaseLostError
from tidegate.lake.layout import Layout
from tidegate.processes import Process
from tidegate.store import Address, Content
from tidegate.store.memory import MemoryStore
from tidegate.store.wrapper import StoreWrapper

pytestmark = pytest.mark.slow

T = TypeVar("T")
TTL = 60.0
NAME = "checkpoint:flights/silver"


@dataclass
class World:
    """The time that no process knows."""

    now: float = 0.0
    ended: set[str] = field(default_factory=set)
    """The nonces of holders whose process has ended, as its own machine knows."""


@dataclass
class Skewed:
    """The clock of one process: it began at another time, and is faster or slower."""

    world: World
    offset: float = 0.0
    rate: float = 1.0

    def seconds(self) -> float:
        return self.offset + self.rate * self.world.now

    def sleep(self, seconds: float) -> None:
        self.world.now += seconds / self.rate


@dataclass(frozen=True)
class Trouble:
    """What happens to a request, and meanwhile."""

    before: float = 0.0
    """Seconds until it has its effect."""
    after: float = 0.0
    """Seconds until its answer."""
    is_lost: bool = False
    """The answer."""
    is_refused: bool = False
    other: int | None = None
    """Which other process does its next step just before the effect."""


class TroubledStore(StoreWrapper):
    """A store in memory, of whose requests the next ones have trouble."""

    def __init__(self, world: World) -> None:
        super().__init__(MemoryStore())
        self.world = world
        self.troubles: list[Trouble] = []
        self.step: Any = lambda _: None
        self.observe: Any = lambda: None

    def read(self, key: str) -> Content:
        return self._request(lambda: self.store.read(key))

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        return self._request(lambda: self.store.put_if(key, data, tag))

    def _request(self, act: Callable[[], T]) -> T:
        trouble = self.troubles.pop(0) if self.troubles else Trouble()
        self._wait(trouble.before)
        if trouble.other is not None:
            waiting, self.troubles = self.troubles, []
            self.step(trouble.other)
            self.troubles = waiting
        if trouble.is_refused:
            raise OSError(errno.ETIMEDOUT, "refused")
        result = act()
        self.observe()
        self._wait(trouble.after)
        if trouble.is_lost:
            raise OSError(errno.ETIMEDOUT, "lost")
        return result

    def _wait(self, seconds: float) -> None:
        self.world.now += seconds
        self.observe()

    # What no lease uses.
    open = put = append = delete = delete_folder = make_folder = move = list = stat = None  # type: ignore[assignment]


class Actor:
    """One process after the other that wants the lease."""

    def __init__(self, address: Address, clock: Skewed) -> None:
        self.address, self.clock = address, clock
        self.own: ObjectLease | None = None
        self.contender: Contender | None = None

    def attempt(self) -> None:
        """Go on with taking it."""
        if self.own is not None:
            return
        self.contender = self.contender or Contender(
            self.address, NAME, what="a run", process=None, ttl=TTL, clock=self.clock
        )
        try:
            self.own = self.contender.attempt()
        except (LeaseHeldError, OSError):
            self.contender = None
        if self.own is not None:
            self.contender = None

    def step(self) -> None:
        """What it does next of itself."""
        if self.own is None:
            self.attempt()
        else:
            self.own.renew()


SECONDS = st.sampled_from([0.0, 0.0, 0.0, 1.0, TTL / 6, TTL / 3, TTL / 2, TTL, 3 * TTL])
NUMBER = st.integers(0, 2)
TROUBLES = st.lists(
    st.builds(
        Trouble,
        before=SECONDS,
        after=SECONDS,
        is_lost=st.sampled_from([False, False, True]),
        is_refused=st.sampled_from([False, False, False, True]),
        other=st.none() | NUMBER,
    ),
    max_size=3,
)


class LeaseMachine(RuleBasedStateMachine):
    """Three processes at a time, one store, and every kind of trouble."""

    @initialize(
        rates=st.tuples(*[st.sampled_from([0.75, 1.0, 1.0, 1.4])] * 3),
        offsets=st.tuples(*[st.sampled_from([0.0, 1e6, -1e4])] * 3),
    )
    def begin(self, rates: tuple[float, ...], offsets: tuple[float, ...]) -> None:
        self.world = World()
        self.store = TroubledStore(self.world)
        address = Address(self.store) / "leases/a.json"
        clocks = [Skewed(self.world, offset, rate) for offset, rate in zip(offsets, rates, strict=True)]
        self.actors = [Actor(address, clock) for clock in clocks]
        self.store.step = lambda number: self.actors[number].step()
        self.store.observe = self.observe
        self.tokens: dict[str, int] = {}
        self.patches = patch.object(LeaseRecord, "has_ended", lambda record: record.nonce in self.world.ended)
        self.patches.start()

    def observe(self) -> None:
        """At each moment whoever is certain is the one whose record is stored."""
        stored = self.stored()
        certain = [actor.own for actor in self.actors if actor.own is not None and actor.own.is_certain]
        assert [own.record.nonce for own in certain] in ([], [stored.nonce if stored is not None else ""])
        if stored is not None:
            newest = max(self.tokens.values(), default=0)
            assert self.tokens.setdefault(stored.nonce, newest + 1) == stored.token

    def stored(self) -> LeaseRecord | None:
        try:
            return json_codec.decode(self.store.store.read("leases/a.json").data, LeaseRecord)
        except FileNotFoundError:
            return None

    @rule(number=NUMBER, troubles=TROUBLES)
    def attempt(self, number: int, troubles: list[Trouble]) -> None:
        self.store.troubles = troubles
        self.actors[number].attempt()
        self.observe()

    @rule(number=NUMBER, troubles=TROUBLES)
    def renew(self, number: int, troubles: list[Trouble]) -> None:
        own = self.actors[number].own
        if own is not None:
            self.store.troubles = troubles
            own.renew()
            self.observe()

    @rule(number=NUMBER, troubles=TROUBLES)
    def release(self, number: int, troubles: list[Trouble]) -> None:
        own, self.actors[number].own = self.actors[number].own, None
        if own is not None:
            self.store.troubles = troubles
            own.release()
            self.observe()

    @rule(number=NUMBER, is_known=st.booleans())
    def crash(self, number: int, is_known: bool) -> None:
        own, self.actors[number].own = self.actors[number].own, None
        self.actors[number].contender = None
        if own is not None and is_known:
            self.world.ended.add(own.record.nonce)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        """Also a pause, or a suspension, of all processes but those that act before it ends."""
        self.world.now += seconds
        self.observe()

    @precondition(lambda self: all(actor.own is None for actor in self.actors))
    @rule(number=NUMBER)
    def take_in_peace(self, number: int) -> None:
        """Whatever has happened: without further trouble the lease can be had, in a TTL by the clock of who wants it."""
        actor, begun = self.actors[number], self.actors[number].clock.seconds()
        self.store.troubles = []
        while actor.own is None and actor.clock.seconds() - begun <= TTL + 3:
            actor.attempt()
            actor.clock.sleep(1)
        assert actor.own is not None

    def teardown(self) -> None:
        if hasattr(self, "patches"):
            self.patches.stop()


@pytest.mark.parametrize("examples", [150, pytest.param(750, marks=pytest.mark.nightly)])
def test_only_the_holder_whose_record_is_stored_is_ever_certain(examples: int) -> None:
    run_state_machine_as_test(LeaseMachine, settings=settings(max_examples=examples, stateful_step_count=40))


def test_the_model_finds_a_holder_that_is_certain_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_certain(own: ObjectLease) -> bool:
        return not own._is_lost

    monkeypatch.setattr(ObjectLease, "is_certain", property(is_certain))
    only_find = settings(max_examples=1000, phases=[Phase.generate], report_multiple_bugs=False, derandomize=True)
    with pytest.raises(AssertionError, match="in "):
        run_state_machine_as_test(LeaseMachine, settings=only_find)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def store(world: World) -> TroubledStore:
    return TroubledStore(world)


def contender(store: TroubledStore, **more: Any) -> Contender:
    address = Address(store) / "leases/a.json"
    values = {"what": "attempt a1 of flights", "process": None, "ttl": TTL, "clock": Skewed(store.world)} | more
    return Contender(address, NAME, **values)


def take(store: TroubledStore, **more: Any) -> ObjectLease:
    own = contender(store, **more).attempt()
    assert own is not None
    return own


def test_a_lease_that_is_not_renewed_is_taken_over_after_its_ttl_and_not_before(store: TroubledStore) -> None:
    first, waiting = take(store), contender(store)
    for _ in range(60):
        assert waiting.attempt() is None
        assert first.is_certain == (store.world.now < TTL / 2)
        store.world.now += 1
    second = waiting.attempt()
    assert second is not None
    assert (second.record.token, first.record.token) == (2, 1)
    assert first.renew() is False
    with pytest.raises(LeaseLostError, match="another process has taken it") as lost:
        first.expect_certain()
    assert (lost.value.transient, lost.value.exit_code) == (True, 75)


def test_a_lease_that_is_renewed_is_never_taken_over(store: TroubledStore) -> None:
    first = take(store)
    for _ in range(5):
        waiting = contender(store)
        assert waiting.attempt() is None
        store.world.now += TTL / 3
        assert first.renew()
        with pytest.raises(LeaseHeldError, match=r"attempt a1 of flights .*, which renews it; 60 seconds after"):
            waiting.attempt()
        assert first.is_certain


@pytest.mark.parametrize("act", ["take", "take over", "renew", "release"])
@pytest.mark.parametrize("trouble", [Trouble(is_lost=True), Trouble(is_refused=True)], ids=["lost", "refused"])
def test_an_answer_that_is_lost_is_found_by_reading_back(store: TroubledStore, act: str, trouble: Trouble) -> None:
    if act == "take":
        store.troubles = [Trouble(), trouble]
        if trouble.is_refused:
            with pytest.raises(OSError, match="refused"):
                contender(store).attempt()
            return
        assert take(store).is_certain
        return
    own = take(store)
    if act == "take over":
        own.release()
        store.troubles = [Trouble(), trouble]
        if trouble.is_refused:
            with pytest.raises(OSError, match="refused"):
                contender(store).attempt()
            return
        assert take(store).record.token == 2
        return
    store.world.now += TTL / 3
    store.troubles = [trouble]
    if act == "renew":
        assert own.renew() is False
        assert own.renew() is trouble.is_refused
        assert own.is_certain
        store.world.now += TTL / 3
        assert own.renew()
        assert own.is_certain
    else:
        own.release()
        assert take(store).record.token == 2


def test_a_renewal_counts_from_its_beginning(store: TroubledStore) -> None:
    """The server may have written it at once."""
    own = take(store)
    store.troubles = [Trouble(after=TTL / 3)]
    assert own.renew()
    assert own.is_certain
    store.world.now += TTL / 6
    with pytest.raises(LeaseLostError, match="last renewed 30 seconds ago"):
        own.expect_certain()


def test_a_holder_that_has_ended_on_this_machine_is_replaced_at_once(store: TroubledStore) -> None:
    this = Process.named(os.getpid())
    assert this is not None
    ended = dataclasses.replace(this, started="long ago")
    for process in (ended, dataclasses.replace(ended, namespace="of another container"), this):
        store.store.delete("leases/a.json")
        take(store, process=process)
        second = contender(store).attempt()
        assert (second is not None) is (process is ended)


def test_a_content_of_a_later_version_is_watched_like_any_holder(store: TroubledStore) -> None:
    store.store.put("leases/a.json", b"{}")
    waiting = contender(store)
    assert waiting.attempt() is None
    store.world.now += TTL
    assert waiting.attempt() is not None


@pytest.fixture
def layout(monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(object_lease, "TTL_SECONDS", 0.6)
    store = MemoryStore()
    return Layout(Address(store), Address(store) / "landing")


def test_the_leases_of_a_lake_without_files_are_objects_that_a_thread_renews(layout: Layout) -> None:
    names = ("table:silver.flights", NAME)

    def last(name: str) -> LeaseRecord:
        record = object_lease.last(layout, name)
        assert record is not None
        return record

    assert [lease.holder(layout, name) for name in names] == [None, None]
    with object_lease.hold(layout, names, what="attempt a1 of flights"):
        first = [last(name) for name in names]
        assert {(lease.holder(layout, name) or "").partition(" (")[0] for name in names} == {"attempt a1 of flights"}
        assert lease.last_acquired(layout, NAME) is not None
        object_lease.expect_certain()
        wait_until(lambda: _beats(layout, names) >= 4, "both leases to be renewed twice")
        assert [each.nonce for each in map(last, names)] == [each.nonce for each in first]
        with pytest.raises(LeaseHeldError, match="attempt a1 of flights"), lease.hold(layout, (NAME,), what="another"):
            pytest.fail("two holders")
    assert [lease.holder(layout, name) for name in names] == [None, None]
    assert lease.last_acquired(layout, NAME) is None
    with lease.hold(layout, (NAME,), what="another"):
        assert (lease.holder(layout, NAME) or "").startswith("another (pid ")


def _beats(layout: Layout, names: tuple[str, ...]) -> int:
    return sum(record.beat for name in names if (record := object_lease.last(layout, name)) is not None)


def test_of_two_leases_both_are_held_or_none(layout: Layout) -> None:
    with object_lease.hold(layout, (NAME,), what="one", ttl=0.3):
        with (
            pytest.raises(LeaseHeldError),
            object_lease.hold(layout, ("a:first", NAME), what="another", ttl=0.3),
        ):
            pytest.fail("two holders")
        assert lease.holder(layout, "a:first") is None
    object_lease.expect_certain()


def test_a_holder_whose_storage_does_not_answer_stops_before_its_next_write(layout: Layout) -> None:
    with object_lease.hold(layout, (NAME,), what="one", ttl=0.3):
        layout.root.writable.put("leases/" + layout.lease_record(NAME).name, b"{}")
        wait_until(lambda: not _is_certain(), "the holder to find out")
        with pytest.raises(LeaseLostError, match="another process has taken it"):
            object_lease.expect_certain()
    object_lease.expect_certain()


def _is_certain() -> bool:
    try:
        object_lease.expect_certain()
    except LeaseLostError:
        return False
    return True


def test_of_many_that_want_a_lease_at_once_one_has_it(layout: Layout) -> None:
    inside, most, acquired = 0, 0, 0
    guard = threading.Lock()

    def run() -> None:
        nonlocal inside, most, acquired
        for _ in range(5):
            try:
                with object_lease.hold(layout, (NAME,), what="one", ttl=0.2):
                    with guard:
                        inside += 1
                        most, acquired = max(most, inside), acquired + 1
                    with guard:
                        inside -= 1
            except LeaseHeldError:
                continue

    threads = [threading.Thread(target=run) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert most == 1
    assert acquired >= 1


def test_a_local_lake_keeps_its_locks(tmp_path: Path) -> None:
    local = Layout.local(tmp_path / "lake", tmp_path / "landing")
    with lease.hold(local, (NAME,), what="one"):
        assert local.lease(NAME).exists()
        assert not local.lease_record(NAME).exists()
        object_lease.expect_certain()


HOLDER = """
import sys, time
from tidegate.checkpoints import lease, object_lease
from tidegate.environment import Environment
from tidegate.errors import LeaseLostError
from tidegate.lake.layout import Layout

object_lease.TTL_SECONDS = 3.0
with lease.hold(Layout.of(Environment.read()), ("checkpoint:flights/silver",), what="a process"):
    print("held", flush=True)
    sys.stdin.readline()
    try:
        lease.expect_certain()
        print("certain", flush=True)
    except LeaseLostError as error:
        print(error, flush=True)
"""


@contextmanager
def holder(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **environment}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_stopped_process_loses_its_lease_in_a_bucket_and_a_killed_one_leaves_it(
    s3_server: S3Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_lease, "TTL_SECONDS", 3.0)
    environment = {**s3_server.variables, "TIDEGATE_LAKE": f"s3://{s3_server.new_bucket()}/lake"}
    layout = Layout.of(Environment.read(environment))
    with holder(environment) as stopped:
        assert (lease.holder(layout, NAME) or "").startswith(f"a process (pid {stopped.pid} on ")
        with pytest.raises(LeaseHeldError, match="which renews it"), lease.hold(layout, (NAME,), what="another"):
            pytest.fail("two holders")
        stopped.send_signal(signal.SIGSTOP)
        with lease.hold(layout, (NAME,), what="another"):
            stopped.send_signal(signal.SIGCONT)
            answer, _ = stopped.communicate("go on\n", timeout=TIMEOUT_SECONDS)
            assert answer.startswith(f"the lease of {NAME} is lost: ")
            lease.expect_certain()
    with holder(environment) as killed:
        killed.kill()
        killed.wait()
        begun = time.monotonic()
        with lease.hold(layout, (NAME,), what="another"):
            assert time.monotonic() - begun < object_lease.TTL_SECONDS / 2


@pytest.fixture(autouse=True)
def _no_lease_is_left() -> Iterator[None]:
    yield
    assert object_lease._certain == set()
