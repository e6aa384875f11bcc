"""Which application of a cluster runs a run: a note in the lake, for drivers that outlive the task that submitted them.

A driver on a cluster goes on when the process of its task has ended. So the task records its attempt before it submits, and the
application when the cluster has named it; the driver records the same when it starts, in case the task has ended between. Each write
expects what was read: of two tries one is recorded, and the driver of the other ends before it does anything.

The note of a cancelled run names who cancelled it. The driver reads the note before each of its writes, as it asks whether its leases are
certain (`tidegate.checkpoints.lease.expect_certain`): it ends when it is cancelled, or another attempt is recorded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidegate import json_codec
from tidegate.checkpoints.note import NoteKind
from tidegate.errors import RunCancelledError, RunReplacedError, WriteConflictError
from tidegate.lake.place import FlowPlace, RunPlace
from tidegate.reports.report import now

PAUSE_SECONDS = 10.0
"""A driver reads a note in a bucket at most so often. Of a file it asks the system before each write."""


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    """That a run is to end."""

    by: str
    at: str
    reason: str = ""

    def __str__(self) -> str:
        return f"cancelled by {self.by} at {self.at}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, kw_only=True)
class RunApplication:
    """The attempt that runs a run, and its application."""

    attempt: str
    request: str
    """The id of the request that it works on."""
    clears: int = 0
    """A number that a later try of the same task has too, and that another one replaces when a person clears the task."""
    application: str | None = None
    """As the cluster names it; None until it has."""
    at: str
    """When the attempt was recorded."""
    cancelled: Cancellation | None = None

    def continues(self, own: RunApplication) -> bool:
        """Whether a try that would begin an attempt of its own waits for this one instead."""
        return self.cancelled is None and (self.request, self.clears) == (own.request, own.clears)


APPLICATION: NoteKind[RunApplication, FlowPlace] = NoteKind(
    name="application",
    file="application.json",
    content=RunApplication,
    says="the attempt of the run whose driver is on a cluster, its application, and who has cancelled it",
    absent="no driver of the run was submitted to a cluster",
    written="the task `run` before it submits and when the cluster has named the application; the driver when it starts; "
    "`tidegate cancel`, or the task when it is killed",
)
"""In the folder of a run. A damaged one counts as absent, and is replaced."""
RUN_NOTES = (APPLICATION,)
"""The notes in the folder of a run; `tidegate.checkpoints.notes` has those of flows."""


class ApplicationStates(Protocol):
    """What a try asks of the cluster."""

    def is_alive(self, application: str) -> bool:
        """Whether an application waits or runs. Raises an error that is tried again where the cluster does not answer."""

    def kill(self, application: str) -> None:
        """Let the cluster end an application; one that has ended is left as it is."""


def read(place: RunPlace) -> RunApplication | None:
    """What is recorded of a run; None without it."""
    return _stored(place)[0]


def claim(
    place: RunPlace, own: RunApplication, cluster: ApplicationStates | None, say: Callable[[str], None] = lambda _: None
) -> RunApplication | None:
    """Record an attempt, unless the application of an earlier try is alive: then the caller waits for that one.

    One that was cancelled, whose task a person has cleared, or that works on another request, is killed and replaced.

    Args:
        place: The run.
        own: The attempt, with an application only if its name is chosen before it is submitted.
        cluster: None if it cannot be asked: then the attempt always replaces an earlier one, whose driver ends by itself.
        say: Gets a line about an application that is killed.

    Returns:
        None if the attempt is recorded, and is to be submitted; else the one to wait for, which has an application.

    Raises:
        TidegateError: As `ApplicationStates.is_alive`.
    """
    while True:
        known, tag = _stored(place)
        if (
            known is not None
            and known.application is not None
            and cluster is not None
            and cluster.is_alive(known.application)
        ):
            if known.continues(own):
                return known
            say(f"Application {known.application} of attempt {known.attempt} is killed: {_why(known, own)}")
            cluster.kill(known.application)
        with contextlib.suppress(WriteConflictError):
            _put(place, own, tag)
            return None


def name(place: RunPlace, attempt: str, application: str) -> None:
    """Record the application of an attempt.

    Raises:
        RunReplacedError: Another attempt, or another application of this one, is recorded. Transient.
    """
    while True:
        known, tag = _stored(place)
        if known is None or known.attempt != attempt or known.application not in (None, application):
            raise RunReplacedError(attempt, None if known is None else known.attempt)
        if known.application == application:
            return
        with contextlib.suppress(WriteConflictError):
            _put(place, dataclasses.replace(known, application=application), tag)
            return


def cancel(place: RunPlace, cancellation: Cancellation, *, attempt: str | None = None) -> RunApplication | None:
    """Record that the run is to end; the first one who says so stays. Returns what is recorded then.

    Args:
        place: The run.
        cancellation: Who, and why.
        attempt: Only this attempt, by default whichever is recorded.

    Returns:
        None if there is no such attempt.
    """
    while True:
        known, tag = _stored(place)
        if known is None or (attempt is not None and known.attempt != attempt):
            return None
        if known.cancelled is not None:
            return known
        cancelled = dataclasses.replace(known, cancelled=cancellation)
        with contextlib.suppress(WriteConflictError):
            _put(place, cancelled, tag)
            return cancelled


class AttemptCheck:
    """Whether the attempt of this process is the recorded one, and is not cancelled.

    Args:
        place: The run.
        attempt: The attempt.
        clock: In seconds.
    """

    def __init__(self, place: RunPlace, attempt: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._place, self._attempt, self._clock = place, attempt, clock
        self._revision: Hashable = None
        self._read_at: float | None = None
        self._error: RunCancelledError | RunReplacedError | None = None

    def expect(self) -> None:
        """Call before each write.

        A note that cannot be read, or is gone, changes nothing: the storage shows that elsewhere.

        Raises:
            RunCancelledError: The run was cancelled.
            RunReplacedError: Another attempt is recorded. Transient.
        """
        if self._error is None:
            with contextlib.suppress(OSError):
                if self._may_have_changed():
                    self._error = self._judge(read(self._place))
        if self._error is not None:
            raise self._error

    def _may_have_changed(self) -> bool:
        moment = self._clock()
        if self._place.application.store.is_local:
            revision = self._place.application.stat().revision
            changed, self._revision = revision != self._revision, revision
            return changed
        if self._read_at is not None and moment - self._read_at < PAUSE_SECONDS:
            return False
        self._read_at = moment
        return True

    def _judge(self, known: RunApplication | None) -> RunCancelledError | RunReplacedError | None:
        if known is None:
            return None
        if known.attempt != self._attempt:
            return RunReplacedError(self._attempt, known.attempt)
        return None if known.cancelled is None else RunCancelledError(known.cancelled.by, str(known.cancelled))


_check: AttemptCheck | None = None
"""That of this process, if it is such a driver."""


def begin(place: RunPlace, attempt: str, variables: Mapping[str, str]) -> None:
    """Record that this process is the driver of an attempt, before it does anything else; `expect_current` asks from now on.

    Args:
        place: The run.
        attempt: The attempt.
        variables: Environment variables of the process.

    Raises:
        RunReplacedError: Another attempt, or another application of this one, is recorded. Transient.
    """
    global _check
    if (application := application_of(variables)) is not None:
        name(place, attempt, application)
    check = AttemptCheck(place, attempt)
    with contextlib.suppress(RunCancelledError):
        # The application reports it.
        check.expect()
    _check = check


def expect_current() -> None:
    """Raise as `AttemptCheck.expect`, in the driver of a recorded attempt; nothing in other processes."""
    if _check is not None:
        _check.expect()


def application_of(variables: Mapping[str, str]) -> str | None:
    """The id of the application of YARN in one of whose containers a process runs; None elsewhere."""
    matched = re.match(r"container_(?:e\d+_)?(\d+_\d+)_", variables.get("CONTAINER_ID", ""))
    return None if matched is None else f"application_{matched[1]}"


def _why(known: RunApplication, own: RunApplication) -> str:
    if known.cancelled is not None:
        return str(known.cancelled)
    return "its task was cleared" if known.request == own.request else "the run has another request now"


def _stored(place: RunPlace) -> tuple[RunApplication | None, str | None]:
    try:
        content = place.application.read()
    except FileNotFoundError:
        return None, None
    return json_codec.value_of(place.application, content.data, RunApplication), content.tag


def _put(place: RunPlace, value: RunApplication, tag: str | None) -> None:
    place.application.put_if(json_codec.to_bytes(value), tag)


def begun(attempt: str, request: str, *, clears: int = 0) -> RunApplication:
    """What a try records before it submits."""
    return RunApplication(attempt=attempt, request=request, clears=clears, at=now())
