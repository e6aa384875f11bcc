"""The life of what was set aside: an entry of a flow's quarantine is open until somebody replays, waives or expires it.

An entry never leaves its table. Its state is changed in one commit by delta-rs, in milliseconds and without a JVM, and
always under the flow's lease (`tidegate.checkpoints.lease.hold`, or `tidegate.spark.driver.lease.hold` within a job), so
that the table has one writer. What a replay has in hand is in `tidegate.quarantine.claims`, what closes entries without
judging them again in `tidegate.quarantine.decision`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pendulum

from tidegate.alerting.alerts import RULES, Observation
from tidegate.ops import store
from tidegate.quarantine.selection import Selection, instant

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tidegate.spec.thresholds import Thresholds

State = Literal["open", "replayed", "waived", "expired"]
STATES: tuple[State, ...] = ("open", "replayed", "waived", "expired")
"""``open``: set aside. ``replayed``: a later judgement let it pass. ``waived``: a person gave it up, with a reason.
``expired``: nobody did, and it became too old, or a new checkpoint version judged its record anew."""

FREE = "state = 'open' AND _in_hand IS NULL"
"""The open entries that no replay has in hand, as a condition in SQL."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a flow's quarantine holds, in numbers."""

    states: Mapping[str, int]
    """Entries by state."""
    in_hand: int
    """Open ones that a replay took and has not finished; the next replay does it first."""
    oldest_ms: int | None
    """When the oldest open one was set aside, in milliseconds since 1970."""

    @property
    def open(self) -> int:
        """Entries that wait for somebody."""
        return self.states.get("open", 0)

    @property
    def oldest(self) -> datetime | None:
        """The same instant, in UTC."""
        return None if self.oldest_ms is None else pendulum.from_timestamp(self.oldest_ms / 1000)


def held(path: Path) -> Held:
    """Count a flow's entries; all zero without a table.

    Args:
        path: `Layout.quarantine`.
    """
    rows = store.select(
        path,
        "SELECT state, count(*) AS entries, count(_in_hand) AS in_hand, min(quarantined_at) AS oldest "
        "FROM held GROUP BY state",
    )
    oldest = next((row["oldest"] for row in rows if row["state"] == "open"), None)
    return Held(
        states={row["state"]: row["entries"] for row in rows},
        in_hand=sum(row["in_hand"] for row in rows),
        oldest_ms=None if oldest is None else int(oldest.timestamp() * 1000),
    )


def warnings(thresholds: Thresholds, held: Held, now: datetime) -> tuple[str, ...]:
    """What a flow's thresholds say of its quarantine, a sentence each; none when all is well.

    Args:
        thresholds: Of the flow; ``quarantine_rows`` and ``quarantine_hours`` are asked.
        held: What its quarantine holds.
        now: The instant, with its zone.
    """
    seen = Observation(flow="", from_outside=False, quarantine_open=held.open, quarantine_oldest=held.oldest)
    told = (RULES[rule](thresholds, seen, now) for rule in ("quarantine_rows", "quarantine_age"))
    return tuple(message for message in told if message is not None)


def count_free(path: Path, selection: Selection) -> int:
    """How many open entries fit, without those that a replay has in hand."""
    where = f"{FREE} AND {selection.condition()}"
    rows = store.select(path, f"SELECT count(*) AS entries FROM held WHERE {where}")
    return int(rows[0]["entries"]) if rows else 0


def free_entries(path: Path, selection: Selection, limit: int) -> list[dict[str, Any]]:
    """What a replay would take: ``_row_id`` and ``source`` of the oldest open entries that fit."""
    where = f"{FREE} AND {selection.condition()}"
    return store.select(
        path, f"SELECT _row_id, source FROM held WHERE {where} ORDER BY quarantined_at, _row_id LIMIT {limit}"
    )


def waived(path: Path, where: str) -> dict[tuple[str, str], list[str]]:
    """The ``_row_id`` of waived entries by who waived them and why.

    Args:
        path: `Layout.quarantine`.
        where: Which of them, as a condition in SQL.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for row in store.select(path, f"SELECT _row_id, changed_by, reason FROM held WHERE state = 'waived' AND {where}"):
        found.setdefault((row["changed_by"] or "", row["reason"] or ""), []).append(row["_row_id"])
    return found


def among(ids: Sequence[str]) -> str:
    """The entries of some rows, as a condition in SQL."""
    return f"_row_id IN ({', '.join(map(quoted, ids))})"


def close(path: Path, state: State, where: str, *, by: str, reason: str, commit: Any) -> int:
    """Close entries by a decision (`tidegate.quarantine.decision`), in one commit, and return how many.

    Args:
        path: `Layout.quarantine`.
        state: What they become.
        where: Which, as a condition in SQL.
        by: Who decided.
        reason: Why; it is added to what the entry says already.
        commit: delta-rs' ``CommitProperties``: the commit carries the number of the decision.
    """
    from deltalake import DeltaTable

    done = DeltaTable(str(path)).update(
        updates={
            "state": quoted(state),
            "changed_by": quoted(by),
            "changed_at": now(),
            "reason": f"CASE WHEN reason IS NULL THEN {quoted(reason)} ELSE reason || '; ' || {quoted(reason)} END",
            "_in_hand": "NULL",
        },
        predicate=where,
        commit_properties=commit,
    )
    return int(done["num_updated_rows"])


def quoted(value: str | None) -> str:
    """A text as SQL for delta-rs."""
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def now() -> str:
    """This moment as SQL for delta-rs."""
    return instant(pendulum.now("UTC"))
