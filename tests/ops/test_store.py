"""The platform's small tables: many small commits, and few files all the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from tidegate.ops import store

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


def add(path: Path, number: int, commit: Any = None) -> None:
    store.append(path, SCHEMA, [{"number": number, "text": "a line"}], commit)


def numbers(path: Path) -> list[int]:
    return [row["number"] for row in store.select(path, "SELECT number FROM held ORDER BY number")]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FILES_AT_MOST", 5)


@pytest.mark.usefixtures("few")
def test_small_files_are_written_together_and_no_line_is_lost(tmp_path: Path) -> None:
    for number in range(23):
        add(tmp_path / "ledger", number)
    assert len(DeltaTable(tmp_path / "ledger").file_uris()) <= 5
    assert numbers(tmp_path / "ledger") == list(range(23))


@pytest.mark.usefixtures("few")
def test_a_transaction_id_outlives_the_files_of_its_commit(tmp_path: Path) -> None:
    for number in range(12):
        add(tmp_path / "ledger", number, CommitProperties(app_transactions=[Transaction("flow", number)]))
    assert DeltaTable(tmp_path / "ledger").transaction_version("flow") == 11


@pytest.mark.usefixtures("few")
def test_who_reads_an_earlier_version_still_finds_its_files(tmp_path: Path) -> None:
    for number in range(5):
        add(tmp_path / "ledger", number)
    before = DeltaTable(tmp_path / "ledger")
    for number in range(5, 20):
        add(tmp_path / "ledger", number)
    assert sorted(before.to_pyarrow_table()["number"].to_pylist()) == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("few")
def test_writers_beside_each_other_lose_no_line(tmp_path: Path) -> None:
    add(tmp_path / "ledger", 0)
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(lambda number: add(tmp_path / "ledger", number), range(1, 60)))
    assert numbers(tmp_path / "ledger") == list(range(60))


@pytest.mark.usefixtures("few")
def test_a_line_stands_although_its_table_could_not_be_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: DeltaTable, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DeltaTable, "vacuum", full)
    for number in range(6):
        add(tmp_path / "ledger", number)
    assert numbers(tmp_path / "ledger") == list(range(6))
    assert "its small files were not written together" in caplog.text


def test_a_table_whose_first_version_is_still_on_its_way_is_none(tmp_path: Path) -> None:
    (tmp_path / "orders" / "_delta_log").mkdir(parents=True)
    assert store.opened(tmp_path / "orders") is None
    assert store.select(tmp_path / "orders", "SELECT * FROM held") == []
