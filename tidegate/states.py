"""The states of a flow, one table: what is known, whether a person is needed, and what to do next.

Every surface shows the `FlowState` that `status_of` makes of a reading, and only lays it out: the pages, the command line, the
tasks in Airflow and the texts of alerts. The first state of the table that holds is the state of the flow.
`docs/reference/states.md` is generated from the table.

Longer than 300 lines: it is one table, with the condition of each state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then, recover_command
from tidegate.errors import (
    BatchHeldError,
    ContractRefusedError,
    RewriteRefusedError,
    SourceUnavailableError,
    TableInDoubtError,
    TidegateError,
)

if TYPE_CHECKING:
    from tidegate.reports.report import FlowReport
    from tidegate.status.reading import Reading
    from tidegate.status.wait import RefusedBy

Tone = Literal["good", "calm", "busy", "wait", "bad"]
"""``good``, ``calm`` and ``busy`` need nothing, ``wait`` may resolve itself, ``bad`` needs a person."""

STALE = timedelta(seconds=60)
"""Pages show a reading that is older with a warning."""


@dataclass(frozen=True, kw_only=True)
class StateDescription:
    """One state of a flow."""

    known: str
    """What is known, for the documentation."""
    says: Callable[[Reading], str | None]
    """The sentence about the flow, without a full stop, if the flow is in this state; else None."""
    tone: Tone
    stops_readers: bool = False
    """Whether flows that read its table wait for it although it needs no person."""
    plain: bool = False
    """Whether lists show the state without the sentence, because their numbers say it."""
    next_step: Advice | None = None
    """What a person does, with ``{pipeline}`` and ``{flow}``; None if there is nothing to do."""

    @property
    def needs_person(self) -> bool:
        """Whether the flow goes on only after a person has done something."""
        return self.tone == "bad"

    @property
    def blocks(self) -> bool:
        """Whether flows that read its table wait for it."""
        return self.needs_person or self.stops_readers


@dataclass(frozen=True, kw_only=True)
class FlowState:
    """The state of one flow at the time of a reading."""

    name: str
    """Of the state, a key of `STATES`."""
    sentence: str
    reading: Reading

    @property
    def alerts(self) -> tuple[str, ...]:
        """The rules of its open alerts."""
        return self.reading.alerts

    @property
    def state(self) -> StateDescription:
        """The entry of the table."""
        return STATES[self.name]

    @property
    def tone(self) -> Tone:
        """That of its state."""
        return self.state.tone

    @property
    def label(self) -> str:
        """The name of the state; with the flow that it waits for, if it does."""
        return f"waits for {_name_for(self.reading)}" if self.name == "waits" else self.name

    @property
    def needs_person(self) -> bool:
        """Whether its state needs a person, or an alert about it is open."""
        return self.state.needs_person or bool(self.alerts)

    @property
    def next_step(self) -> str:
        """What a person does next; empty if there is nothing to do."""
        return self.advice.text if self.advice is not None else ""

    @property
    def advice(self) -> Advice | None:
        """The next step as data; None if there is nothing to do."""
        step, reading = self.state.next_step, self.reading
        if step is None:
            return None
        return step_for(step, reading.pipeline, reading.flow or "FLOW", takes_batches=reading.takes_batches)

    @property
    def text(self) -> str:
        """The sentence, and the next step if there is one; of a flow that waits also those of the flow that it waits for."""
        sentence, upstream = self.sentence.rstrip("."), self.reading.upstream
        if self.name == "waits" and upstream is not None:
            return f"{sentence}. About {_name_for(self.reading)}: {upstream.cause.text}"
        return f"{sentence}. Next: {self.next_step}." if self.next_step else f"{sentence}."


def step_for(step: Advice, pipeline: str, flow: str, *, takes_batches: bool) -> Advice:
    """A next step of the table, for one flow; without sending a batch to quarantine where a flow's kind does not allow it."""
    left = step if takes_batches else step.without("quarantine", "take")
    assert left is not None, "a state offers more than to send a batch to quarantine"
    return left.of(pipeline, flow)


def status_of(reading: Reading) -> FlowState:
    """The status of a flow: the first state that holds. After an error, no state after ``error`` is tried."""
    for name, state in STATES.items():
        if (sentence := state.says(reading)) is not None:
            return FlowState(name=name, sentence=sentence, reading=reading)
    raise AssertionError("unreachable: the last state always holds")


_REFUSED_BY = {
    BatchHeldError.__name__: "on hold",
    ContractRefusedError.__name__: "contract refused",
    RewriteRefusedError.__name__: "rewrite refused",
}
"""The state after a refusal, by the class of its error."""


def state_after(report: FlowReport | None) -> str:
    """The name of the state in which a flow is after a run that did not get to its end.

    Args:
        report: What the run reported about it; None if it reported nothing.
    """
    if report is None or report.state in ("waiting", "running"):
        return "crashed"
    if report.state == "refused":
        return _REFUSED_BY.get("" if report.error is None else report.error.kind, "refused")
    return "failed"


def _off(reading: Reading) -> str | None:
    off = reading.switched_off
    return off if off is not None and reading.holder is None else None


def _unreadable(reading: Reading) -> str | None:
    ends = reading.ends
    many = reading.error is not None and ends is not None and ends.failed_runs > 1
    return f"{reading.problem}; {ends.runs}" if many and ends is not None else reading.problem


def _running(reading: Reading) -> str | None:
    if reading.holder is None:
        return None
    failed = f"; before it {reading.ends.runs}" if reading.ends is not None and reading.ends.failure else ""
    return f"held by {reading.holder}{failed}"


def _reason_if(holds: Callable[[Reading], object]) -> Callable[[Reading], str | None]:
    """What says the reason of a reading, if something holds of it."""
    return lambda reading: reading.reason if holds(reading) else None


def _refused_by(by: RefusedBy) -> Callable[[Reading], str | None]:
    return _reason_if(lambda reading: reading.refused_by == by)


def _error_of(kind: type[TidegateError]) -> Callable[[Reading], str | None]:
    return lambda reading: _unreadable(reading) if isinstance(reading.error, kind) and not reading.late else None


def _ended(reading: Reading, *, crashed: bool) -> str | None:
    ends = reading.ends
    if ends is None or ends.sentence is None or ends.crashed != crashed:
        return None
    return f"{ends.sentence}; {reading.reason}" if crashed and reading.unfinished else ends.sentence


def waits_for(flow: str, state: str) -> str:
    """What is said about a flow that waits for another one, in that state."""
    return f"waits for {flow}: {state}"


def _waits(reading: Reading) -> str | None:
    upstream = reading.upstream
    if upstream is None or not upstream.blocks:
        return None
    stopped = upstream.pipeline == reading.pipeline and upstream.cause.needs_person
    if reading.has_work and not stopped:
        return None
    return waits_for(_name_for(reading), upstream.cause.state)


def _name_for(reading: Reading) -> str:
    """The flow that a flow waits for in the end."""
    assert reading.upstream is not None
    cause = reading.upstream.cause
    return cause.flow if cause.pipeline == reading.pipeline else cause.label


_RUN = Command.tidegate("run", "{pipeline}", says="`{}`")
_NEXT_RUN = Either(_RUN, OutsideAct("the next run of its schedule"))
_RUN_AGAIN = Either(_RUN, OutsideAct("clear the run in Airflow"))
_READABLE = Then(
    OutsideAct("remove the cause"),
    Command.tidegate("status", "{pipeline}", says="`{}` shows whether it can be read again"),
)
_CORRECT = Edit("correct suite, transform or data", "transform")
_OF_BATCH = ("{pipeline}", "{flow}", "--reason", "…")
_TAKE = Command.tidegate("quarantine", "take", *_OF_BATCH, says="`{}`")

STATES: Mapping[str, StateDescription] = {
    "off": StateDescription(
        known="a person switched it off, and no run works on it any more",
        says=_off,
        tone="calm",
        stops_readers=True,
        next_step=Command.tidegate("flow", "on", *_OF_BATCH, says="`{}`"),
    ),
    "unreachable": StateDescription(
        known="its source did not answer",
        says=_error_of(SourceUnavailableError),
        tone="bad",
        next_step=_READABLE,
    ),
    "not read": StateDescription(
        known="the lake was too slow for this reading, so nothing is known; the next one waits longer",
        says=lambda reading: reading.problem if reading.late else None,
        tone="wait",
    ),
    "in doubt": StateDescription(
        known="a table that it reads or writes does not have the history that is known of it: someone restored or replaced rows, or "
        "a part of it was lost or comes from an older copy",
        says=_error_of(TableInDoubtError),
        tone="bad",
        next_step=Then(
            Either(OutsideAct("put back what the table had"), recover_command()),
            Command.tidegate("status", "{pipeline}", says="`{}` shows whether its history is proven"),
        ),
    ),
    "error": StateDescription(
        known="its declaration, its checkpoint or its source cannot be read, or they do not fit each other",
        says=_unreadable,
        tone="bad",
        next_step=_READABLE,
    ),
    "running": StateDescription(
        known="a process holds the lease of its checkpoint or of its table",
        says=_running,
        tone="busy",
    ),
    "contract refused": StateDescription(
        known="its frozen contract refused the pending batch, and nobody has answered the schema change",
        says=_refused_by("contract"),
        tone="bad",
        next_step=Command.tidegate(
            "contract", "show", "{pipeline}", says="`{}` shows the schema change and how to answer it"
        ),
    ),
    "refused": StateDescription(
        known="its gate, or a transform that raises, refused the pending batch, and neither suite nor transform has changed since",
        says=_refused_by("gate"),
        tone="bad",
        next_step=Either(_CORRECT, _TAKE),
    ),
    "on hold": StateDescription(
        known="a statistic of the pending batch breaks its rule, nobody has decided about the batch, and neither the declared "
        "statistics nor the transform has changed since",
        says=_refused_by("statistic"),
        tone="bad",
        next_step=Either(
            Command.tidegate("quarantine", "accept", *_OF_BATCH, says="`{}`"),
            _TAKE,
            Edit("correct the statistic or the transform", "declaration"),
        ),
    ),
    "rewrite refused": StateDescription(
        known="the swap of a new table, or a snapshot, was refused for the rows that it would delete or quarantine, and nobody "
        "accepted them",
        says=_refused_by("limits"),
        tone="bad",
        next_step=Either(
            Then(_CORRECT, OutsideAct("repeat the request")),
            Then(
                Command.tidegate("run", "{pipeline}", "--dry-run", says="`{}` shows the numbers"),
                Edit("accept them with the command that the run's error names", "request"),
            ),
        ),
    ),
    "crashed": StateDescription(
        known="the last run left no final report, and no process holds its lease; of an increment, as long as the pipeline has work",
        says=lambda reading: _ended(reading, crashed=True),
        tone="bad",
        next_step=Then(OutsideAct("see the log of the task `run`"), _RUN_AGAIN),
    ),
    "failed": StateDescription(
        known="the last run of the flow reported an error, or its backfill was refused by a gate or a transform; of an increment, "
        "as long as the pipeline has work",
        says=lambda reading: _ended(reading, crashed=False),
        tone="bad",
        next_step=Then(OutsideAct("remove the cause"), _RUN_AGAIN),
    ),
    "waits": StateDescription(
        known="the flow that writes its source is in a state that stops this one, so it is not up to date even if it has read all",
        says=_waits,
        tone="wait",
        stops_readers=True,
    ),
    "written": StateDescription(
        known="its table has the pending batch; the ledger line, or the end of the batch in the checkpoint, is missing",
        says=_reason_if(lambda reading: reading.written),
        tone="wait",
        next_step=_NEXT_RUN,
    ),
    "refresh pending": StateDescription(
        known="a full refresh is staged and not swapped in",
        says=_reason_if(lambda reading: reading.refresh_pending),
        tone="wait",
        next_step=_NEXT_RUN,
    ),
    "unfinished": StateDescription(
        known="a batch was planned and not written, or a backfill or a replay was interrupted",
        says=_reason_if(lambda reading: reading.unfinished),
        tone="wait",
        next_step=_NEXT_RUN,
    ),
    "behind": StateDescription(
        known="its source has something that it has not read",
        says=_reason_if(lambda reading: reading.has_work),
        tone="wait",
        plain=True,
        next_step=_NEXT_RUN,
    ),
    "not begun": StateDescription(
        known="it never planned a batch, and there is nothing to read",
        says=_reason_if(lambda reading: reading.progress.last_planned is None),
        tone="calm",
        plain=True,
    ),
    "up to date": StateDescription(
        known="it has read all of its source, and nothing above it is stopped",
        says=lambda reading: reading.reason,
        tone="good",
        plain=True,
    ),
}
"""Every state by its name, in the order in which they are tried."""
