"""What is decided about quarantined entries without judging them again: they are waived, expired, or retired.

A decision is one commit to the quarantine table and one line of the ledger. The commit carries the line and the number
of the decision, so that a crash between the two loses nothing: the flow's next decision writes the line first.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Literal

from tidegate import identity
from tidegate.errors import RequestError
from tidegate.ops import ledger, store
from tidegate.probes import delta
from tidegate.quarantine import lifecycle
from tidegate.report import BatchRecord

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.checkpoints.checkpoint import CheckpointRef
    from tidegate.layout import Layout
    from tidegate.quarantine.selection import Selection

_Kind = Literal["waive", "expire", "retire", "retire_waived"]
_STATES: dict[_Kind, lifecycle.State] = {
    "waive": "waived",
    "expire": "expired",
    "retire": "expired",
    "retire_waived": "expired",
}
_IDS_AT_ONCE = 1_000
"""Named in one decision, so that a condition stays of a size that is read quickly."""


def waive(layout: Layout, pipeline: str, flow: str, selection: Selection, *, by: str, reason: str) -> int:
    """Give open entries up for good, in one commit.

    Args:
        layout: The lake; the caller holds the flow's lease.
        pipeline: Its name.
        flow: The flow's.
        selection: Which.
        by: Who.
        reason: Why; it stays with each entry, and with the entries alone.

    Returns:
        How many.

    Raises:
        RequestError: There is no reason.
    """
    if not reason.strip():
        raise RequestError("waiving needs a reason: say why these records will not be mended")
    where = f"{lifecycle.FREE} AND {selection.condition()}"
    return _Decisions(layout, pipeline, flow).take("waive", where, by=by, reason=reason.strip())


def expire(layout: Layout, pipeline: str, flow: str, selection: Selection, *, by: str) -> int:
    """Close open entries that have waited too long, in one commit, and return how many.

    Args:
        layout: The lake; the caller holds the flow's lease.
        pipeline: Its name.
        flow: The flow's.
        selection: Which; it says how old they must be.
        by: Who.

    Raises:
        RequestError: The selection has no age.
    """
    check_age(selection)
    where = f"{lifecycle.FREE} AND {selection.condition()}"
    return _Decisions(layout, pipeline, flow).take("expire", where, by=by, reason=f"older than {selection.older_than}")


def check_age(selection: Selection) -> None:
    """Refuse a selection that does not say how old what expires must be.

    Raises:
        RequestError: It has no age.
    """
    if selection.older_than is None:
        raise RequestError("expiring needs an age: say how long an entry may wait, as in 30d")


def retire(layout: Layout, ref: CheckpointRef) -> int:
    """Close rows that another checkpoint judged, now that this one has judged all records anew, and return how many.

    Also those that an interrupted replay has in hand: what it wrote was derived anew as well. What a person waived stays
    waived: where this checkpoint refuses such a row again, its new entry is waived too, by the same person for the same
    reason. Files stay open: a new checkpoint does not read them again.

    Args:
        layout: The lake; the caller holds the flow's lease.
        ref: The checkpoint that the live table belongs to.
    """
    of_others = f"level = 'row' AND (_checkpoint_version <> {ref.version} OR _refresh <> {ref.refresh})"
    reason = f"judged anew by checkpoint v{ref.version}/{ref.refresh}"
    decisions = _Decisions(layout, ref.dag_id, ref.flow)
    own = f"{lifecycle.FREE} AND _checkpoint_version = {ref.version} AND _refresh = {ref.refresh}"
    for (by, why), ids in lifecycle.waived(decisions.entries, of_others).items():
        for first in range(0, len(ids), _IDS_AT_ONCE):
            named = lifecycle.among(ids[first : first + _IDS_AT_ONCE])
            decisions.take("waive", f"{own} AND {named}", by=by, reason=why)
    # Only now: a crash before it finds the same rows again.
    waived = decisions.take("retire_waived", f"state = 'waived' AND {of_others}", by="tidegate", reason=reason)
    return waived + decisions.take("retire", f"state = 'open' AND {of_others}", by="tidegate", reason=reason)


class _Decisions:
    """Of one flow; their numbers are counted under a transaction id of their own."""

    def __init__(self, layout: Layout, pipeline: str, flow: str) -> None:
        self.layout = layout
        self.pipeline = pipeline
        self.flow = flow
        self.entries = layout.quarantine(pipeline, flow)
        self.app_id = f"{pipeline}/{flow}/{identity.DECISION}"

    def take(self, kind: _Kind, where: str, *, by: str, reason: str) -> int:
        """Close entries and record how many they were; nothing is written when there are none."""
        from deltalake import CommitProperties, Transaction

        self._finish()
        counted = store.select(self.entries, f"SELECT count(*) AS entries FROM held WHERE {where}")
        if not counted or not counted[0]["entries"]:
            return 0
        planned = BatchRecord(
            flow=self.flow,
            batch_id=(-1 if (held := delta.transaction_version(self.entries, self.app_id)) is None else held) + 1,
            app_id=self.app_id,
            kind=kind,
            read=counted[0]["entries"],
            rules=_by_rule(self.entries, where),
        )
        told = {"app_id": self.app_id, "batch_id": planned.batch_id, "planned": planned.to_json(), "by": by}
        commit = CommitProperties(
            custom_metadata={"userMetadata": json.dumps(told)},
            app_transactions=[Transaction(app_id=self.app_id, version=planned.batch_id)],
        )
        closed = lifecycle.close(self.entries, _STATES[kind], where, by=by, reason=reason, commit=commit)
        self._record(planned, closed, by)
        return closed

    def _finish(self) -> None:
        """Write the line of a decision that ended between its two commits."""
        number = delta.transaction_version(self.entries, self.app_id)
        recorded = delta.transaction_version(self.layout.ops(self.pipeline, "ledger"), self.app_id)
        if number is None or (recorded is not None and recorded >= number):
            return
        from deltalake import DeltaTable

        for info in DeltaTable(str(self.entries)).history():
            told = delta.user_metadata(info)
            if (told.get("app_id"), told.get("batch_id")) == (self.app_id, number):
                planned = BatchRecord.from_json(told["planned"])
                self._record(planned, int(info["operationMetrics"]["num_updated_rows"]), told["by"])
                return

    def _record(self, planned: BatchRecord, closed: int, by: str) -> None:
        line = dataclasses.replace(planned, closed=closed)
        ledger.record(self.layout, self.pipeline, line, {"mode": planned.kind, "requested_by": by})


def _by_rule(entries: Path, where: str) -> dict[str, int]:
    """How many entries broke each rule; one that broke two counts in both."""
    rows = store.select(
        entries,
        f"SELECT rule, count(*) AS entries FROM (SELECT unnest(rules) AS rule FROM held WHERE {where}) GROUP BY rule",
    )
    return {row["rule"]: row["entries"] for row in rows}
