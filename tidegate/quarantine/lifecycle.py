"""States of the entries of a flow's quarantine: an entry is open until it is replayed, waived, expired or withdrawn.

Entries are never deleted. A state changes in one commit by delta-rs, without a JVM, and always under the flow's lease
(`tidegate.checkpoints.lease.hold`, or `tidegate.spark.driver.lease.hold` within a job), so that the table has one writer.
Claims of replays are in `tidegate.quarantine.claims`, waiving and expiring in `tidegate.quarantine.decision`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pendulum

from tidegate import hidden
from tidegate.ops import store
from tidegate.probes import delta_table
from tidegate.quarantine.selection import Selection
from tidegate.times import dates

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.store import Address

State = Literal["open", "replayed", "waived", "expired", "withdrawn"]
STATES: tuple[State, ...] = ("open", "replayed", "waived", "expired", "withdrawn")
"""``open``: waits for a replay or a decision. ``replayed``: passed when it was judged again. ``waived``: a person closed it,
with a reason. ``expired``: closed because of its age, or because a new checkpoint version judged its record again.
``withdrawn``: the run that created it was undone, so its row is what it was before."""

UNCLAIMED = f"state = 'open' AND {hidden.IN_HAND} IS NULL"
"""SQL condition: open entries that no replay has claimed."""


@dataclass(frozen=True, kw_only=True)
class EntryCounts:
    """Numbers of entries in a flow's quarantine."""

    states: Mapping[str, int]
    """Entries by state."""
    claimed: int
    """Open entries of an unfinished claim; the next replay finishes it first."""
    oldest_ms: int | None
    """When the oldest open entry was quarantined, in milliseconds since 1970."""

    @property
    def open(self) -> int:
        """How many entries are open."""
        return self.states.get("open", 0)

    @property
    def oldest(self) -> datetime | None:
        """`oldest_ms` as an instant in UTC."""
        return None if self.oldest_ms is None else pendulum.from_timestamp(self.oldest_ms / 1000)


def entry_counts(address: Address) -> EntryCounts:
    """Count the entries of one quarantine table (`FlowPlace.quarantine`); all counts are zero without a table.

    By the statistics in its log, if these tell it: then no entry is read.
    """
    if (counts := _by_statistics(address)) is not None:
        return counts
    rows = store.select(
        address,
        f"SELECT state, count(*) AS entries, count({hidden.IN_HAND}) AS claimed, min(quarantined_at) AS oldest "
        "FROM delta_table GROUP BY state",
    )
    oldest = next((row["oldest"] for row in rows if row["state"] == "open"), None)
    return EntryCounts(
        states={row["state"]: row["entries"] for row in rows},
        claimed=sum(row["claimed"] for row in rows),
        oldest_ms=None if oldest is None else int(oldest.timestamp() * 1000),
    )


def _by_statistics(address: Address) -> EntryCounts | None:
    """The numbers of entries, if each file has entries of one state only."""
    table = delta_table.find_log(address)
    if table is None:
        return EntryCounts(states={}, claimed=0, oldest_ms=None)
    with delta_table.reading(address):
        actions, is_plain = table.get_add_actions(flatten=True), table.protocol().min_reader_version == 1
    needed = {
        "rows": "num_records",
        "first": "min.state",
        "last": "max.state",
        "stateless": "null_count.state",
        "unclaimed": f"null_count.{hidden.IN_HAND}",
        "oldest": "min.quarantined_at",
    }
    if not is_plain or not set(needed.values()) <= set(actions.schema.names):
        # With deletion vectors, a file has more rows than the table has of it.
        return None
    states, claimed, oldest_ms = Counter[str](), 0, list[int]()
    for file in actions.select(list(needed.values())).to_struct_array().to_pylist():
        rows, first, last, stateless, unclaimed, oldest = (file[name] for name in needed.values())
        if None in (rows, first, unclaimed, oldest) or first != last or stateless != 0:
            return None
        states[first] += rows
        claimed += rows - unclaimed
        if first == "open":
            oldest_ms.append(int(oldest.timestamp() * 1000))
    return EntryCounts(states=states, claimed=claimed, oldest_ms=min(oldest_ms, default=None))


def count_unclaimed(address: Address, selection: Selection) -> int:
    """How many unclaimed open entries match."""
    where = f"{UNCLAIMED} AND {selection.condition()}"
    rows = store.select(address, f"SELECT count(*) AS entries FROM delta_table WHERE {where}")
    return int(rows[0]["entries"]) if rows else 0


def unclaimed_entries(address: Address, selection: Selection, limit: int) -> list[dict[str, Any]]:
    """``_row_id`` and ``source`` of the entries that a replay would claim, oldest first."""
    where = f"{UNCLAIMED} AND {selection.condition()}"
    return store.select(
        address,
        f"SELECT {hidden.ROW_ID}, source FROM delta_table WHERE {where} ORDER BY quarantined_at, {hidden.ROW_ID} LIMIT {limit}",
    )


def waived_ids(address: Address, where: str) -> dict[tuple[str, str], list[str]]:
    """The ``_row_id`` of waived entries that match an SQL condition, by person and reason."""
    ids: dict[tuple[str, str], list[str]] = {}
    for row in store.select(
        address, f"SELECT {hidden.ROW_ID}, changed_by, reason FROM delta_table WHERE state = 'waived' AND {where}"
    ):
        ids.setdefault((row["changed_by"] or "", row["reason"] or ""), []).append(row[hidden.ROW_ID])
    return ids


def id_condition(ids: Sequence[str]) -> str:
    """SQL condition: the entries of these rows."""
    return f"{hidden.ROW_ID} IN ({', '.join(map(quoted, ids))})"


def close(address: Address, state: State, where: str, *, by: str, reason: str, commit: Any) -> int:
    """Close entries by a decision (`tidegate.quarantine.decision`), in one commit, and return how many.

    Args:
        path: `FlowPlace.quarantine`.
        where: SQL condition that selects the entries.
        reason: Appended to the reason that an entry already has.
        commit: ``CommitProperties`` of delta-rs, with the number of the decision.
    """
    metrics = delta_table.open_table(address).update(
        updates={
            "state": quoted(state),
            "changed_by": quoted(by),
            "changed_at": now(),
            "reason": f"CASE WHEN reason IS NULL THEN {quoted(reason)} ELSE reason || '; ' || {quoted(reason)} END",
            hidden.IN_HAND: "NULL",
        },
        predicate=where,
        commit_properties=commit,
    )
    return int(metrics["num_updated_rows"])


def quoted(value: str | None) -> str:
    """A text as an SQL literal for delta-rs."""
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def now() -> str:
    """The present instant as an SQL literal for delta-rs."""
    return dates.literal(pendulum.now("UTC"))
