"""Claims: entries of a flow's quarantine that one replay has locked.

A replay claims open entries, evaluates the rules again, writes the rows that pass into the target, and then settles the
claim in one commit: entries that passed become ``replayed``, the others are open again
(`tidegate.spark.reprocessing.replay`). Every claim of a flow has its own number. It is stored in the column ``_replay``
and stays with the entries; ``_in_hand`` is set only while the claim lasts. Each change is one commit by delta-rs under
the flow's lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.advice import OutsideAct
from tidegate.errors import WriteConflictError
from tidegate.ops import store
from tidegate.probes import delta_table
from tidegate.quarantine.lifecycle import UNCLAIMED, now, quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from tidegate.quarantine.selection import Selection
    from tidegate.store import Address

SOURCE_GONE = "source_gone"
"""Rule of an entry whose source record or file no longer exists."""

_IDS = (hidden.ROW_ID, hidden.APP_ID, hidden.BATCH_ID)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The entries that one replay has claimed."""

    number: int
    """Also the ``txnVersion`` of the replay; higher than that of every earlier claim of the flow."""
    entries: int
    """How many."""


def unfinished_claim(address: Address) -> Claim | None:
    """The claim that has not been settled or released; None without one."""
    rows = store.select(
        address,
        f"SELECT {hidden.REPLAY} AS number, count(*) AS entries FROM delta_table "
        f"WHERE {hidden.IN_HAND} IS NOT NULL GROUP BY {hidden.REPLAY}",
    )
    return Claim(number=int(rows[0]["number"]), entries=rows[0]["entries"]) if rows else None


def entries_of(address: Address, number: int) -> list[dict[str, Any]]:
    """``_row_id`` and ``source`` of the entries of an unfinished claim."""
    return store.select(
        address,
        f"SELECT {hidden.ROW_ID}, source FROM delta_table WHERE {hidden.IN_HAND} IS NOT NULL AND {hidden.REPLAY} = {number}",
    )


def highest_number(address: Address) -> int:
    """The highest claim number in the table; -1 without one."""
    rows = store.select(address, f"SELECT max({hidden.REPLAY}) AS number FROM delta_table")
    return int(rows[0]["number"]) if rows and rows[0]["number"] is not None else -1


def create(address: Address, selection: Selection, *, number: int, first: int, limit: int, by: str) -> Claim | None:
    """Claim open entries, oldest first, in one commit.

    Args:
        path: `FlowPlace.quarantine`; the caller holds the flow's lease.
        selection: Which open entries.
        first: The first claim of the same replay. Entries that this claim or a later one returned are not claimed again.
        by: The person who requested the replay.

    Returns:
        The claim; None if no entry matches.
    """
    table = delta_table.find(address)
    if table is None:
        return None
    where = f"{UNCLAIMED} AND ({hidden.REPLAY} IS NULL OR {hidden.REPLAY} < {first}) AND {selection.condition()}"
    columns = ", ".join(_IDS)
    oldest = f"SELECT {columns} FROM delta_table WHERE {where} ORDER BY quarantined_at, {hidden.ROW_ID} LIMIT {limit}"
    ids = delta_table.query_builder().register("delta_table", table).execute(oldest).read_all()
    if not ids.num_rows:
        return None
    _merge(
        table,
        ids,
        " AND ".join(f"t.{column} = s.{column}" for column in _IDS),
        {hidden.REPLAY: str(number), hidden.IN_HAND: "'claimed'", "changed_by": quoted(by), "changed_at": now()},
    )
    return Claim(number=number, entries=ids.num_rows)


def mark_returned(
    address: Address, number: int, refused: Any, *, suite_fingerprint: str | None, app_id: str, user_metadata: str
) -> None:
    """Mark the entries that broke a rule again.

    This commit precedes the write to the target, so that the split of a claim is decided once.

    Args:
        path: `FlowPlace.quarantine`.
        refused: ``_row_id string, rules list<string>`` as Arrow, with the rules that each entry breaks now.
        app_id: The transaction id of the commit: a rerun finds it and does not split the claim again.
        user_metadata: The ``userMetadata`` with the prepared ledger line, the same as in the commit to the target.

    Raises:
        WriteConflictError: Another attempt has decided the claim. Nothing was written.
    """
    from deltalake import CommitProperties, Transaction

    commit = CommitProperties(
        custom_metadata={"userMetadata": user_metadata}, app_transactions=[Transaction(app_id=app_id, version=number)]
    )
    updates = {
        hidden.IN_HAND: "'returned'",
        "rules": "s.rules",
        "attempts": "coalesce(t.attempts, 0) + 1",
        "suite_fingerprint": quoted(suite_fingerprint),
    }
    table = delta_table.open_table(address)
    # delta-rs refuses only a transaction that was committed after this snapshot.
    last = table.transaction_version(app_id)
    if last is not None and last >= number:
        raise WriteConflictError(f"another attempt has decided replay {number} of {address}", OutsideAct("run again"))
    match = f"t.{hidden.ROW_ID} = s.{hidden.ROW_ID} AND t.{hidden.REPLAY} = {number} AND t.{hidden.IN_HAND} IS NOT NULL"
    _merge(table, refused, match, updates, commit)


def settle(address: Address, number: int) -> None:
    """End a claim in one commit: returned entries are open again, the others become ``replayed``."""
    delta_table.open_table(address).update(
        updates={
            "state": f"CASE WHEN {hidden.IN_HAND} = 'returned' THEN 'open' ELSE 'replayed' END",
            hidden.IN_HAND: "NULL",
            "changed_at": now(),
        },
        predicate=f"{hidden.IN_HAND} IS NOT NULL AND {hidden.REPLAY} = {number}",
    )


def release(address: Address, number: int) -> None:
    """Undo a claim that has written nothing to the target, in one commit: its entries are open and unclaimed again.

    The caller holds the flow's lease.
    """
    delta_table.open_table(address).update(
        updates={hidden.IN_HAND: "NULL", hidden.REPLAY: "NULL", "changed_at": now()},
        predicate=f"{hidden.IN_HAND} IS NOT NULL AND {hidden.REPLAY} = {number}",
    )


def count_entries(address: Address, numbers: Sequence[int]) -> int:
    """How many entries these claims have locked, in whatever state the entries are now."""
    if not numbers:
        return 0
    listed = ", ".join(map(str, numbers))
    rows = store.select(address, f"SELECT count(*) AS entries FROM delta_table WHERE {hidden.REPLAY} IN ({listed})")
    return int(rows[0]["entries"]) if rows else 0


def reopen_missing(address: Address, number: int, ids: Any) -> None:
    """Reopen entries of a claim whose source record no longer exists, with the rule `SOURCE_GONE` added, in one commit.

    Args:
        path: `FlowPlace.quarantine`.
        ids: ``_row_id string`` as Arrow.
    """
    updates = {
        hidden.IN_HAND: "NULL",
        "rules": f"CASE WHEN array_has(t.rules, '{SOURCE_GONE}') THEN t.rules ELSE array_append(t.rules, '{SOURCE_GONE}') END",
        "attempts": "coalesce(t.attempts, 0) + 1",
        "changed_at": now(),
    }
    _merge(
        delta_table.open_table(address),
        ids,
        f"t.{hidden.ROW_ID} = s.{hidden.ROW_ID} AND t.{hidden.REPLAY} = {number} AND t.{hidden.IN_HAND} IS NOT NULL",
        updates,
    )


def _merge(table: DeltaTable, source: Any, match: str, updates: Mapping[str, str], commit: Any = None) -> None:
    merger = table.merge(source, match, source_alias="s", target_alias="t", commit_properties=commit)
    merger.when_matched_update(dict(updates)).execute()
