"""Appends to and reads Tidegate's own small Delta tables with delta-rs. Starts no JVM.

A commit is a rename that fails if the name exists, so concurrent writers in different processes do not lose each other's
lines (docs/adr/0002).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.checkpoints import lease
from tidegate.errors import TableUnreadableError
from tidegate.ops import query
from tidegate.probes import delta_log, delta_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from tidegate.store import Address

log = logging.getLogger("tidegate")

SEQUENCE = "sequence"
"""The column that orders lines: the version of the table that they were written for. ``recorded_at`` is what a clock showed."""
SEQUENCED = (SEQUENCE, "recorded_at")
"""What orders the lines of a table that has a `SEQUENCE`."""

MAX_FILES = 100
"""A commit that leaves more files compacts the table: each file costs a reader about a millisecond."""
MAX_OBJECTS = 20
"""The same in a bucket, where each file costs a reader a request or two."""


class _LeftOpen(NamedTuple):
    """A table of which this process made the newest version."""

    table: DeltaTable
    revision: Hashable
    """Of the entry of that version."""
    options: Mapping[str, str]
    """With which it was opened: credentials may be replaced."""


_left_open: dict[Address, _LeftOpen] = {}
"""delta-rs reads each entry of a log twice to open a table."""


def append(
    address: Address,
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
    transaction: tuple[str, int] | None = None,
    *,
    keep_days: int = 7,
) -> None:
    """Append rows in one commit. Columns that the table lacks are added to it; too many small files are compacted.

    Rows with ``recorded_at`` get a `SEQUENCE`, too.

    Args:
        address: A table of `Layout.ops`.
        columns: Its columns with their types in SQL, as `OwnTable.columns`.
        rows: Each with a value for every column.
        transaction: The transaction id and version of the commit. If the table has this version or a later one, nothing is
            appended.
        keep_days: How long compacted files stay: for concurrent readers, or for streams that have not read them yet.

    Raises:
        MachineError: The operating system does not let them be written.
        LeaseLostError: The process holds leases, and is not certain of them any more.
    """
    from deltalake import CommitProperties, PostCommitHookProperties, Transaction, write_deltalake

    table, commit = _open(address), None
    if table is None:
        address.parent.make_folder()
    if transaction is not None:
        recorded = None if table is None else table.transaction_version(transaction[0])
        if recorded is not None and recorded >= transaction[1]:
            return
        commit = CommitProperties(app_transactions=[Transaction(*transaction)])
    if "recorded_at" in columns:
        sequence = 0 if table is None else table.version() + 1
        columns, rows = {**columns, SEQUENCE: "BIGINT"}, [{**row, SEQUENCE: sequence} for row in rows]
    lines = query.arrow_table(columns, rows)
    lease.expect_certain()
    with delta_table.writing(address):
        write_deltalake(
            address.written_uri if table is None else table,
            lines,
            mode="append",
            schema_mode="merge",
            commit_properties=commit,
            # The commit of a compaction cleans the log, which would be listed for it after each append.
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
            storage_options=dict(address.options),
        )
    if table is None:
        return
    if len(table.file_uris()) > (MAX_FILES if address.store.is_local else MAX_OBJECTS):
        _compact(address, table, keep_days)
    else:
        _leave_open(address, table)


def _open(address: Address) -> DeltaTable | None:
    """A table as the last append of this process left it, if the newest entry of its log is the one of that append."""
    left = _left_open.pop(address, None)
    if left is not None and left.options == address.options:
        table, revision = left.table, left.revision
        entries = {each.name: each for each in (address / "_delta_log").list() if each.name.endswith(".json")}
        newest = delta_log.entry(address, table.version()).name
        with contextlib.suppress(FileNotFoundError):
            if max(entries, default="") == newest and entries[newest].revision == revision:
                return table
    return delta_table.find(address)


def _leave_open(address: Address, table: DeltaTable) -> None:
    with contextlib.suppress(OSError):
        revision = delta_log.entry(address, table.version()).stat().revision
        _left_open[address] = _LeftOpen(table, revision, dict(address.options))


def _compact(address: Address, table: DeltaTable, keep_days: int) -> None:
    """Compact the table. The caller's rows are committed already, so an error here is only logged."""
    import duckdb
    from deltalake.exceptions import CommitFailedError, DeltaError

    # Few commits make a table have so many files.
    from tidegate.ops import compaction

    try:
        compaction.compact(address, keep_days, table)
    except CommitFailedError:
        log.info("%s: another commit came before that of a compaction; the next one tries again", address.name)
    except (DeltaError, duckdb.Error, OSError, TableUnreadableError) as error:
        log.warning("%s: small files were not compacted (%s); the next commit tries again", address.name, error)


def ordering(address: Address) -> tuple[str, ...]:
    """The columns of a table that order its lines, for `oldest_first` and `newest_first`: `SEQUENCED` once it has such a line."""
    table = delta_table.find_log(address)
    has_sequence = table is not None and SEQUENCE in (column.name for column in table.schema().fields)
    return SEQUENCED if has_sequence else SEQUENCED[1:]


def oldest_first(columns: Sequence[str]) -> str:
    """SQL after ORDER BY: lines as they were recorded, whatever the clocks said. Lines of earlier releases come first, by their times.

    Args:
        columns: `ordering` of the table.
    """
    return ", ".join(f"{column} ASC NULLS FIRST" for column in columns)


def newest_first(columns: Sequence[str]) -> str:
    """The reverse of `oldest_first`."""
    return ", ".join(f"{column} DESC NULLS LAST" for column in columns)


def select(address: Address, sql: str) -> list[dict[str, Any]]:
    """The rows of a query over the table ``delta_table``; none when there is no table.

    Args:
        sql: DataFusion's SQL. It takes no parameters, so literals must never come from user input.
    """
    table = delta_table.find_small(address)
    if table is None:
        return []
    with delta_table.reading(address):
        batches: Any = delta_table.query_builder().register("delta_table", table).execute(sql).read_all()
    # Without pyarrow, whose import takes longer than the query.
    rows: list[dict[str, Any]] = batches.to_struct_array().to_pylist()
    return rows
