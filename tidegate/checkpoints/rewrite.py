"""The judgement of a backfill, a swap or a snapshot that was refused, or accepted and not written yet, as a file beside the checkpoints.

`plan`, the status of the flow and alerts read it without a JVM. The end of the flow's next run without an error deletes it. So a
refused backfill, which nothing waits for, is shown until then; a refused swap until its numbers are accepted, or a later
refresh takes its place; that of a snapshot until a batch takes a newer one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.checkpoints.note import Note
from tidegate.lake.place import FlowPlace
from tidegate.reports.impact import Impact
from tidegate.reports.report import now


@dataclass(frozen=True, kw_only=True)
class JudgedRewrite:
    """One judgement."""

    what: str
    """For messages: ``backfill 3 of 2013-01-01``, ``swap of v2/0``."""
    app_id: str
    """The transaction id of its writes."""
    impact: Impact
    reasons: tuple[str, ...] = ()
    """One phrase per exceeded limit, to follow "it would"; empty if it was accepted."""
    accepted: tuple[str, ...] = ()
    """The numbers that a request accepted (`tidegate.reports.impact.acceptance`): they stay accepted after a crash."""
    run_key: str = ""
    at: str = field(default_factory=now)
    """The instant, in UTC, as ISO 8601."""

    def summary(self) -> str:
        """What was refused, and why, in one line."""
        return f"{self.what} was refused on {self.at[:16]}: it would {' and '.join(self.reasons)}"


REWRITE: Note[JudgedRewrite, FlowPlace] = Note(
    name="rewrite",
    file="rewrite.json",
    content=JudgedRewrite,
    says="the backfill, swap or snapshot that was refused for its numbers of rows, or accepted and not written yet",
    absent="none was refused",
    written="a run of the flow, when it has judged one",
    cleared="the flow's next run that ends without an error; a batch that compares a newer snapshot than the refused one",
)


def record(place: FlowPlace, judged: JudgedRewrite) -> None:
    """Record a judgement in place of an earlier one; the caller holds the flow's lease."""
    REWRITE.write(place, judged)


def recorded(place: FlowPlace) -> JudgedRewrite | None:
    """The recorded judgement; None without one."""
    return REWRITE.read(place)


def refused(place: FlowPlace) -> JudgedRewrite | None:
    """The recorded judgement, if it is a refusal."""
    judged = recorded(place)
    return judged if judged is not None and judged.reasons else None


def clear(place: FlowPlace) -> None:
    """Delete the judgement, if there is one."""
    REWRITE.clear(place)
