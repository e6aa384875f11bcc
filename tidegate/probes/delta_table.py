"""Opens and reads tables with delta-rs: the only place that does. Starts no JVM.

So a damaged table is the same error everywhere, and a stored value the same value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from tidegate.errors import TableUnreadableError, TidegateError
from tidegate.errors.classification import raise_machine
from tidegate.probes import delta_log

if TYPE_CHECKING:
    from deltalake import DeltaTable, QueryBuilder

    from tidegate.store import Address

_ERRNO = re.compile(r"\(os error (\d+)\)")
_READER = {"datafusion.execution.parquet.coerce_int96": "us"}
"""Timestamps of Parquet's old type INT96, which Spark writes by default, are read with Delta's precision, microseconds.

As nanoseconds, delta-rs' default, they are wrong before 1677 and after 2262.
"""


def find(address: Address, version: int | None = None) -> DeltaTable | None:
    """A table at a version, by default its newest; None if it does not exist, or its first version is not committed yet.

    Raises:
        TableUnreadableError: A file of its log is missing or damaged.
        FileNotFoundError: The table does not have that version, or its log no longer does.
    """
    if not (address / "_delta_log").exists():
        return None
    from deltalake.exceptions import DeltaError, TableNotFoundError

    # delta-rs reads an empty entry as a commit without changes.
    delta_log.check(address)
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


def before_damage(address: Address, version: int) -> DeltaTable:
    """A table at a version up to which its log can be read (`tidegate.probes.delta_history.readable_version`), whatever follows."""
    with reading_log(address):
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


def query_builder() -> QueryBuilder:
    """A query builder of delta-rs that reads every stored value as Spark does; other readers of delta-rs do not.

    `DeltaTable.scan`, `load_cdf` and the data sets for PyArrow cannot be told to.
    """
    from deltalake import QueryBuilder

    return QueryBuilder(dict(_READER))


@contextmanager
def reading(address: Address) -> Iterator[None]:
    """Raise `TableUnreadableError` if delta-rs, or DuckDB behind it, fails to read rows of the table inside."""
    import duckdb

    try:
        with reading_log(address):
            yield
    except (duckdb.IOException, duckdb.InvalidInputException) as error:
        _raise(address, error)


@contextmanager
def writing(address: Address) -> Iterator[None]:
    """Name the table in the errors of the machine that delta-rs meets inside: most of its texts name no file."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as error:
        raise_machine(error, f"table {address}")
        raise


@contextmanager
def reading_log(address: Address) -> Iterator[None]:
    """Raise `TableUnreadableError` if delta-rs fails inside, which reads some of the log of an open table only when it is asked."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except TidegateError:
        raise
    except (DeltaError, OSError) as error:
        _raise(address, error)


def _load(address: Address, version: int | None) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable(address.uri, version=version, storage_options=dict(address.options))


def _raise(address: Address, error: Exception) -> NoReturn:
    raise_machine(error, f"table {address}")
    delta_log.check(address)
    raise _unreadable(address, error) from None


def _unreadable(address: Address, error: Exception) -> TableUnreadableError:
    """The error without the text of delta-rs, which may quote statistics."""
    number = _ERRNO.search(str(error))
    cause = os.strerror(int(number[1])) if number else type(error).__name__
    return TableUnreadableError(address, address, f"is refused by delta-rs ({cause})")
