"""The cache of small tables: each file is opened once, and a query sees one complete version."""

from __future__ import annotations

import shutil
import threading
from typing import Any

import pytest

from tests.cli.project import append
from tidegate.ops.table_cache import CachedTable, TableCache
from tidegate.store import Address

pytestmark = pytest.mark.slow

LINES = CachedTable(name="lines", columns={"number": "BIGINT", "note": "VARCHAR"})


@pytest.fixture
def cache() -> TableCache:
    return TableCache((LINES,))


@pytest.fixture
def path(folder: Address) -> Address:
    return folder / "lines"


def numbers(cache: TableCache, pipeline: str = "flights") -> list[Any]:
    rows = cache.query("SELECT number FROM lines WHERE pipeline = ? ORDER BY number", [pipeline])
    return [row["number"] for row in rows]


def test_every_file_is_opened_once(cache: TableCache, path: Address) -> None:
    for number in range(5):
        append(path, [{"number": number, "note": "n"}])
    assert cache.refresh("lines", "flights", path) == 5
    assert cache.refresh("lines", "flights", path) == 0
    append(path, [{"number": 5, "note": "n"}])
    assert cache.refresh("lines", "flights", path) == 1
    assert numbers(cache) == [0, 1, 2, 3, 4, 5]


def test_a_missing_table_is_empty_until_its_first_commit(cache: TableCache, path: Address) -> None:
    assert cache.refresh("lines", "flights", path) == 0
    (path / "_delta_log").make_folder()
    assert cache.refresh("lines", "flights", path) == 0
    assert numbers(cache) == []
    append(path, [{"number": 1, "note": "n"}])
    cache.refresh("lines", "flights", path)
    assert numbers(cache) == [1]


def test_a_compacted_table_has_the_same_rows(cache: TableCache, path: Address) -> None:
    from deltalake import DeltaTable

    for number in range(4):
        append(path, [{"number": number, "note": "n"}])
    cache.refresh("lines", "flights", path)
    table = DeltaTable(str(path))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert cache.refresh("lines", "flights", path) == 1
    assert numbers(cache) == [0, 1, 2, 3]


def test_a_table_that_was_deleted_and_created_again_is_read_again(cache: TableCache, path: Address) -> None:
    append(path, [{"number": 1, "note": "n"}])
    cache.refresh("lines", "flights", path)
    shutil.rmtree(path)
    append(path, [{"number": 7, "note": "n"}])
    cache.refresh("lines", "flights", path)
    assert numbers(cache) == [7]
    shutil.rmtree(path)
    cache.refresh("lines", "flights", path)
    assert numbers(cache) == []


def test_only_the_columns_of_the_cached_table_are_read(cache: TableCache, path: Address) -> None:
    append(path, [{"number": 1, "note": "n", "more": "x"}])
    cache.refresh("lines", "flights", path)
    (row,) = cache.query("SELECT * FROM lines")
    assert row.keys() == {"pipeline", "_file", "number", "note"}


def test_tables_of_two_pipelines_are_cached_separately(cache: TableCache, folder: Address) -> None:
    for number, name in enumerate(("flights", "clicks")):
        append(folder / name, [{"number": number, "note": "n"}])
        cache.refresh("lines", name, folder / name)
    assert (numbers(cache), numbers(cache, "clicks")) == ([0], [1])


def test_a_query_during_writes_sees_a_complete_version(cache: TableCache, path: Address) -> None:
    append(path, [{"number": 0, "note": "n"}, {"number": 0, "note": "n"}])

    def write() -> None:
        for number in range(1, 25):
            append(path, [{"number": number, "note": "n"}, {"number": number, "note": "n"}])

    writer = threading.Thread(target=write)
    writer.start()
    rows = []
    while writer.is_alive():
        cache.refresh("lines", "flights", path)
        rows = numbers(cache)
        assert rows == sorted([*range(len(rows) // 2)] * 2)
    writer.join()
    cache.refresh("lines", "flights", path)
    assert numbers(cache) == sorted([*range(25)] * 2)
