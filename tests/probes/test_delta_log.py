"""The files of a table's log are read without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark_files import DeltaLog, add
from tidegate.probes import delta_log


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    return DeltaLog(tmp_path / "table")


def test_the_info_of_a_commit_is_found_behind_other_actions(log: DeltaLog) -> None:
    log.commit(add("a", 1))
    lines = [{"txn": {"appId": "a"}}, {"commitInfo": {"operation": "WRITE"}}, {"add": {"path": "b"}}]
    delta_log.entry(log.path, 0).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    assert delta_log.commit_info(log.path, 0) == {"operation": "WRITE"}
    assert delta_log.commit_info(log.path, 1) is None


def test_a_commit_without_info_has_an_empty_one(log: DeltaLog) -> None:
    log.commit(add("a", 1))
    delta_log.entry(log.path, 0).write_text('{"add":{"path":"b"}}\n')
    assert delta_log.commit_info(log.path, 0) == {}


@pytest.mark.parametrize(
    ("checksum", "transactions"),
    [
        ('{"setTransactions": [{"appId": "orders/silver/v1/0", "version": 3}]}', {"orders/silver/v1/0": 3}),
        ('{"setTransactions": []}', {}),
        ('{"tableSizeBytes": 1}', None),
        ('{"setTransac', None),
        ("", None),
        (None, None),
    ],
)
def test_transactions_are_those_of_the_checksum_file_if_it_can_be_read(
    log: DeltaLog, checksum: str | None, transactions: dict[str, int] | None
) -> None:
    log.commit(add("a", 1))
    if checksum is not None:
        delta_log.entry(log.path, 0).with_suffix(".crc").write_text(checksum)
    assert delta_log.transactions(log.path, 0) == transactions
