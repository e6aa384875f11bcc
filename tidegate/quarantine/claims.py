"""What a replay has in hand: entries of a flow's quarantine that nobody else touches meanwhile.

A replay takes open entries in a claim, learns which of them break a rule again, writes the others into the target, and
then closes the ones and reopens the others in one commit (`tidegate.spark.reprocessing.reentry`). Every claim of a flow has
a number of its own, in ``_replay``, which stays with the entries; ``_in_hand`` is set as long as the claim lasts. Each
change is one commit by delta-rs under the flow's lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.ops import store
from tidegate.quarantine.lifecycle import FREE, now, quoted

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.quarantine.selection import Selection

GONE = "source_gone"
"""The rule of an entry whose record or file a replay no longer found."""

_IDS = ("_row_id", "_app_id", "_batch_id")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Entries that one replay has in hand."""

    number: int
    """The version of the replay's transaction: every claim of a flow has its own, higher than all before it."""
    entries: int


def in_hand(path: Path) -> Claim | None:
    """The claim that a replay did not finish; None when there is none."""
    rows = store.select(
        path, "SELECT _replay AS number, count(*) AS entries FROM held WHERE _in_hand IS NOT NULL GROUP BY _replay"
    )
    return Claim(number=int(rows[0]["number"]), entries=rows[0]["entries"]) if rows else None


def entries_of(path: Path, number: int) -> list[dict[str, Any]]:
    """What a claim holds: ``_row_id`` and ``source`` of each entry."""
    return store.select(path, f"SELECT _row_id, source FROM held WHERE _in_hand IS NOT NULL AND _replay = {number}")


def highest(path: Path) -> int:
    """The highest number that a claim of this table ever had; -1 when there was none."""
    rows = store.select(path, "SELECT max(_replay) AS number FROM held")
    return int(rows[0]["number"]) if rows and rows[0]["number"] is not None else -1


def take(path: Path, selection: Selection, *, number: int, first: int, limit: int, by: str) -> Claim | None:
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
    table = store.opened(path)
    if table is None:
        return None
    from deltalake import QueryBuilder

    where = f"{FREE} AND (_replay IS NULL OR _replay < {first}) AND {selection.condition()}"
    columns = ", ".join(_IDS)
    oldest = f"SELECT {columns} FROM held WHERE {where} ORDER BY quarantined_at, _row_id LIMIT {limit}"
    ids = QueryBuilder().register("held", table).execute(oldest).read_all()
    if not ids.num_rows:
        return None
    _merge(
        path,
        ids,
        " AND ".join(f"t.{column} = s.{column}" for column in _IDS),
        {"_replay": str(number), "_in_hand": "'claimed'", "changed_by": quoted(by), "changed_at": now()},
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
        "suite_fingerprint": quoted(suite_fingerprint),
    }
    _merge(path, refused, f"t._row_id = s._row_id AND t._replay = {number} AND t._in_hand IS NOT NULL", updates, commit)


def settle(path: Path, number: int) -> None:
    """Let go of a claim, in one commit: what came back is open again, the others are replayed."""
    from deltalake import DeltaTable

    DeltaTable(str(path)).update(
        updates={
            "state": "CASE WHEN _in_hand = 'returned' THEN 'open' ELSE 'replayed' END",
            "_in_hand": "NULL",
            "changed_at": now(),
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
        updates={"_in_hand": "NULL", "_replay": "NULL", "changed_at": now()},
        predicate=f"_in_hand IS NOT NULL AND _replay = {number}",
    )


def count_entries(path: Path, numbers: Sequence[int]) -> int:
    """How many entries some claims took, whatever became of them."""
    if not numbers:
        return 0
    listed = ", ".join(map(str, numbers))
    rows = store.select(path, f"SELECT count(*) AS entries FROM held WHERE _replay IN ({listed})")
    return int(rows[0]["entries"]) if rows else 0


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
        "changed_at": now(),
    }
    _merge(path, ids, f"t._row_id = s._row_id AND t._replay = {number} AND t._in_hand IS NOT NULL", updates)


def _merge(path: Path, source: Any, match: str, updates: Mapping[str, str], commit: Any = None) -> None:
    from deltalake import DeltaTable

    merger = DeltaTable(str(path)).merge(source, match, source_alias="s", target_alias="t", commit_properties=commit)
    merger.when_matched_update(dict(updates)).execute()
