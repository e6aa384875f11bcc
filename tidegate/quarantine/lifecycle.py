"""The life of what was set aside: an entry of a flow's quarantine is open until somebody replays, waives or expires it.

An entry never leaves its table. Its state is changed in one commit by delta-rs, in milliseconds and without a JVM, and
always under the flow's lease (`tidegate.checkpoints.lease.hold`, or `tidegate.spark.driver.lease.hold` within a job), so that the table has
one writer. A replay takes entries in hand, learns which of them break a rule again, writes the others into the target,
and then closes the ones and reopens the others in one commit: `tidegate.spark.reprocessing.reentry`. What closes them without judging
them again is in `tidegate.quarantine.decision`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pendulum

from tidegate.alerting.alerts import RULES, Observation
from tidegate.quarantine.selection import Selection, instant

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tidegate.spec.thresholds import Thresholds

State = Literal["open", "replayed", "waived", "expired"]
STATES: tuple[State, ...] = ("open", "replayed", "waived", "expired")
"""``open``: set aside. ``replayed``: a later judgement let it pass. ``waived``: a person gave it up, with a reason.
``expired``: nobody did, and it became too old, or a new checkpoint version judged its record anew."""

GONE = "source_gone"
"""The rule of an entry whose record or file a replay no longer found."""

FREE = "state = 'open' AND _in_hand IS NULL"
"""The open entries that no replay has in hand, as a condition in SQL."""
_IDS = ("_row_id", "_app_id", "_batch_id")


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


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Entries that one replay has in hand."""

    number: int
    """The version of the replay's transaction: every claim of a flow has its own, higher than all before it."""
    entries: int


def held(path: Path) -> Held:
    """Count a flow's entries; all zero without a table.

    Args:
        path: `Layout.quarantine`.
    """
    if not _is_table(path):
        return Held(states={}, in_hand=0, oldest_ms=None)
    rows = _query(
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
    if not _is_table(path):
        return 0
    where = f"{FREE} AND {selection.condition()}"
    return int(_query(path, f"SELECT count(*) AS entries FROM held WHERE {where}")[0]["entries"])


def in_hand(path: Path) -> Claim | None:
    """The claim that a replay did not finish; None when there is none."""
    if not _is_table(path):
        return None
    rows = _query(
        path, "SELECT _replay AS number, count(*) AS entries FROM held WHERE _in_hand IS NOT NULL GROUP BY _replay"
    )
    return Claim(number=int(rows[0]["number"]), entries=rows[0]["entries"]) if rows else None


def entries_in_hand(path: Path, number: int) -> list[dict[str, Any]]:
    """What a claim holds: ``_row_id`` and ``source`` of each entry."""
    return _query(path, f"SELECT _row_id, source FROM held WHERE _in_hand IS NOT NULL AND _replay = {number}")


def free_entries(path: Path, selection: Selection, limit: int) -> list[dict[str, Any]]:
    """What a claim would take: ``_row_id`` and ``source`` of the oldest open entries that fit."""
    if not _is_table(path):
        return []
    where = f"{FREE} AND {selection.condition()}"
    return _query(
        path, f"SELECT _row_id, source FROM held WHERE {where} ORDER BY quarantined_at, _row_id LIMIT {limit}"
    )


def highest_claim(path: Path) -> int:
    """The highest number that a claim of this table ever had; -1 when there was none."""
    if not _is_table(path):
        return -1
    highest = _query(path, "SELECT max(_replay) AS number FROM held")[0]["number"]
    return -1 if highest is None else int(highest)


def claim(path: Path, selection: Selection, *, number: int, first: int, limit: int, by: str) -> Claim | None:
    """Take open entries in hand, oldest first, in one commit.

    Args:
        path: `Layout.quarantine`; the caller holds the flow's lease.
        selection: Which.
        number: Of this claim.
        first: The first claim of the same replay: what came back from it or a later one is not taken again.
        limit: At most so many.
        by: Who replays.

    Returns:
        The claim; None when nothing is left.
    """
    if not _is_table(path):
        return None
    where = f"{FREE} AND (_replay IS NULL OR _replay < {first}) AND {selection.condition()}"
    columns = ", ".join(_IDS)
    ids = _table(path, f"SELECT {columns} FROM held WHERE {where} ORDER BY quarantined_at, _row_id LIMIT {limit}")
    if not ids.num_rows:
        return None
    _merge(
        path,
        ids,
        " AND ".join(f"t.{column} = s.{column}" for column in _IDS),
        {"_replay": str(number), "_in_hand": "'claimed'", "changed_by": _text(by), "changed_at": _now()},
    )
    return Claim(number=number, entries=ids.num_rows)


def send_back(path: Path, number: int, refused: Any, *, suite_fingerprint: str | None, app_id: str, told: str) -> None:
    """Mark what broke a rule again, before the target takes the others: the split of a claim is decided once.

    Args:
        path: `Layout.quarantine`.
        number: The claim.
        refused: ``_row_id string, rules list<string>`` as Arrow: what they break now.
        suite_fingerprint: Of the suite that judged.
        app_id: The transaction that the commit carries, so that a rerun knows that the split stands.
        told: The planned line of the ledger, as the target's commit carries it.
    """
    from deltalake import CommitProperties, Transaction

    commit = CommitProperties(
        custom_metadata={"userMetadata": told}, app_transactions=[Transaction(app_id=app_id, version=number)]
    )
    updates = {
        "_in_hand": "'returned'",
        "rules": "s.rules",
        "attempts": "coalesce(t.attempts, 0) + 1",
        "suite_fingerprint": _text(suite_fingerprint),
    }
    _merge(path, refused, f"t._row_id = s._row_id AND t._replay = {number} AND t._in_hand IS NOT NULL", updates, commit)


def settle(path: Path, number: int) -> None:
    """Let go of a claim, in one commit: what came back is open again, the others are replayed."""
    from deltalake import DeltaTable

    DeltaTable(str(path)).update(
        updates={
            "state": "CASE WHEN _in_hand = 'returned' THEN 'open' ELSE 'replayed' END",
            "_in_hand": "NULL",
            "changed_at": _now(),
        },
        predicate=f"_in_hand IS NOT NULL AND _replay = {number}",
    )


def release(path: Path, number: int) -> None:
    """Undo a claim of which nothing was written, in one commit: its entries are open as they were.

    Args:
        path: `Layout.quarantine`; the caller holds the flow's lease.
        number: The claim.
    """
    from deltalake import DeltaTable

    DeltaTable(str(path)).update(
        updates={"_in_hand": "NULL", "_replay": "NULL", "changed_at": _now()},
        predicate=f"_in_hand IS NOT NULL AND _replay = {number}",
    )


def count_claimed(path: Path, numbers: Sequence[int]) -> int:
    """How many entries some claims took, whatever became of them."""
    if not numbers or not _is_table(path):
        return 0
    listed = ", ".join(map(str, numbers))
    return int(_query(path, f"SELECT count(*) AS entries FROM held WHERE _replay IN ({listed})")[0]["entries"])


def let_go(path: Path, number: int, ids: Any) -> None:
    """Reopen entries of a claim whose record or file is gone, with the rule `GONE` added, in one commit.

    Args:
        path: `Layout.quarantine`.
        number: The claim.
        ids: ``_row_id string`` as Arrow.
    """
    updates = {
        "_in_hand": "NULL",
        "rules": f"CASE WHEN array_has(t.rules, '{GONE}') THEN t.rules ELSE array_append(t.rules, '{GONE}') END",
        "attempts": "coalesce(t.attempts, 0) + 1",
        "changed_at": _now(),
    }
    _merge(path, ids, f"t._row_id = s._row_id AND t._replay = {number} AND t._in_hand IS NOT NULL", updates)


def waived(path: Path, where: str) -> dict[tuple[str, str], list[str]]:
    """The ``_row_id`` of waived entries by who waived them and why.

    Args:
        path: `Layout.quarantine`.
        where: Which of them, as a condition in SQL.
    """
    if not _is_table(path):
        return {}
    found: dict[tuple[str, str], list[str]] = {}
    for row in _query(path, f"SELECT _row_id, changed_by, reason FROM held WHERE state = 'waived' AND {where}"):
        found.setdefault((row["changed_by"] or "", row["reason"] or ""), []).append(row["_row_id"])
    return found


def among(ids: Sequence[str]) -> str:
    """The entries of some rows, as a condition in SQL."""
    return f"_row_id IN ({', '.join(map(_text, ids))})"


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
            "state": _text(state),
            "changed_by": _text(by),
            "changed_at": _now(),
            "reason": f"CASE WHEN reason IS NULL THEN {_text(reason)} ELSE reason || '; ' || {_text(reason)} END",
            "_in_hand": "NULL",
        },
        predicate=where,
        commit_properties=commit,
    )
    return int(done["num_updated_rows"])


def _merge(path: Path, source: Any, match: str, updates: Mapping[str, str], commit: Any = None) -> None:
    from deltalake import DeltaTable

    merger = DeltaTable(str(path)).merge(source, match, source_alias="s", target_alias="t", commit_properties=commit)
    merger.when_matched_update(dict(updates)).execute()


def _is_table(path: Path) -> bool:
    return (path / "_delta_log").is_dir()


def _table(path: Path, sql: str) -> Any:
    from deltalake import DeltaTable, QueryBuilder

    return QueryBuilder().register("held", DeltaTable(str(path))).execute(sql).read_all()


def _query(path: Path, sql: str) -> list[dict[str, Any]]:
    # As the reader hands them over: pyarrow would take a second to load.
    rows: list[dict[str, Any]] = _table(path, sql).to_struct_array().to_pylist()
    return rows


def _text(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def _now() -> str:
    return instant(pendulum.now("UTC"))
