"""A reading of a bucket reads small tables from copies, and each object once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import gettempdir

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.s3_server import S3Process
from tests.store.buckets import new_store
from tests.store.proxy import S3Proxy
from tidegate.errors import TableUnreadableError
from tidegate.ops import arrow, query, store
from tidegate.probes import delta, delta_table
from tidegate.store import Address
from tidegate.store.once import ReadOnceStore

COLUMNS = {"number": "BIGINT", "text": "VARCHAR"}


@pytest.fixture
def table(proxy: S3Proxy, s3_server: S3Process) -> Address:
    """Three rows in three commits."""
    table = Address(new_store(s3_server, endpoint=proxy.endpoint), "ledger")
    for number in range(3):
        add(table, number)
    return table


def add(table: Address, number: int) -> None:
    store.append(table, COLUMNS, [{"number": number, "text": "a line"}])


def reading(table: Address, earlier: ReadOnceStore | None = None) -> Address:
    """The table in a new reading, which may know what an earlier one has read."""
    once = ReadOnceStore(table.writable)
    once.known = {} if earlier is None else earlier.contents
    return Address(once, table.key)


def numbers(table: Address) -> list[int]:
    return [row["number"] for row in store.select(table, "SELECT number FROM delta_table ORDER BY number")]


def test_a_table_is_read_once_and_then_only_what_is_new(table: Address, proxy: S3Proxy) -> None:
    first = reading(table)
    proxy.requests.clear()
    for _ in range(2):
        assert numbers(first) == [0, 1, 2]
        assert [each["n"] for each in query.query(first, ["number"], "SELECT count(*) AS n FROM delta_table")] == [3]
    assert Counter(method for method, _ in proxy.requests) == {"GET": 2 + 3 + 3}, "two listings, entries and files"
    assert max(Counter(proxy.requests).values()) == 1

    add(table, 3)
    assert isinstance(first.store, ReadOnceStore)
    proxy.requests.clear()
    assert numbers(reading(table, first.store)) == [0, 1, 2, 3]
    assert len(proxy.requests) == 2 + 1 + 1


def test_the_next_reading_knows_the_id_and_the_files_of_a_table(table: Address, proxy: S3Proxy) -> None:
    first, expected = reading(table), (delta.table_id(table), delta.snapshot_files(table))
    assert (delta.table_id(first), delta.snapshot_files(first)) == expected
    assert isinstance(first.store, ReadOnceStore)
    again = reading(table, first.store)
    proxy.requests.clear()
    assert (delta.table_id(again), delta.snapshot_files(again, 2)) == expected
    assert len(proxy.requests) == 1, "a listing"
    assert len(delta.snapshot_files(again, 1)) == 2


def test_the_next_reading_sees_a_table_that_was_replaced(table: Address) -> None:
    first = reading(table)
    assert numbers(first) == [0, 1, 2]
    table.delete_folder()
    for number in (7, 8, 9):
        add(table, number)
    assert numbers(first) == [0, 1, 2], "a reading is of one moment"
    assert isinstance(first.store, ReadOnceStore)
    assert numbers(reading(table, first.store)) == [7, 8, 9]


def test_rows_in_folders_of_partitions_are_read_where_they_are(s3_server: S3Process) -> None:
    # Without the proxy, a thread of this process, which delta-rs holds up while it reads rows.
    partitioned = Address(new_store(s3_server), "partitioned")
    rows = arrow.table(COLUMNS, [{"number": 1, "text": "a"}, {"number": 2, "text": "b"}])
    write_deltalake(partitioned.uri, rows, partition_by="text", storage_options=dict(partitioned.options))
    opened = delta_table.find_small(reading(partitioned))
    assert opened is not None and opened.table_uri.startswith("s3://")
    assert numbers(reading(partitioned)) == [1, 2]


def test_a_copy_is_deleted_with_its_table(table: Address) -> None:
    first = reading(table)
    copy = delta_table.find_small(first)
    assert isinstance(copy, DeltaTable)
    folder = Path(copy.table_uri.removeprefix("file://"))
    assert folder.is_relative_to(gettempdir())
    assert folder.exists()
    del copy
    first.forget()
    assert not folder.exists()


def test_a_table_that_is_missing_or_damaged_is_what_it_is_without_a_copy(s3_server: S3Process) -> None:
    table = Address(new_store(s3_server), "ledger")
    add(table, 0)
    assert delta_table.find_log(reading(Address(table.store, "missing"))) is None
    (table / "_delta_log" / f"{0:020d}.json").put(b"{")
    for find in (delta_table.find_log, delta_table.find_small):
        with pytest.raises(TableUnreadableError, match="ledger"):
            find(reading(table))
