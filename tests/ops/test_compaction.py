"""Compactions of one version conflict, in a folder and in a bucket: each line stays there once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from tests.s3_server import S3Process
from tests.store.buckets import directly, new_store
from tests.store.proxy import S3Proxy, ServerFault
from tidegate.ops import compaction, store
from tidegate.probes import delta_table
from tidegate.store import Address

pytestmark = pytest.mark.slow

COLUMNS = {"number": "BIGINT", "text": "VARCHAR"}


@pytest.fixture(params=["folder", "bucket"])
def table(request: pytest.FixtureRequest, folder: Address) -> Address:
    if request.param == "folder":
        return folder / "ledger"
    return Address(new_store(request.getfixturevalue("s3_server")), "ledger")


def append(table: Address, *numbers: int) -> None:
    for number in numbers:
        store.append(table, COLUMNS, [{"number": number, "text": None}])


def numbers(table: Address) -> list[int]:
    return sorted(row["number"] for row in store.select(table, "SELECT number FROM delta_table"))


def compact(table: Address) -> str:
    try:
        compaction.compact(table, keep_days=7)
    except CommitFailedError:
        return "conflict"
    return "committed"


@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.nightly)])
def test_of_two_compactions_of_one_version_one_is_committed(
    table: Address, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Barrier(2)
    write = compaction._parquet

    def write_together(*arguments: Any) -> tuple[bytes, int]:
        start.wait()
        return write(*arguments)

    monkeypatch.setattr(compaction, "_parquet", write_together)
    append(table, 0)
    with ThreadPoolExecutor(2) as compactors:
        for number in range(1, rounds + 1):
            append(table, number)
            assert sorted(compactors.map(compact, [table, table])) == ["committed", "conflict"]
            # A line that is doubled or lost stays so, and to read all of them takes as long as a compaction.
            if number % 20 == 0 or number == rounds:
                assert numbers(table) == list(range(number + 1))


def test_two_compactions_of_delta_rs_double_each_line(table: Address) -> None:
    """Why `tidegate.ops.compaction` exists: it may go when this fails."""
    append(table, 0, 1, 2)
    for opened in [delta_table.open_table(table), delta_table.open_table(table)]:
        opened.optimize.compact()
    assert numbers(table) == [0, 0, 1, 1, 2, 2]


def test_compactions_and_commits_that_come_together_keep_each_line_once(table: Address) -> None:
    append(table, 0, 1)
    with ThreadPoolExecutor(3) as workers:
        for number in range(2, 12):
            appended = workers.submit(append, table, number)
            outcomes = {*workers.map(compact, [table, table])}
            appended.result()
            assert outcomes <= {"committed", "conflict"}
    assert numbers(table) == list(range(12))
    # Each may have met an append; after them one commits.
    assert compact(table) == "committed"
    assert numbers(table) == list(range(12))


def test_a_compaction_whose_answer_is_lost_loses_no_line(s3_server: S3Process) -> None:
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        bucket = new_store(s3_server, endpoint=proxy.endpoint)
        table, direct = Address(bucket, "ledger"), Address(directly(bucket, s3_server), "ledger")
        append(direct, *range(4))
        lost = proxy.fail(ServerFault("PUT", r"_delta_log/\d{20}\.json", after=True))
        outcome = compact(table)
    assert lost.fired
    assert outcome in ("committed", "conflict")
    assert numbers(direct) == list(range(4))
    assert len(delta_table.open_table(direct).file_uris()) == 1


def test_columns_that_older_files_lack_and_their_types_stay(table: Address) -> None:
    append(table, 0, 1)
    row = {"number": 2, "text": "ä", "at": None, "names": ["a"], "share": 0.5, "small": 3, "counts": {"a": 1, "b": 2}}
    types = {
        "at": "TIMESTAMPTZ",
        "names": "VARCHAR[]",
        "share": "DOUBLE",
        "small": "INTEGER",
        "counts": "MAP(VARCHAR, BIGINT)",
    }
    store.append(table, {**COLUMNS, **types}, [row])
    before: Any = delta_table.open_table(table)
    compact(table)
    after = delta_table.open_table(table)
    assert after.schema() == before.schema()
    assert len(after.file_uris()) == 1
    key = [("number", "ascending")]
    assert after.to_pyarrow_table().sort_by(key) == before.to_pyarrow_table().sort_by(key)


def test_a_large_file_is_not_compacted_again(table: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    large = pa.table({"number": range(10, 2000), "text": [f"{number:032}" for number in range(10, 2000)]})
    write_deltalake(table.uri, large, storage_options=dict(table.options))
    (path, size), *_ = compaction._files(delta_table.open_table(table))
    monkeypatch.setattr(compaction, "_SMALL_BYTES", size)
    append(table, 0, 1, 2)
    assert compact(table) == "committed"
    left = dict(compaction._files(delta_table.open_table(table)))
    assert len(left) == 2
    assert left[path] == size
    assert numbers(table) == [0, 1, 2, *range(10, 2000)]
