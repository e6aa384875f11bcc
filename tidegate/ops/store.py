"""The platform's own small Delta tables about a pipeline: appended and read with delta-rs, without a JVM.

A commit is a rename that fails when the name exists, so writers in different processes do not lose each other's lines
(docs/adr/0002).
"""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow
    from deltalake import DeltaTable

log = logging.getLogger("tidegate")

FILES_AT_MOST = 100
"""A commit that makes more of them writes the small ones together: each costs a reader about a millisecond."""


def append(path: Path, schema: pyarrow.Schema, rows: Sequence[Mapping[str, Any]], commit: Any = None) -> None:
    """Add rows in one commit; columns that the table lacks are added to it, and small files are written together in time.

    Args:
        path: `Layout.ops`.
        schema: Names and types of the columns.
        rows: Each with a value for every column.
        commit: delta-rs' ``CommitProperties``, for a commit that carries a transaction id.
    """
    import pyarrow
    from deltalake import write_deltalake

    path.parent.mkdir(parents=True, exist_ok=True)
    lines = pyarrow.Table.from_pylist([dict(row) for row in rows], schema=schema)
    held = opened(path)
    place = str(path) if held is None else held
    write_deltalake(place, lines, mode="append", schema_mode="merge", commit_properties=commit)
    if held is not None and len(held.file_uris()) > FILES_AT_MOST:
        _compact(path)


def _compact(path: Path) -> None:
    """Write small files together; those that they replace stay for a week, for readers that are under way.

    The rows that were to be added are there by now, so nothing that fails here may look as if they were not.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        with _alone(path) as we_are:
            if we_are:
                table = DeltaTable(str(path))
                table.optimize.compact()
                table.vacuum(dry_run=False)
    except (DeltaError, OSError) as error:
        log.warning("%s: its small files were not written together (%s); the next line tries again", path.name, error)


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether nobody else compacts the table meanwhile: of two that do, delta-rs lets both commit, and lines double.

    https://github.com/delta-io/delta-rs/pull/3982 takes a removal that changes no data for no conflict.
    """
    with (path / "_compaction.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def opened(path: Path) -> DeltaTable | None:
    """A table as it is now; None when there is none, or when somebody makes its first version just now."""
    if not (path / "_delta_log").is_dir():
        return None
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(str(path))
    except TableNotFoundError:
        return None


def select(path: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query over the table ``held``; none when there is no table.

    Args:
        path: The Delta table.
        sql: With names and numbers of ours only; nothing that a person typed may end a literal in it.
    """
    table = opened(path)
    if table is None:
        return []
    from deltalake import QueryBuilder

    found: Any = QueryBuilder().register("held", table).execute(sql).read_all()
    # As the reader hands them over: pyarrow would take longer to load than the query takes.
    rows: list[dict[str, Any]] = found.to_struct_array().to_pylist()
    return rows
