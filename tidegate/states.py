"""The states of a flow, one table: what is known, whether a person is needed, and what to do next.

Every surface shows the `Status` that `status_of` makes of the facts, and only lays it out: the pages, the command line, the
tasks in Airflow and the texts of alerts. The first state of the table whose facts hold is the state of the flow.
`docs/reference/states.md` is generated from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then, recover_command
from tidegate.errors import BatchHeldError, ContractRefusedError, RewriteRefusedError

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.alerting.facts import RunEnds
    from tidegate.report import FlowReport

Tone = Literal["good", "calm", "busy", "wait", "bad"]
"""``good``, ``calm`` and ``busy`` need nothing, ``wait`` may resolve itself, ``bad`` needs a person."""

RefusedBy = Literal["gate", "statistic", "contract", "limits"]
"""``gate``: or a transform that raises. ``limits``: those of a swap (`tidegate.spec.RewriteLimits`)."""
STALE = timedelta(seconds=60)
"""Pages show a reading that is older with a warning."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a reading found out about one flow. Plain data; `tidegate.status.flow_status` collects it."""

    pipeline: str
    flow: str = ""
    """Empty if the pipeline's declaration does not load."""
    read_at: datetime | None = None
    """When the reading began."""
    error: str | None = None
    """Why the declaration, the checkpoint or the source could not be read."""
    unreachable: bool = False
    """Whether the error is a source that did not answer."""
    in_doubt: bool = False
    """Whether the error is that the history of a table is not proven (`tidegate.status.proofs`)."""
    late: bool = False
    """Whether the error is only that the reading ended before the lake itself was read: the machine is slow."""
    off: str | None = None
    """The decision that switched the flow off."""
    holder: str | None = None
    """The process that holds the lease of its checkpoint or of its table."""
    refused_by: RefusedBy | None = None
    """What refused the pending batch, if another attempt would be refused too."""
    ends: RunEnds | None = None
    """How the last runs ended; None if no run of the flow is known."""
    upstream: Status | None = None
    """The status of the flow that writes its source, if a flow does."""
    same_pipeline: bool = False
    """Whether that flow belongs to the same pipeline, so that a run that does not get past it skips this one."""
    has_work: bool = False
    """Whether there is something to read or to complete."""
    written: bool = False
    """Whether the table has the pending batch, and only its record is missing."""
    refresh_pending: bool = False
    """Whether a full refresh is staged and not swapped in."""
    unfinished: bool = False
    """Whether an earlier run left a batch, a backfill or a replay unfinished."""
    begun: bool = False
    """Whether a batch was ever planned in the present checkpoint."""
    takes_batches: bool = True
    """Whether all rows of a refused batch can go to quarantine, which depends on the kind of the flow."""
    reason: str = ""
    """Why there is work or none: one sentence without a full stop."""


@dataclass(frozen=True, kw_only=True)
class State:
    """One state of a flow."""

    known: str
    """What is known, for the documentation."""
    says: Callable[[Facts], str | None]
    """The sentence about the flow, without a full stop, if the flow is in this state; else None."""
    tone: Tone
    blocks: bool = False
    """Whether flows that read its table wait for it."""
    plain: bool = False
    """Whether lists show the state without the sentence, because their numbers say it."""
    next_step: Advice | None = None
    """What a person does, with ``{pipeline}`` and ``{flow}``; None if there is nothing to do."""

    @property
    def needs_person(self) -> bool:
        """Whether the flow goes on only after a person has done something."""
        return self.tone == "bad"


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of one flow at the time of a reading."""

    name: str
    """Of the state, a key of `STATES`."""
    sentence: str
    facts: Facts
    alerts: tuple[str, ...] = ()
    """The rules of its open alerts."""

    @property
    def state(self) -> State:
        """The entry of the table."""
        return STATES[self.name]

    @property
    def tone(self) -> Tone:
        """That of its state."""
        return self.state.tone

    @property
    def label(self) -> str:
        """The name of the state; with the flow that it waits for, if it does."""
        return f"waits for {_name_for(self.facts)}" if self.name == "waits" else self.name

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
        step, facts = self.state.next_step, self.facts
        if step is None:
            return None
        return step_for(step, facts.pipeline, facts.flow or "FLOW", takes_batches=facts.takes_batches)

    @property
    def text(self) -> str:
        """The sentence, and the next step if there is one; of a flow that waits also those of the flow that it waits for."""
        sentence = self.sentence.rstrip(".")
        if self.cause is not self:
            return f"{sentence}. About {_name_for(self.facts)}: {self.cause.text}"
        return f"{sentence}. Next: {self.next_step}." if self.next_step else f"{sentence}."

    @property
    def cause(self) -> Status:
        """The status that it waits for in the end; itself if it does not wait."""
        upstream = self.facts.upstream
        return upstream.cause if self.name == "waits" and upstream is not None else self


def step_for(step: Advice, pipeline: str, flow: str, *, takes_batches: bool) -> Advice:
    """A next step of the table, for one flow; without sending a batch to quarantine where a flow's kind does not allow it."""
    left = step if takes_batches else step.without("quarantine", "take")
    assert left is not None, "a state offers more than to send a batch to quarantine"
    return left.of(pipeline, flow)


def status_of(facts: Facts, alerts: tuple[str, ...] = ()) -> Status:
    """The status of a flow: the first state whose facts hold."""
    for name, state in STATES.items():
        if (sentence := state.says(facts)) is not None:
            return Status(name=name, sentence=sentence, facts=facts, alerts=alerts)
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
        return _REFUSED_BY.get(str((report.error or {}).get("kind")), "refused")
    return "failed"


def _off(facts: Facts) -> str | None:
    return facts.off if facts.holder is None else None


def _unreachable(facts: Facts) -> str | None:
    return _unreadable(facts) if facts.unreachable and not facts.late else None


def _unreadable(facts: Facts) -> str | None:
    many = facts.ends.failed_runs if facts.ends is not None else 0
    return f"{facts.error}; {facts.ends.runs}" if facts.error and facts.ends is not None and many > 1 else facts.error


def _running(facts: Facts) -> str | None:
    if facts.holder is None:
        return None
    failed = f"; before it {facts.ends.runs}" if facts.ends is not None and facts.ends.failure else ""
    return f"held by {facts.holder}{failed}"


def _ended(facts: Facts, *, crashed: bool) -> str | None:
    ends = facts.ends
    if ends is None or ends.sentence is None or ends.crashed != crashed:
        return None
    left = facts.reason if crashed and (facts.written or facts.unfinished) else ""
    return f"{ends.sentence}; {left}" if left else ends.sentence


def waits_for(flow: str, state: str) -> str:
    """What is said about a flow that waits for another one, in that state."""
    return f"waits for {flow}: {state}"


def _waits(facts: Facts) -> str | None:
    upstream = facts.upstream
    if upstream is None or not upstream.state.blocks:
        return None
    stopped = facts.same_pipeline and upstream.cause.state.needs_person
    if facts.has_work and not stopped:
        return None
    return waits_for(_name_for(facts), upstream.cause.name)


def _name_for(facts: Facts) -> str:
    """The flow that a flow waits for in the end."""
    assert facts.upstream is not None
    cause = facts.upstream.cause.facts
    return cause.flow if cause.pipeline == facts.pipeline else f"{cause.pipeline}/{cause.flow}"


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

STATES: Mapping[str, State] = {
    "off": State(
        known="a person switched it off, and no run works on it any more",
        says=_off,
        tone="calm",
        blocks=True,
        next_step=Command.tidegate("flow", "on", *_OF_BATCH, says="`{}`"),
    ),
    "unreachable": State(
        known="its source did not answer",
        says=_unreachable,
        tone="bad",
        blocks=True,
        next_step=_READABLE,
    ),
    "not read": State(
        known="the lake was too slow for this reading, so nothing is known; the next one waits longer",
        says=lambda facts: facts.error if facts.late else None,
        tone="wait",
    ),
    "in doubt": State(
        known="a table that it reads or writes does not have the history that is known of it: someone restored or replaced rows, or "
        "a part of it was lost or comes from an older copy",
        says=lambda facts: _unreadable(facts) if facts.in_doubt else None,
        tone="bad",
        blocks=True,
        next_step=Then(
            Either(OutsideAct("put back what the table had"), recover_command()),
            Command.tidegate("status", "{pipeline}", says="`{}` shows whether its history is proven"),
        ),
    ),
    "error": State(
        known="its declaration, its checkpoint or its source cannot be read, or they do not fit each other",
        says=_unreadable,
        tone="bad",
        blocks=True,
        next_step=_READABLE,
    ),
    "running": State(
        known="a process holds the lease of its checkpoint or of its table",
        says=_running,
        tone="busy",
    ),
    "contract refused": State(
        known="its frozen contract refused the pending batch, and nobody has answered the schema change",
        says=lambda facts: facts.reason if facts.refused_by == "contract" else None,
        tone="bad",
        blocks=True,
        next_step=Command.tidegate(
            "contract", "show", "{pipeline}", says="`{}` shows the schema change and how to answer it"
        ),
    ),
    "refused": State(
        known="its gate, or a transform that raises, refused the pending batch, and neither suite nor transform has changed since",
        says=lambda facts: facts.reason if facts.refused_by == "gate" else None,
        tone="bad",
        blocks=True,
        next_step=Either(_CORRECT, _TAKE),
    ),
    "on hold": State(
        known="a statistic of the pending batch breaks its rule, nobody has decided about the batch, and neither the declared "
        "statistics nor the transform has changed since",
        says=lambda facts: facts.reason if facts.refused_by == "statistic" else None,
        tone="bad",
        blocks=True,
        next_step=Either(
            Command.tidegate("quarantine", "accept", *_OF_BATCH, says="`{}`"),
            _TAKE,
            Edit("correct the statistic or the transform", "declaration"),
        ),
    ),
    "rewrite refused": State(
        known="the swap of a new table, or a snapshot, was refused for the rows that it would delete or quarantine, and nobody "
        "accepted them",
        says=lambda facts: facts.reason if facts.refused_by == "limits" else None,
        tone="bad",
        blocks=True,
        next_step=Either(
            Then(_CORRECT, OutsideAct("repeat the request")),
            Then(
                Command.tidegate("run", "{pipeline}", "--dry-run", says="`{}` shows the numbers"),
                Edit("accept them with the command that the run's error names", "request"),
            ),
        ),
    ),
    "crashed": State(
        known="the last run left no final report, and no process holds its lease; of an increment, as long as the pipeline has work",
        says=lambda facts: _ended(facts, crashed=True),
        tone="bad",
        blocks=True,
        next_step=Then(OutsideAct("see the log of the task `run`"), _RUN_AGAIN),
    ),
    "failed": State(
        known="the last run of the flow reported an error, or its backfill was refused by a gate or a transform; of an increment, "
        "as long as the pipeline has work",
        says=lambda facts: _ended(facts, crashed=False),
        tone="bad",
        blocks=True,
        next_step=Then(OutsideAct("remove the cause"), _RUN_AGAIN),
    ),
    "waits": State(
        known="the flow that writes its source is in a state that stops this one, so it is not up to date even if it has read all",
        says=_waits,
        tone="wait",
        blocks=True,
    ),
    "written": State(
        known="its table has the pending batch; the ledger line, or the end of the batch in the checkpoint, is missing",
        says=lambda facts: facts.reason if facts.written else None,
        tone="wait",
        next_step=_NEXT_RUN,
    ),
    "refresh pending": State(
        known="a full refresh is staged and not swapped in",
        says=lambda facts: facts.reason if facts.refresh_pending else None,
        tone="wait",
        next_step=_NEXT_RUN,
    ),
    "unfinished": State(
        known="a batch was planned and not written, or a backfill or a replay was interrupted",
        says=lambda facts: facts.reason if facts.unfinished else None,
        tone="wait",
        next_step=_NEXT_RUN,
    ),
    "behind": State(
        known="its source has something that it has not read",
        says=lambda facts: facts.reason if facts.has_work else None,
        tone="wait",
        plain=True,
        next_step=_NEXT_RUN,
    ),
    "not begun": State(
        known="it never planned a batch, and there is nothing to read",
        says=lambda facts: None if facts.begun else facts.reason,
        tone="calm",
        plain=True,
    ),
    "up to date": State(
        known="it has read all of its source, and nothing above it is stopped",
        says=lambda facts: facts.reason,
        tone="good",
        plain=True,
    ),
}
"""Every state by its name, in the order in which they are tried."""
