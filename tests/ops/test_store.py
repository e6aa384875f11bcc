"""Tidegate's own tables: many small commits, compacted to few files."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from tests.s3_server import S3Process
from tests.store.buckets import directly, new_store
from tests.store.proxy import S3Proxy, ServerFault
from tidegate.errors import LakeUnwritableError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, Place
from tidegate.ops import arrow, heartbeats, store
from tidegate.probes import delta_table
from tidegate.store import Address

pytestmark = pytest.mark.slow

COLUMNS = {"number": "BIGINT", "text": "VARCHAR"}


def add(path: Address, number: int, transaction: tuple[str, int] | None = None) -> None:
    store.append(path, COLUMNS, [{"number": number, "text": "a line"}], transaction)


def numbers(path: Address) -> list[int]:
    return [row["number"] for row in store.select(path, "SELECT number FROM delta_table ORDER BY number")]


@pytest.fixture
def max_five_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_FILES", 5)


@pytest.mark.usefixtures("max_five_files")
def test_small_files_are_compacted_without_losing_lines(folder: Address) -> None:
    for number in range(23):
        add(folder / "ledger", number)
    assert len(DeltaTable(folder / "ledger").file_uris()) <= 5
    assert numbers(folder / "ledger") == list(range(23))


@pytest.mark.usefixtures("max_five_files")
def test_a_transaction_id_survives_compaction(folder: Address) -> None:
    for number in range(12):
        add(folder / "ledger", number, ("flow", number))
    assert DeltaTable(folder / "ledger").transaction_version("flow") == 11


def test_rows_of_a_transaction_are_appended_once(folder: Address) -> None:
    for number in (0, 1, 1, 0, 2):
        add(folder / "ledger", number, ("flow", number))
    add(folder / "ledger", 3, ("other", 0))
    assert numbers(folder / "ledger") == [0, 1, 2, 3]


@pytest.mark.usefixtures("max_five_files")
def test_an_earlier_version_can_still_be_read_after_compaction(folder: Address) -> None:
    for number in range(5):
        add(folder / "ledger", number)
    before = DeltaTable(folder / "ledger")
    for number in range(5, 20):
        add(folder / "ledger", number)
    assert sorted(before.to_pyarrow_table()["number"].to_pylist()) == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("max_five_files")
def test_concurrent_writers_lose_no_line(folder: Address) -> None:
    add(folder / "ledger", 0)
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(lambda number: add(folder / "ledger", number), range(1, 30)))
    assert numbers(folder / "ledger") == list(range(30))


@pytest.mark.usefixtures("max_five_files")
def test_a_line_is_committed_even_if_compaction_fails(
    folder: Address, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def disk_full(_: DeltaTable, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DeltaTable, "vacuum", disk_full)
    for number in range(6):
        add(folder / "ledger", number)
    assert numbers(folder / "ledger") == list(range(6))
    assert "small files were not compacted" in caplog.text


@pytest.mark.usefixtures("max_five_files")
def test_compacted_heartbeats_stay_for_streams_that_have_not_read_them(
    folder: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, int] = {}

    def vacuum(table: DeltaTable, *, retention_hours: int, dry_run: bool) -> None:
        assert not dry_run
        kept[Path(urlsplit(table.table_uri).path).name] = retention_hours // 24

    monkeypatch.setattr(DeltaTable, "vacuum", vacuum)
    layout = Layout.local(Path(folder), Path(folder / "landing"))
    place = Place(layout, "payments", "silver", 1, 0)
    for number in range(6):
        add(folder / "ledger", number)
        heartbeats.append(place, heartbeats.Heartbeat(event_time=number, at=number, app_id=place.app_id))

    assert kept == {"ledger": 7, FlowPlace(layout, "payments", "silver").heartbeats.name: 30}


def test_a_table_without_a_committed_version_does_not_exist(folder: Address) -> None:
    (folder / "orders" / "_delta_log").make_folder()
    assert delta_table.find(folder / "orders") is None
    assert store.select(folder / "orders", "SELECT * FROM delta_table") == []


def test_lines_are_in_the_order_of_their_commits_whatever_the_clock_said(folder: Address) -> None:
    source, path = random.Random(7), folder / "ledger"
    columns = {**COLUMNS, "recorded_at": "TIMESTAMPTZ"}
    true = datetime(2026, 3, 1, 12, tzinfo=UTC)
    # As an earlier release wrote them: its lines have no other order than their times.
    write_deltalake(str(path), arrow.table(columns, [{"number": 0, "text": "", "recorded_at": true}]))
    assert [row["number"] for row in _oldest_first(path)] == [0]
    for number in range(1, 30):
        error = timedelta(minutes=source.choice((-2 * 1440, -20, 0, 0, 20, 2 * 1440, -90 * 1440)))
        line = {"number": number, "text": "", "recorded_at": true + timedelta(minutes=number) + error}
        store.append(path, columns, [line])

    assert [row["number"] for row in _oldest_first(path)] == list(range(30))
    newest_first = store.select(
        path, f"SELECT number FROM delta_table ORDER BY {store.newest_first(store.ordering(path))}"
    )
    assert [row["number"] for row in newest_first] == list(reversed(range(30)))


def _oldest_first(path: Address) -> list[dict[str, Any]]:
    return store.select(path, f"SELECT number FROM delta_table ORDER BY {store.oldest_first(store.ordering(path))}")


def test_a_refused_write_names_the_table_also_where_delta_rs_names_no_file(folder: Address) -> None:
    full = DeltaError("Failed to parse parquet: Unable to rename file: No space left on device (os error 28)")
    refused = pytest.raises(LakeUnwritableError, match=rf"table {folder}: cannot go on: the file system is full")
    with refused, delta_table.writing(folder):
        raise full


def test_an_append_in_a_bucket_reads_each_entry_once(s3_server: S3Process) -> None:
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        bucket = new_store(s3_server, endpoint=proxy.endpoint)
        table, direct = (
            Address(bucket, "_ops/flights/ledger"),
            Address(directly(bucket, s3_server), "_ops/flights/ledger"),
        )
        for number in range(4):
            proxy.requests.clear()
            add(table, number)
        sent = [
            f"{method} {'list' if 'list-type' in path else path.rpartition('.')[2]}" for method, path in proxy.requests
        ]
        assert sent == ["GET list", "PUT parquet", "PUT json"]
        # Another process has appended meanwhile.
        lines = arrow.table(COLUMNS, [{"number": 4, "text": "a line"}])
        write_deltalake(direct.uri, lines, mode="append", storage_options=dict(direct.options))
        proxy.requests.clear()
        add(table, 5)
        read = [
            path.rpartition("/")[2] for method, path in proxy.requests if method == "GET" and path.endswith(".json")
        ]
        assert read == [f"{4:020d}.json"]
        assert numbers(direct) == list(range(6))


@pytest.mark.parametrize("transaction", [None, ("flow", 7)])
def test_an_append_goes_behind_a_commit_that_came_first(
    s3_server: S3Process, transaction: tuple[str, int] | None
) -> None:
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        bucket = new_store(s3_server, endpoint=proxy.endpoint)
        table, direct = Address(bucket, "ledger"), Address(directly(bucket, s3_server), "ledger")
        add(table, 0)
        add(table, 1)
        busy = ServerFault("PUT", f"{2:020d}.json", 503, "SlowDown", then=lambda: add(direct, 7, transaction))
        proxy.fail(busy)
        add(table, 8 if transaction is None else 7, transaction)
        assert busy.fired
        assert numbers(direct) == ([0, 1, 7, 8] if transaction is None else [0, 1, 7])
        add(table, 9)
        assert numbers(direct)[-1] == 9


def test_an_append_whose_answer_is_lost_is_there_once(s3_server: S3Process) -> None:
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        bucket = new_store(s3_server, endpoint=proxy.endpoint)
        table = Address(bucket, "ledger")
        add(table, 0)
        lost = [ServerFault("PUT", f"{1:020d}.json", after=True), ServerFault("PUT", r"ledger/part-", after=True)]
        for each in lost:
            proxy.fail(each)
        add(table, 1)
        assert all(each.fired for each in lost)
        assert numbers(Address(directly(bucket, s3_server), "ledger")) == [0, 1]


def test_appends_behind_compactions_in_a_bucket_lose_no_line(
    s3_server: S3Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_OBJECTS", 2)
    table = Address(new_store(s3_server), "ledger")
    for number in range(7):
        add(table, number, ("flow", number))
        add(table, number, ("flow", number))
    assert numbers(table) == list(range(7))


def test_a_table_that_was_replaced_between_two_appends_is_opened_again(folder: Address) -> None:
    for number in range(3):
        add(folder / "ledger", number, ("flow", number))
    (folder / "ledger").delete_folder()
    other = folder / "other"
    for number in range(3):
        add(other, number + 7)
    other.move(folder / "ledger")
    add(folder / "ledger", 2, ("flow", 2))
    assert numbers(folder / "ledger") == [2, 7, 8, 9]


def test_an_append_of_another_process_between_two_appends_is_seen(folder: Address) -> None:
    add(folder / "ledger", 0, ("flow", 0))
    add(folder / "ledger", 1, ("flow", 1))
    left = dict(store._left_open)
    store._left_open.clear()
    add(folder / "ledger", 2, ("flow", 2))
    store._left_open.update(left)
    add(folder / "ledger", 2, ("flow", 2))
    assert numbers(folder / "ledger") == [0, 1, 2]
