"""The lease of a resource as an object, where there are no file locks: it is renewed by its holder, and may be taken over when it is not.

The object names its holder, and has a number of the holder (``token``) and of the renewal (``beat``), so that no two contents are equal. It
is created, renewed and taken over under conditions only (`Store.put_if`). Nobody compares clocks of two machines:

- A holder renews it every third of its time to live (TTL), and is certain of it until half a TTL after its last successful renewal began.
  Before each write it asks whether it is certain (`expect_certain`). The clock counts the time that the machine was suspended.
- Whoever finds it held watches it. If its tag changes, the holder lives. If one tag stood for a whole TTL by the clock of who watches, the
  lease is taken over, if it still has this tag.

So between the last moment at which the old holder was certain and the first of the new one there is half a TTL. A write that began while
its holder was certain may still end later, as after a pause in a request: then the transaction ids of Delta decide, not the lease.

A holder whose process has ended on the machine and in the process namespace of who asks is replaced at once.

Longer than 300 lines: the argument above holds for all of it together.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import pendulum

from tidegate import json_codec
from tidegate.errors import LeaseHeldError, LeaseLostError, WriteConflictError
from tidegate.lake.layout import Layout
from tidegate.processes import Process
from tidegate.reports.report import now
from tidegate.store import Address

TTL_SECONDS = 60.0
_certain: set[ObjectLease] = set()
"""The leases that this process holds."""


class Clock(Protocol):
    """The clock of a process."""

    def seconds(self) -> float:
        """Never set back, and counts the time that the machine was suspended."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class BootClock:
    """Seconds since the machine was started."""

    def seconds(self) -> float:
        """As `Clock.seconds`; where the system has no such clock, suspended time is missing."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def sleep(self, seconds: float) -> None:
        """As `Clock.sleep`."""
        time.sleep(seconds)


@dataclass(frozen=True, kw_only=True)
class LeaseRecord:
    """The content of a lease."""

    what: str
    """A description of the holder, for people."""
    host: str
    process: Process | None
    """The holder's process, on its machine."""
    nonce: str
    """Of one acquisition."""
    token: int
    """How many holders there were, with this one."""
    beat: int
    """How many times this holder wrote it."""
    ttl: float
    """In seconds."""
    since: str
    """When the holder took it, by its clock; only shown."""
    at: str
    """When it wrote this, by its clock; only shown."""
    released: bool = False

    def describe(self) -> str:
        """The holder, for messages."""
        pid = f"pid {self.process.pid} on " if self.process is not None else ""
        return f"{self.what} ({pid}{self.host}, since {self.since})"

    def has_ended(self) -> bool:
        """Whether the holder's process has certainly ended, which only its own machine and process namespace can tell."""
        return self.process is not None and self.process.is_of_this_namespace and not self.process.alive


@dataclass(frozen=True)
class _Stored:
    record: LeaseRecord | None
    """None if the content is none of this version."""
    tag: str


class ObjectLease:
    """A lease that this process has taken, and may have lost since. One thread renews it.

    Args:
        address: The object.
        resource: Its name, for messages.
        record: What was written last.
        tag: Its tag.
        begun: When the write began.
        clock: The clock of this process.
    """

    def __init__(
        self, address: Address, resource: str, record: LeaseRecord, tag: str, begun: float, clock: Clock
    ) -> None:
        self.resource = resource
        self.record = record
        self._address, self._tag, self._clock = address, tag, clock
        self._renewed = begun
        self._begun = {record.beat: begun}
        self._is_lost = False

    @property
    def is_certain(self) -> bool:
        """Whether nobody else can have taken it."""
        return not self._is_lost and self._clock.seconds() - self._renewed < self.record.ttl / 2

    def expect_certain(self) -> None:
        """Raise LeaseLostError unless nobody else can have taken it."""
        if not self.is_certain:
            raise LeaseLostError(self.resource, round(self._clock.seconds() - self._renewed), self._is_lost)

    def renew(self) -> bool:
        """Write it again, unless it is lost; returns whether there is no reason to try again soon."""
        return self._is_lost or self._write(released=False)

    def release(self) -> None:
        """Mark it as free, if it is still held; if that fails, others wait until it has not been renewed for long enough."""
        with contextlib.suppress(OSError):
            # The first attempt may only find out that an earlier renewal, whose answer was lost, took place.
            if not self._is_lost and not self._write(released=True) and not self._is_lost:
                self._write(released=True)

    def _write(self, *, released: bool) -> bool:
        begun = self._clock.seconds()
        record = dataclasses.replace(self.record, beat=max(self._begun) + 1, at=now(), released=released)
        self._begun[record.beat] = begun
        try:
            tag = self._address.put_if(_encoded(record), self._tag)
        except WriteConflictError:
            with contextlib.suppress(OSError):
                self._look()
            return False
        except OSError:
            return False
        self._accept(record, tag)
        return True

    def _look(self) -> None:
        """Find out who wrote it: an earlier renewal whose answer was lost, or another holder."""
        stored = _read(self._address)
        record = None if stored is None else stored.record
        if stored is None or record is None or record.nonce != self.record.nonce or record.beat not in self._begun:
            self._is_lost = True
        else:
            self._accept(record, stored.tag)

    def _accept(self, record: LeaseRecord, tag: str) -> None:
        self.record, self._tag = record, tag
        self._renewed = max(self._renewed, self._begun[record.beat])


class Contender:
    """Who wants a lease. It calls `attempt` until that returns it, or raises.

    Args:
        address: The object.
        resource: Its name, for messages.
        what: A description of this process, for people.
        process: This process.
        ttl: After how many seconds without a renewal others may take the lease.
        clock: The clock of this process.
    """

    def __init__(
        self, address: Address, resource: str, *, what: str, process: Process | None, ttl: float, clock: Clock
    ) -> None:
        self._address, self._resource, self._clock, self._ttl = address, resource, clock, ttl
        since = now()
        self._record = LeaseRecord(
            what=what,
            host=socket.gethostname(),
            process=process,
            nonce=secrets.token_hex(16),
            token=0,
            beat=0,
            ttl=ttl,
            since=since,
            at=since,
        )
        self._watched: tuple[str, float] | None = None
        """A tag, and since when it is known to stand."""

    def attempt(self) -> ObjectLease | None:
        """Take the lease if it is free; None while it must be watched.

        Raises:
            LeaseHeldError: Its holder lives, or another one was faster.
            OSError: As for every operation of a store.
        """
        stored = _read(self._address)
        # Not before the answer: the tag may be younger than the question.
        answered = self._clock.seconds()
        if stored is None:
            return self._take(None, 1)
        record = stored.record
        if record is not None and (record.released or record.has_ended()):
            return self._take(stored.tag, record.token + 1)
        if self._watched is None:
            self._watched = stored.tag, answered
        tag, since = self._watched
        if tag != stored.tag:
            raise self._conflict(record)
        if answered - since < max(self._ttl, record.ttl if record is not None else 0.0):
            return None
        return self._take(tag, record.token + 1 if record is not None else 1)

    def _take(self, tag: str | None, token: int) -> ObjectLease:
        record, begun = dataclasses.replace(self._record, token=token, at=now()), self._clock.seconds()
        try:
            new_tag = self._address.put_if(_encoded(record), tag)
        except (WriteConflictError, OSError) as error:
            # The answer may have been lost.
            stored = _read(self._address)
            if stored is not None and stored.record == record:
                new_tag = stored.tag
            elif isinstance(error, OSError):
                raise
            else:
                raise self._conflict(None if stored is None else stored.record) from None
        return ObjectLease(self._address, self._resource, record, new_tag, begun, self._clock)

    def _conflict(self, record: LeaseRecord | None) -> LeaseHeldError:
        if record is None:
            return LeaseHeldError(self._resource, "another process")
        wait = f"{record.ttl:g} seconds after the last renewal another process may take it"
        return LeaseHeldError(self._resource, f"{record.describe()}, which renews it; {wait}")


@contextmanager
def hold(
    layout: Layout,
    resources: tuple[str, ...],
    *,
    what: str,
    process: Process | None = None,
    ttl: float | None = None,
    clock: Clock | None = None,
) -> Iterator[None]:
    """Hold the leases of all given resources, or of none, and renew them in a thread.

    Args:
        layout: The lake.
        resources: As for `tidegate.checkpoints.lease.hold`.
        what: Likewise.
        process: The process that writes, if not this one.
        ttl: Seconds without a renewal after which others may take a lease.
        clock: The clock of this process.

    Raises:
        LeaseHeldError: Another process holds one of them. Transient.
        SetupError: The storage does not honour conditions.
    """
    layout.root.writable.check()
    ttl, clock = TTL_SECONDS if ttl is None else ttl, BootClock() if clock is None else clock
    process = Process.named(os.getpid()) if process is None else process
    leases: list[ObjectLease] = []
    ended = threading.Event()
    renewals = threading.Thread(target=_renew, args=(leases, ttl, ended), name="leases", daemon=True)
    renewals.start()
    try:
        for resource in sorted(resources):
            address = layout.lease_record(resource)
            contender = Contender(address, resource, what=what, process=process, ttl=ttl, clock=clock)
            while (lease := contender.attempt()) is None:
                clock.sleep(ttl / 12)
            leases.append(lease)
            _certain.add(lease)
        yield
    finally:
        ended.set()
        renewals.join()
        for each in reversed(leases):
            _certain.discard(each)
            each.release()


def expect_certain() -> None:
    """Raise LeaseLostError unless this process is certain of every lease that it holds."""
    for each in tuple(_certain):
        each.expect_certain()


def holder(layout: Layout, resource: str) -> LeaseRecord | None:
    """The holder of a lease; None if it is free, or seems to be.

    It seems to be free if it was not renewed for twice its TTL, by the clocks of holder and reader: that is only shown.
    """
    record = last(layout, resource)
    if record is None or record.has_ended():
        return None
    renewed = pendulum.parse(record.at)
    is_old = isinstance(renewed, datetime) and (datetime.now(UTC) - renewed).total_seconds() > 2 * record.ttl
    return None if is_old else record


def last(layout: Layout, resource: str) -> LeaseRecord | None:
    """The holder of a lease, or the last one if it did not release it."""
    stored = _read(layout.lease_record(resource))
    record = None if stored is None else stored.record
    return None if record is None or record.released else record


def _renew(leases: list[ObjectLease], ttl: float, ended: threading.Event) -> None:
    """Until the event is set; sooner again where the answer is not known."""
    pause = ttl / 3
    while not ended.wait(pause):
        renewed = [each.renew() for each in tuple(leases)]
        pause = ttl / 3 if all(renewed) else ttl / 12


def _encoded(record: LeaseRecord) -> bytes:
    return (json_codec.encode(record, indent=1) + "\n").encode()


def _read(address: Address) -> _Stored | None:
    try:
        content = address.read()
    except FileNotFoundError:
        return None
    try:
        return _Stored(json_codec.decode(content.data, LeaseRecord), content.tag)
    except ValueError:
        return _Stored(None, content.tag)
