"""Opens and reads tables with delta-rs: the only place that does. Starts no JVM.

So a damaged table is the same error everywhere, and a stored value the same value.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote, urlsplit

from tidegate.advice import OutsideAct
from tidegate.errors import TableUnreadableError, TidegateError, WriteConflictError
from tidegate.errors.classification import raise_machine
from tidegate.probes import delta_log
from tidegate.processes import temporary_folder
from tidegate.store import Address

if TYPE_CHECKING:
    from deltalake import DeltaTable, QueryBuilder

_NOT_THERE = "Invalid table version"
_ERRNO = re.compile(r"\(os error (\d+)\)")
_READER = {"datafusion.execution.parquet.coerce_int96": "us"}
"""Timestamps of Parquet's old type INT96, which Spark writes by default, are read with Delta's precision, microseconds.

As nanoseconds, delta-rs' default, they are wrong before 1677 and after 2262.
"""

_COPIED_FILES = 64
_COPIED_BYTES = 8 * 1024 * 1024
"""How many files, and bytes of them, a reading copies at most, of a log as of a table."""
_COPIED_AT_ONCE = 8


def find(address: Address, version: int | None = None) -> DeltaTable | None:
    """A table at a version, by default its newest; None if it does not exist, or its first version is not committed yet.

    Raises:
        TableUnreadableError: A file of its log is missing or damaged.
        FileNotFoundError: The table does not have that version, or its log no longer does.
    """
    # delta-rs reads an empty entry as a commit without changes.
    if not delta_log.check(address):
        return None
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        if version is not None:
            return _load(address, version)
        return address.store.once((address / "_delta_log").key, lambda: _load(address, None))
    except (DeltaError, OSError, OverflowError) as error:
        raise_machine(error, f"table {address}")
        if version is not None:
            raise FileNotFoundError(delta_log.entry(address, version)) from None
        if isinstance(error, TableNotFoundError):
            return None
        raise _unreadable(address, error) from None


def find_log(address: Address) -> DeltaTable | None:
    """As `find`, for what the log tells: its rows may not be readable."""
    return _find_copied(address, with_rows=False)


def open_log(address: Address, version: int | None = None) -> DeltaTable:
    """As `open_table`, for what the log tells; of an older version it is asked for each time."""
    is_newest = version is None or version == max(delta_log.versions(address), default=None)
    table = find_log(address) if is_newest else None
    return open_table(address, version) if table is None else table


def find_small(address: Address) -> DeltaTable | None:
    """As `find`, for the rows of a table that is expected to be small."""
    return _find_copied(address, with_rows=True)


def _find_copied(address: Address, *, with_rows: bool) -> DeltaTable | None:
    """A table whose newest version is copied from a bucket, if it is small: a reading asks for what has its tag only once.

    delta-rs asks for each entry twice, and for each file several times.
    """
    store = address.store
    if store.is_local or not store.keeps:
        return find(address)
    name = "rows" if with_rows else "log"
    copy = store.once((address / "_delta_log" / name).key, lambda: _copied(address, with_rows=with_rows))
    return find(address) if copy is None else copy


def local_folder(table: DeltaTable) -> Address:
    """The folder of a table of this machine, as that of a copy."""
    return Address.local(Path(unquote(urlsplit(table.table_uri).path)))


def _copied(address: Address, *, with_rows: bool) -> DeltaTable | None:
    """The newest version of a table, of a copy that is deleted with it; None if it is not copied, or not there.

    Not copied are large tables, and rows that are not simply those of files: mapped columns, deletion vectors.

    Raises:
        TableUnreadableError: A file of its checkpoint is missing or torn.
    """
    files = delta_log.newest_files(address)
    if not files or _are_many([each.size for each in files]):
        return None
    (folder, delete), table = temporary_folder("tidegate-table-"), None
    try:
        _copy([address.at(each) for each in files], folder / "_delta_log")
        table = find(Address.local(folder))
        if table is not None and with_rows and not _copy_rows(address, table, folder):
            table = None
    except (FileNotFoundError, TableUnreadableError):
        # Cleaned meanwhile, or damaged: who reads the table itself knows.
        table = None
    finally:
        if table is None:
            delete()
    if table is not None:
        weakref.finalize(table, delete)
    return table


def _copy_rows(address: Address, table: DeltaTable, folder: Path) -> bool:
    """Copy the files of a table; False if its rows are not simply those of them."""
    actions = table.get_add_actions()
    names = [unquote(name) for name in actions.column("path").to_pylist()]
    is_plain = table.protocol().min_reader_version == 1 and not any("/" in name for name in names)
    if not is_plain or _are_many([*actions.column("size_bytes").to_pylist()]):
        return False
    if names:
        # With their tags.
        address.list()
    _copy([address / name for name in names], folder)
    return True


def _are_many(sizes: Sequence[int]) -> bool:
    return len(sizes) > _COPIED_FILES or sum(sizes) > _COPIED_BYTES


def _copy(files: Sequence[Address], folder: Path) -> None:
    folder.mkdir(exist_ok=True)

    def copy(file: Address) -> None:
        (folder / file.name).write_bytes(file.read().data)

    with ThreadPoolExecutor(_COPIED_AT_ONCE) as threads:
        list(threads.map(copy, files))


def before_damage(address: Address, version: int) -> DeltaTable:
    """A table at a version up to which its log can be read (`tidegate.probes.delta_history.readable_version`), whatever follows."""
    with reading(address):
        return _load(address, version)


def open_table(address: Address, version: int | None = None) -> DeltaTable:
    """As `find`, for a table that exists.

    Raises:
        TableUnreadableError: As `find`, and if the log has no version.
        FileNotFoundError: As `find`.
    """
    table = find(address, version)
    if table is None:
        raise TableUnreadableError(address, address / "_delta_log", "has no version")
    return table


def column_names(table: DeltaTable) -> tuple[str, ...]:
    """The names of a table's columns."""
    return tuple(field.name for field in table.schema().fields)


def columns(address: Address) -> tuple[str, ...]:
    """The names of a table's columns; none when there is no table."""
    table = find(address)
    return () if table is None else column_names(table)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def query_builder(settings: Mapping[str, str] | None = None) -> QueryBuilder:
    """A query builder of delta-rs that reads every stored value as Spark does; other readers of delta-rs do not.

    `DeltaTable.scan`, `load_cdf` and the data sets for PyArrow cannot be told to.

    Args:
        settings: More settings of DataFusion.
    """
    from deltalake import QueryBuilder

    return QueryBuilder({**_READER, **(settings or {})})


@contextmanager
def writing(address: Address) -> Iterator[None]:
    """Name the table in the errors of the machine that delta-rs meets inside: most of its texts name no file.

    Raises:
        OSError: As `Address.writable`.
        WriteConflictError: The server was in the middle of another request for the name of the commit. Transient.
    """
    from deltalake.exceptions import DeltaError

    try:
        _ = address.writable
        yield
    except (DeltaError, OSError) as error:
        raise_machine(error, f"table {address}")
        if _NOT_THERE in str(error):
            # delta-rs takes an answer 409 for a commit of another writer, which it then looks for.
            raise WriteConflictError(
                f"table {address}: the server refused a commit because of another request for it. Nothing was written.",
                OutsideAct("run again"),
            ) from None
        raise


@contextmanager
def reading(address: Address) -> Iterator[None]:
    """Raise `TableUnreadableError` if delta-rs fails inside: some of the log of an open table it reads only when it is asked."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except TidegateError:
        raise
    except (DeltaError, OSError) as error:
        raise_unreadable(address, error)


def _load(address: Address, version: int | None) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable(address.uri, version=version, storage_options=dict(address.options))


def raise_unreadable(address: Address, error: Exception) -> NoReturn:
    """Raise the error for an exception of reading a table.

    Raises:
        MachineError: The operating system, or the store, refused the reading.
        TableUnreadableError: Else.
    """
    raise_machine(error, f"table {address}")
    delta_log.check(address)
    raise _unreadable(address, error) from None


def _unreadable(address: Address, error: Exception) -> TableUnreadableError:
    """The error without the text of delta-rs, which may quote statistics."""
    number = _ERRNO.search(str(error))
    cause = os.strerror(int(number[1])) if number else type(error).__name__
    return TableUnreadableError(address, address, f"is refused by delta-rs ({cause})")
