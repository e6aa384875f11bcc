"""Actions on a flow's quarantine, for the command line, the DAG `quarantine` and the job. They start no JVM.

`waive`, `expire` and `retire` close entries without judging them again. Such a decision is one commit to the quarantine table
and one line of the ledger. The commit carries the prepared line and the number of the decision. After a crash between the two,
the flow's next decision writes the missing line first.
"""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tidegate import hidden, json_codec
from tidegate.advice import Edit
from tidegate.checkpoints import checkpoint, lease, overrides, refusal
from tidegate.errors import RequestError
from tidegate.lake import identity
from tidegate.lake.place import FlowPlace, Place
from tidegate.ops import ledger, store
from tidegate.probes import delta, delta_table
from tidegate.quarantine import claims, lifecycle
from tidegate.reports.ledger_line import LedgerLine

if TYPE_CHECKING:
    from tidegate.quarantine.selection import Selection
    from tidegate.spec import Flow
    from tidegate.store import Address

_Kind = Literal["waive", "expire", "retire", "retire_waived"]
_STATES: dict[_Kind, lifecycle.State] = {
    "waive": "waived",
    "expire": "expired",
    "retire": "expired",
    "retire_waived": "expired",
}
_IDS_AT_ONCE = 1_000
"""Entries per decision, which bounds the size of the SQL condition."""


@dataclass(frozen=True, kw_only=True)
class Closed:
    """What waiving or expiring did to the entries of one flow."""

    entries: int
    """How many were closed; in a dry run, how many would be."""
    counts: lifecycle.EntryCounts
    """All entries afterwards."""


@dataclass(frozen=True, kw_only=True)
class Replayable:
    """What a replay of one flow would process."""

    entries: int
    """Selected open entries that no replay has claimed."""
    interrupted: int
    """Entries of an interrupted replay, which are finished first; 0 for a dry run, which does not finish it."""


def waive(place: FlowPlace, selection: Selection, *, by: str, reason: str, dry_run: bool = False) -> Closed:
    """Close open entries as ``waived``, in one commit, under the flow's lease.

    Args:
        reason: Stored in the entries only; the ledger does not show it. A dry run needs none.
        dry_run: Count the entries and change nothing.

    Raises:
        RequestError: The reason is empty.
        LeaseHeldError: A run of the flow is in progress. Transient.
    """
    if not (reason.strip() or dry_run):
        raise RequestError("waiving needs a reason", Edit("say why these records will not be corrected", "request"))
    return _close(place, "waive", selection, by=by, reason=reason.strip(), dry_run=dry_run)


def expire(place: FlowPlace, selection: Selection, *, by: str, dry_run: bool = False) -> Closed:
    """Close old entries as ``expired``, in one commit, under the flow's lease. The arguments are those of `waive`.

    Raises:
        RequestError: The selection contains no minimum age.
        LeaseHeldError: A run of the flow is in progress. Transient.
    """
    if selection.older_than is None:
        raise RequestError(
            "expiring needs an age", Edit("give the minimum age of an entry, for example 30d", "request")
        )
    reason = f"older than {selection.older_than}"
    return _close(place, "expire", selection, by=by, reason=reason, dry_run=dry_run)


def decide_batch(place: FlowPlace, flow: Flow, *, by: str, reason: str, action: refusal.Action = "take") -> int:
    """Let the flow's next run quarantine its refused batch as a whole, or accept one that is held; returns the batch's id.

    Raises:
        RequestError, CheckpointCorruptError: See `refusal.decide`.
        LeaseHeldError: A run of the flow is in progress. Transient.
    """
    with _lease(place, action, by):
        current = checkpoint.current(place, flow.checkpoint_version)
        return refusal.decide(current, flow, by=by, reason=reason, action=action)


def check_replay(place: FlowPlace, selection: Selection, *, dry_run: bool) -> Replayable:
    """Check, before a JVM starts, that a replay is allowed, and count what it would process.

    Raises:
        RequestError: The flow is switched off.
    """
    overrides.check_on(place)
    path = place.quarantine
    claim = None if dry_run else claims.unfinished_claim(path)
    return Replayable(
        entries=lifecycle.count_unclaimed(path, selection), interrupted=0 if claim is None else claim.entries
    )


def retire(place: Place) -> int:
    """Close entries of rows that an earlier checkpoint refused, after this one has read all records again.

    Includes the entries of an interrupted replay: the rows that it wrote were derived again, too. A person's waiver stays
    in force: if this checkpoint refused such a row again, its new entry is waived as well, by the same person and with
    the same reason. A batch that a statistic dropped is no waiver of a person. Entries of files stay open: a new checkpoint does not
    read these files again.

    Args:
        place: The checkpoint that the live table belongs to; the caller holds the flow's lease.

    Returns:
        How many entries were closed as ``expired``.
    """
    of_others = (
        f"level = 'row' AND ({hidden.CHECKPOINT_VERSION} <> {place.version} OR {hidden.REFRESH} <> {place.refresh})"
    )
    reason = f"judged again by checkpoint v{place.version}/{place.refresh}"
    decisions = _Decisions(place)
    own = f"{lifecycle.UNCLAIMED} AND {hidden.CHECKPOINT_VERSION} = {place.version} AND {hidden.REFRESH} = {place.refresh}"
    of_persons = f"{of_others} AND changed_by <> 'tidegate'"
    for (by, why), ids in lifecycle.waived_ids(decisions.entries, of_persons).items():
        for first in range(0, len(ids), _IDS_AT_ONCE):
            same_rows = lifecycle.id_condition(ids[first : first + _IDS_AT_ONCE])
            decisions.close_entries("waive", f"{own} AND {same_rows}", by=by, reason=why)
    # After the waivers were copied: a retry after a crash must still find these entries in state waived.
    retired = decisions.close_entries(
        "retire_waived", f"state = 'waived' AND {of_others}", by="tidegate", reason=reason
    )
    return retired + decisions.close_entries("retire", f"state = 'open' AND {of_others}", by="tidegate", reason=reason)


def retire_batches_before(place: Place, batch_id: int, what: str) -> int:
    """Close the open entries of earlier batches of a stream whose batches each have all rows of the table.

    Args:
        place: The checkpoint; the caller holds the flow's lease.
        batch_id: The newest batch.
        what: What it has read, for the entries.

    Returns:
        How many entries were closed as ``expired``.
    """
    where = (
        f"state = 'open' AND level = 'row' AND {hidden.APP_ID} = '{place.app_id}' AND {hidden.BATCH_ID} < {batch_id}"
    )
    decisions = _Decisions(place)
    return decisions.close_entries("retire", where, by="tidegate", reason=f"{what} takes its place")


def _close(
    place: FlowPlace, kind: Literal["waive", "expire"], selection: Selection, *, by: str, reason: str, dry_run: bool
) -> Closed:
    path = place.quarantine
    if dry_run or not path.exists():
        entries = lifecycle.count_unclaimed(path, selection)
        return Closed(entries=entries, counts=lifecycle.entry_counts(path))
    where = f"{lifecycle.UNCLAIMED} AND {selection.condition()}"
    with _lease(place, kind, by):
        entries = _Decisions(place).close_entries(kind, where, by=by, reason=reason)
    return Closed(entries=entries, counts=lifecycle.entry_counts(path))


def _lease(place: FlowPlace, action: str, by: str) -> AbstractContextManager[None]:
    resource = lease.checkpoint_resource(place.pipeline, place.flow)
    return lease.hold(
        place.layout, (resource,), what=f"{action} of {place.pipeline}/{place.flow} in quarantine, by {by}"
    )


class _Decisions:
    """The decisions of one flow, numbered under their own transaction id."""

    def __init__(self, place: FlowPlace) -> None:
        self.place = place
        self.entries = place.quarantine
        self.app_id = f"{place.pipeline}/{place.flow}/{identity.DECISION}"

    def close_entries(self, kind: _Kind, where: str, *, by: str, reason: str) -> int:
        """Close the entries that match an SQL condition, record the decision and return their number.

        Without matching entries nothing is written.
        """
        from deltalake import CommitProperties, Transaction

        self._record_unfinished()
        counts = store.select(self.entries, f"SELECT count(*) AS entries FROM delta_table WHERE {where}")
        if not counts or not counts[0]["entries"]:
            return 0
        previous = delta.transaction_version(self.entries, self.app_id)
        prepared = LedgerLine(
            flow=self.place.flow,
            batch_id=0 if previous is None else previous + 1,
            app_id=self.app_id,
            kind=kind,
            read=counts[0]["entries"],
            rules=_by_rule(self.entries, where),
        )
        metadata = {"app_id": self.app_id, "batch_id": prepared.batch_id, "prepared": prepared, "by": by}
        commit = CommitProperties(
            custom_metadata={"userMetadata": json_codec.encode(metadata)},
            app_transactions=[Transaction(app_id=self.app_id, version=prepared.batch_id)],
        )
        closed = lifecycle.close(self.entries, _STATES[kind], where, by=by, reason=reason, commit=commit)
        self._record(prepared, closed, by)
        return closed

    def _record_unfinished(self) -> None:
        """Write the missing ledger line of a decision that crashed between its two commits."""
        number = delta.transaction_version(self.entries, self.app_id)
        recorded = delta.transaction_version(self.place.of_pipeline.ops("ledger"), self.app_id)
        if number is None or (recorded is not None and recorded >= number):
            return
        for info in delta_table.open_table(self.entries).history():
            metadata = delta.user_metadata(info)
            if (metadata.get("app_id"), metadata.get("batch_id")) == (self.app_id, number):
                prepared = json_codec.from_plain(metadata["prepared"], LedgerLine)
                self._record(prepared, int(info["operationMetrics"]["num_updated_rows"]), metadata["by"])
                return

    def _record(self, prepared: LedgerLine, closed: int, by: str) -> None:
        line = dataclasses.replace(prepared, closed=closed)
        ledger.record(self.place.of_pipeline, line, ledger.RunOrigin(mode=prepared.kind, requested_by=by))


def _by_rule(entries: Address, where: str) -> dict[str, int]:
    """Entries per rule; an entry that broke two rules counts for both."""
    rows = store.select(
        entries,
        f"SELECT rule, count(*) AS entries FROM (SELECT unnest(rules) AS rule FROM delta_table WHERE {where}) GROUP BY rule",
    )
    return {row["rule"]: row["entries"] for row in rows}
