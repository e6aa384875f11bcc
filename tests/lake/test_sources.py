"""A lake whose environment reads tables of another one."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.s3_server import S3Process
from tidegate.environment import Environment
from tidegate.errors import LakeUnwritableError, SettingsError, SetupError
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace, Place
from tidegate.ops import compaction, heartbeats, ledger
from tidegate.ops.ledger import RecordedLine
from tidegate.store import Address, LocalStore, ReadableStore, Store
from tidegate.store.read_only import ReadOnlyStore

TWO = """project = "shop"
[environments.prod]
lake = "prod/lake"
landing = "prod/landing"
{prod}
[environments.dev]
lake = "dev/lake"
landing = "dev/landing"
source = "prod"
"""


def environment(folder: Path, name: str = "dev", text: str = TWO.format(prod=""), **variables: str) -> Environment:
    (folder / "tidegate.toml").write_text(text)
    return Environment.read({"TIDEGATE_PROJECT": str(folder), "TIDEGATE_ENV": name, **variables})


def make_table(layout: Layout, name: str) -> None:
    (layout.table(name) / "_delta_log" / "00000000000000000000.json").put(b"{}\n")


def test_a_table_is_read_in_the_source_until_the_own_lake_has_it(tmp_path: Path) -> None:
    dev, prod = Layout.of(environment(tmp_path)), Layout.of(environment(tmp_path, "prod"))
    assert dev.read_table("silver.orders") == dev.table("silver.orders"), "nobody has it"
    make_table(prod, "silver.orders")
    assert dev.read_table("silver.orders").uri == prod.table("silver.orders").uri
    assert dev.table("silver.orders").uri.startswith(str(tmp_path / "dev"))
    assert dev.of_table("silver.orders").landing("orders").uri == prod.landing("orders").uri
    make_table(dev, "silver.orders")
    assert dev.read_table("silver.orders") == dev.table("silver.orders")


def test_a_table_that_a_run_writes_is_not_read_in_the_source(tmp_path: Path) -> None:
    make_table(Layout.of(environment(tmp_path, "prod")), "silver.orders")
    dev = Layout.of(environment(tmp_path).writing(["silver.orders"]))
    assert dev.read_table("silver.orders") == dev.table("silver.orders")


def test_a_source_may_have_a_source(tmp_path: Path) -> None:
    text = TWO.format(prod="source = 'first'") + "[environments.first]\nlake = 'first/lake'\n"
    first, dev = Layout.of(environment(tmp_path, "first", text)), Layout.of(environment(tmp_path, "dev", text))
    make_table(first, "bronze.orders")
    assert dev.read_table("bronze.orders").uri == first.table("bronze.orders").uri
    make_table(Layout.of(environment(tmp_path, "prod", text)), "bronze.orders")
    assert dev.read_table("bronze.orders").uri == str(tmp_path / "prod/lake/tables/bronze/orders")


def test_a_child_process_reads_the_same_sources_without_a_file(tmp_path: Path) -> None:
    dev = environment(tmp_path)
    child = Environment.read(dev.variables())
    assert child.source_lakes == dev.source_lakes != ()
    assert Environment.read(environment(tmp_path, "prod").variables()).source_lakes == ()


def test_nothing_can_be_written_in_a_source(tmp_path: Path) -> None:
    make_table(Layout.of(environment(tmp_path, "prod")), "silver.orders")
    table = Layout.of(environment(tmp_path)).read_table("silver.orders")
    writes = {name for name in dir(Store) if not hasattr(ReadableStore, name)}
    assert writes == {"append", "check", "delete", "delete_folder", "make_folder", "move", "put", "put_if"}
    assert isinstance(table.store, ReadOnlyStore) and not any(hasattr(table.store, name) for name in writes)
    file = table / "file"
    refused: list[Callable[[], object]] = [
        lambda: file.put(b""),
        lambda: file.put_if(b"", None),
        lambda: file.append(b""),
        lambda: file.update(lambda before: b""),
        file.delete,
        table.delete_folder,
        file.make_folder,
        lambda: table.move(table.parent / "other"),
        lambda: file.written_uri,
    ]
    for write in refused:
        with pytest.raises(OSError) as raised:
            write()
        assert raised.value.errno == errno.EROFS and raised.value.filename.startswith(str(tmp_path / "prod"))


@pytest.mark.slow
def test_credentials_that_may_write_to_production_write_nothing_in_a_bucket_of_a_source(
    tmp_path: Path, s3_server: S3Process
) -> None:
    """The environment that reads has the credentials of the one that writes."""
    bucket = f"s3://{s3_server.new_bucket()}"
    text = TWO.format(prod="").replace('"prod/', f'"{bucket}/prod/').replace('"dev/', f'"{bucket}/dev/')
    prod, dev = (Layout.of(environment(tmp_path, name, text, **s3_server.variables)) for name in ("prod", "dev"))
    line = RecordedLine(flow="silver", kind="upsert", app_id="orders/silver/v1/0", batch_id=0)
    ledger.LEDGER.append(PipelinePlace(prod, "orders"), [line, line], ("orders", 0))
    make_table(prod, "silver.orders")
    before = {entry.key: entry.tag for entry in prod.root.walk()}
    assert before

    source = dev.source
    assert source is not None
    place, file = PipelinePlace(source, "orders"), source.table("silver.orders") / "file"
    refused: list[Callable[[], object]] = [
        lambda: file.put(b""),
        lambda: file.put_if(b"", None),
        lambda: file.update(lambda content: b""),
        (source.table("silver.orders") / "_delta_log" / "00000000000000000000.json").delete,
        source.table("silver.orders").delete_folder,
        lambda: file.written_uri,
        lambda: ledger.LEDGER.append(place, [line], ("orders", 1)),
        lambda: compaction.compact(ledger.LEDGER.address(place), keep_days=7),
        lambda: heartbeats.create(Place(source, "orders", "silver", 1, 0)),
    ]
    for write in refused:
        with pytest.raises((OSError, LakeUnwritableError)):
            write()
    assert ledger.LEDGER.read(place) == [line, line]
    assert {entry.key: entry.tag for entry in prod.root.walk()} == before

    (prod.table("silver.orders") / "file").put(b"")
    assert {entry.key: entry.tag for entry in prod.root.walk()} != before, "the credentials may write there"


def test_a_store_that_can_only_be_read_has_what_the_other_one_has(tmp_path: Path) -> None:
    Address(LocalStore(tmp_path), "a/b").put(b"text")
    store = ReadOnlyStore(LocalStore(tmp_path))
    with store.open("a/b") as opened:
        assert store.read("a/b").data == opened.read() == b"text"
    assert [each.key for each in store.list("a")] == ["a/b"] == [each.key for each in store.walk()]
    assert store.stat("a/b").size == 4 and store.exists("a") and not store.exists("b")
    assert (store.uri("a"), store.path("a"), store.is_local) == (str(tmp_path / "a"), tmp_path / "a", True)
    assert store == ReadOnlyStore(LocalStore(tmp_path)) != LocalStore(tmp_path)


def test_an_environment_whose_lake_a_variable_sets_to_that_of_its_source_is_refused(tmp_path: Path) -> None:
    for lake in ("prod/lake", "prod/lake/inside", "prod"):
        with pytest.raises(SettingsError, match="its own source: 'prod' has the lake"):
            environment(tmp_path, TIDEGATE_LAKE=str(tmp_path / lake))


def test_a_source_on_another_server_of_buckets_is_refused(tmp_path: Path) -> None:
    text = TWO.replace("prod/lake", "s3://prod").format(prod="s3.endpoint = 'https://one.example.com'")
    with pytest.raises(SettingsError, match=r"s3\.endpoint of environment 'dev' is not that of 'prod'"):
        environment(tmp_path, text=text)
    assert environment(tmp_path, text=text, AWS_ENDPOINT_URL_S3="https://one.example.com").source_lakes


def test_a_source_whose_lake_is_of_another_project_is_refused(tmp_path: Path) -> None:
    Layout.of(environment(tmp_path, "prod", TWO.replace("shop", "garden").format(prod=""))).open()
    for use in (Layout.open, Layout.check):
        with pytest.raises(SetupError, match=r"'dev' reads tables of 'prod', and the lake at .* is that of .*'garden'"):
            use(Layout.of(environment(tmp_path)))
    assert not (tmp_path / "dev").exists()
