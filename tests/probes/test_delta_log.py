"""The files of a table's log are read without a JVM."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.spark_files import DeltaLog, add
from tidegate.errors import TableUnreadableError
from tidegate.probes import delta, delta_log, delta_table
from tidegate.store import Address


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    return DeltaLog(Address.local(tmp_path / "table"))


def test_the_info_of_a_commit_is_found_behind_other_actions(log: DeltaLog) -> None:
    log.commit(add("a", 1))
    lines = [{"txn": {"appId": "a"}}, {"commitInfo": {"operation": "WRITE"}}, {"add": {"path": "b"}}]
    delta_log.entry(log.path, 0).put(
        ("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)).encode()
    )
    assert delta_log.commit_info(log.path, 0) == {"operation": "WRITE"}
    assert delta_log.commit_info(log.path, 1) is None


def test_a_commit_without_info_has_an_empty_one(log: DeltaLog) -> None:
    log.commit(add("a", 1))
    delta_log.entry(log.path, 0).put(b'{"add":{"path":"b"}}\n')
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
        Path(delta_log.entry(log.path, 0)).with_suffix(".crc").write_text(checksum)
    assert delta_log.transactions(log.path, 0) == transactions


def torn(file: Address) -> None:
    file.put(file.read().data[: file.stat().size // 2])


def folder(file: Address) -> None:
    file.delete()
    file.make_folder()


DAMAGE: dict[str, Callable[[Address], object]] = {
    "is empty": lambda file: file.put(b""),
    "is missing": Address.delete,
    "is torn, or does not have what Delta writes": torn,
    "cannot be read (Is a directory)": folder,
}


@pytest.fixture
def orders(tmp_path: Path) -> Address:
    """A table ``silver.orders`` of six versions with a checkpoint of version 2."""
    path = tmp_path / "tables" / "silver" / "orders"
    path.mkdir(parents=True)
    for number in range(6):
        write_deltalake(str(path), pyarrow.table({"id": [number]}), mode="append")
        if number == 2:
            DeltaTable(str(path)).create_checkpoint()
    return Address.local(path)


def checkpoint_of(path: Address, version: int) -> Address:
    return path / "_delta_log" / f"{version:020d}.checkpoint.parquet"


@pytest.mark.parametrize("problem", DAMAGE)
@pytest.mark.parametrize("version", [3, 4])
def test_a_damaged_entry_is_an_error_that_names_table_and_file(orders: Address, problem: str, version: int) -> None:
    file = delta_log.entry(orders, version)
    DAMAGE[problem](file)
    reads: tuple[Callable[[], object], ...] = (
        lambda: delta_log.check(orders),
        lambda: delta_table.find(orders),
        lambda: delta.snapshot_files(orders),
        lambda: delta.transaction_version(orders, "app"),
        lambda: delta.table_id(orders),
    )
    for read in reads:
        with pytest.raises(TableUnreadableError) as raised:
            read()
        assert (raised.value.table, raised.value.file, raised.value.damage) == ("silver.orders", str(file), problem)
        assert str(raised.value).startswith(f"table silver.orders cannot be read: {file} {problem}. ")


@pytest.mark.parametrize("problem", [each for each in DAMAGE if each != "is missing"])
def test_a_damaged_entry_is_no_commit_without_changes(orders: Address, problem: str) -> None:
    DAMAGE[problem](delta_log.entry(orders, 5))
    reads: tuple[Callable[[], object], ...] = (
        lambda: delta_log.actions(orders, 5),
        lambda: delta.read_commit(orders, 5),
        lambda: delta.commits_since(orders, 1),
        lambda: delta.only_adds(orders, 5),
        lambda: delta.newest_files(orders),
    )
    for read in reads:
        with pytest.raises(TableUnreadableError):
            read()


@pytest.mark.parametrize(
    "content",
    [b"[1]\n", b'"add"\n', b"{}\n", b'{"add":null}\n', b'{"add":{"path":"a"},"remove":{}}\n', b"\xff\xfe", b"null\n"],
)
def test_an_entry_that_is_json_of_another_form_is_damaged(orders: Address, content: bytes) -> None:
    delta_log.entry(orders, 5).put(content)
    with pytest.raises(TableUnreadableError):
        delta_log.check(orders)


@pytest.mark.parametrize(
    "action", ['{"add":{"size":1}}', '{"add":{"path":"a","size":"x"}}', '{"add":{"path":"a","stats":"{"}}']
)
def test_an_action_of_another_form_is_damage_where_it_is_read(orders: Address, action: str) -> None:
    delta_log.entry(orders, 5).put((action + "\n").encode())
    with pytest.raises(TableUnreadableError):
        delta.read_commit(orders, 5)


def test_entries_that_a_checkpoint_replaces_are_not_needed(orders: Address) -> None:
    for version in range(3):
        delta_log.entry(orders, version).put(b"")
    delta_log.check(orders)
    assert len(delta.snapshot_files(orders)) == 6


@pytest.mark.parametrize("problem", ["is missing", "is torn, or does not have what Delta writes"])
def test_a_damaged_checkpoint_is_an_error_that_names_it(orders: Address, problem: str) -> None:
    DAMAGE[problem](checkpoint_of(orders, 2))
    with pytest.raises(TableUnreadableError) as raised:
        delta_table.find(orders)
    assert (raised.value.file, raised.value.damage) == (str(checkpoint_of(orders, 2)), problem)


@pytest.mark.parametrize("content", [b"", b'{"ver', b"[]", b'{"version":"2"}', b"\xff"])
def test_a_hint_that_cannot_be_read_is_not_needed(orders: Address, content: bytes) -> None:
    (orders / "_delta_log" / "_last_checkpoint").put(content)
    assert len(delta.snapshot_files(orders)) == 6
    assert delta.newest_files(orders)[0] == 5


def test_a_log_without_its_beginning_is_damaged(orders: Address) -> None:
    checkpoint_of(orders, 2).delete()
    (orders / "_delta_log" / "_last_checkpoint").delete()
    for version in range(3):
        delta_log.entry(orders, version).delete()
    with pytest.raises(TableUnreadableError) as raised:
        delta_log.check(orders)
    assert raised.value.file == str(delta_log.entry(orders, 0))


def test_a_version_that_the_log_no_longer_has_is_not_damage(orders: Address) -> None:
    for version in range(2):
        delta_log.entry(orders, version).delete()
    with pytest.raises(FileNotFoundError):
        delta.snapshot_files(orders, 1)
    with pytest.raises(FileNotFoundError):
        delta_table.find(orders, 77)


@pytest.mark.parametrize(
    ("folder", "name", "after"),
    [
        ("tables/silver/orders", "silver.orders", "tidegate recover silver.orders"),
        ("quarantine/shop/silver", "quarantine.shop.silver", "tidegate recover"),
        ("_ops/shop/ledger", "ops.shop.ledger", "what it recorded"),
        ("staging/shop/silver/v1-0", "staging.shop.silver.v1-0", "tidegate recover"),
        ("elsewhere", "elsewhere", "tidegate recover"),
    ],
)
def test_a_damaged_table_has_the_name_by_which_it_is_queried(
    tmp_path: Path, folder: str, name: str, after: str
) -> None:
    error = TableUnreadableError(tmp_path / folder, tmp_path / folder / "_delta_log", "is empty")
    assert error.table == name
    assert after in error.message
