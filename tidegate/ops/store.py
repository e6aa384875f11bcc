"""Appends to and reads Tidegate's own small Delta tables with delta-rs. Starts no JVM.

A commit is a rename that fails if the name exists, so concurrent writers in different processes do not lose each other's
lines (docs/adr/0002). In a bucket delta-rs appends to a copy of the log, of which the new files are created in the bucket, the commit under
the condition that it is not there: delta-rs would read every entry of the log several times for each append.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from tidegate.advice import OutsideAct
from tidegate.checkpoints import lease
from tidegate.errors import TidegateError, WriteConflictError
from tidegate.ops import arrow
from tidegate.probes import delta_log, delta_table
from tidegate.store import Address, Content

if TYPE_CHECKING:
    from deltalake import DeltaTable

log = logging.getLogger("tidegate")

SEQUENCE = "sequence"
"""The column that orders lines: the version of the table that they were written for. ``recorded_at`` is what a clock showed."""
SEQUENCED = (SEQUENCE, "recorded_at")
"""What orders the lines of a table that has a `SEQUENCE`."""

MAX_FILES = 100
"""A commit that leaves more files compacts the table: each file costs a reader about a millisecond."""
MAX_OBJECTS = 20
"""The same in a bucket, where each file costs a reader a request or two."""
_MOST_CONFLICTS = 15
"""After so many commits of other writers an append to a copy fails, as one of delta-rs does."""


class _LeftOpen(NamedTuple):
    """A table of which this process made the newest version, or a copy of it."""

    table: DeltaTable
    revision: Hashable
    """Of the entry of that version; of a copy the tag."""
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
        WriteConflictError: Other writers committed again and again. Transient.
    """
    for _ in range(_MOST_CONFLICTS):
        table = _open(address)
        recorded = None if table is None or transaction is None else table.transaction_version(transaction[0])
        if transaction is not None and recorded is not None and recorded >= transaction[1]:
            return
        try:
            tag = _append(address, table, columns, rows, transaction)
        except _AnotherCommitError:
            continue
        if table is None:
            return
        if len(table.file_uris()) > (MAX_FILES if address.store.is_local else MAX_OBJECTS):
            _compact(address, None if _is_copy(address, table) else table, keep_days)
        else:
            _leave_open(address, table, tag)
        return
    raise WriteConflictError(
        f"table {address}: {_MOST_CONFLICTS} times another writer's commit came first. Nothing was written.",
        OutsideAct("run again"),
    )


class _AnotherCommitError(Exception):
    """Another writer has created the version behind the one that was copied."""


def _append(
    address: Address,
    table: DeltaTable | None,
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
    transaction: tuple[str, int] | None,
) -> str:
    """Append in one commit behind a version of the table; of a copy, return the tag of the commit.

    Raises:
        _AnotherCommitError: The table has another commit behind the version that was copied.
    """
    from deltalake import CommitProperties, PostCommitHookProperties, Transaction, write_deltalake

    if table is None:
        address.parent.make_folder()
    if "recorded_at" in columns:
        sequence = 0 if table is None else table.version() + 1
        columns, rows = {**columns, SEQUENCE: "BIGINT"}, [{**row, SEQUENCE: sequence} for row in rows]
    lines = arrow.table(columns, rows)
    is_copy = table is not None and _is_copy(address, table)
    lease.expect_certain()
    with delta_table.writing(address):
        write_deltalake(
            address.written_uri if table is None else table,
            lines,
            mode="append",
            schema_mode="merge",
            commit_properties=transaction and CommitProperties(app_transactions=[Transaction(*transaction)]),
            # The commit of a compaction cleans the log, which would be listed for it after each append, and makes a checkpoint.
            post_commithook_properties=PostCommitHookProperties(
                create_checkpoint=not is_copy, cleanup_expired_logs=False
            ),
            storage_options=None if is_copy else dict(address.options),
        )
        return _create(address, table) if table is not None and is_copy else ""


def _leave_open(address: Address, table: DeltaTable, tag: str) -> None:
    with contextlib.suppress(OSError):
        revision = tag or delta_log.entry(address, table.version()).stat().revision
        _left_open[address] = _LeftOpen(table, revision, dict(address.options))


def _open(address: Address) -> DeltaTable | None:
    """A table as the last append of this process left it, if the newest entry of its log is the one of that append.

    Otherwise the table, in a bucket a copy of its newest version if it is small.
    """
    left = _left_open.pop(address, None)
    if left is not None and left.options == address.options:
        entries = {each.name: each for each in (address / "_delta_log").list() if each.name.endswith(".json")}
        name = delta_log.entry(address, left.table.version()).name
        with contextlib.suppress(FileNotFoundError):
            if max(entries, default="") == name and left.revision in (entries[name].revision, entries[name].tag):
                return left.table
    if address.store.is_local:
        return delta_table.find(address)
    from tidegate.ops import contents
    from tidegate.store.once import ReadOnceStore

    store = ReadOnceStore(address.writable)
    store.known = known = contents.of_tables(address.parent)
    opened = delta_table.find_log(replace(address, store=store))
    if opened is not None and _is_copy(address, opened):
        # delta-rs writes behind a commit alone, which no reader needs of the version of a checkpoint.
        folder, version = delta_table.local_folder(opened), opened.version()
        if not delta_log.entry(folder, version).exists():
            content = Address(store, delta_log.entry(address, version).key).read().data
            delta_log.entry(folder, version).put(content)
    known |= store.contents
    return opened


def _is_copy(address: Address, table: DeltaTable) -> bool:
    return not address.store.is_local and table.table_uri.startswith("file:")


def _create(address: Address, copy: DeltaTable) -> str:
    """Create in a bucket what an append has written to a copy: its files, then its commit, of which this returns the tag.

    No other commit has its content, because of the names of its files: so it is known as one's own after a lost answer.
    """
    from tidegate.ops import contents

    folder, version = delta_table.local_folder(copy), copy.version()
    entry, known = delta_log.entry(address, version), contents.of_tables(address.parent)
    for kind, added in delta_log.actions(folder, version) or ():
        if kind == "add":
            name = unquote(added["path"])
            content = (folder / name).read().data
            file = address / name
            known[file.key] = Content(content, file.put_if(content, None))
    lease.expect_certain()
    content = delta_log.entry(folder, version).read().data
    try:
        known[entry.key] = Content(content, entry.put_if(content, None))
    except WriteConflictError:
        raise _AnotherCommitError from None
    return known[entry.key].tag


def _compact(address: Address, table: DeltaTable | None, keep_days: int) -> None:
    """Compact the table, which may be open. The caller's rows are committed already, so an error here is only logged."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    # Few commits make a table have so many files.
    from tidegate.ops import compaction

    if table is None:
        from tidegate.ops import contents

        known = contents.of_tables(address.parent)
        for key in [each for each in known if each.startswith(f"{address.key}/")]:
            del known[key]
    try:
        compaction.compact(address, keep_days, table)
    except CommitFailedError:
        log.info("%s: another commit came before that of a compaction; the next one tries again", address.name)
    except (DeltaError, OSError, TidegateError) as error:
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
