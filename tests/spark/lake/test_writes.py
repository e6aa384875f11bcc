"""Each write operation: the resulting rows, the transaction of its commit, and that a rerun writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.job import table, write_table
from tests.waiting import TIMEOUT_SECONDS
from tidegate.errors import DeclarationConflictError, LedgerImbalanceError, SpecError, WriteConflictError
from tidegate.spark.lake import tables, writes
from tidegate.spark.lake.writes import Transaction
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

APP = "orders/silver/v1/0"
SETTINGS = ("txnAppId", "txnVersion")
Frame = Callable[..., "DataFrame"]


def txn(batch_id: int, app_id: str = APP) -> Transaction:
    return Transaction(app_id=app_id, batch_id=batch_id, prepared={"read": 10 + batch_id})


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    """Rows of ``id, amount, _order`` unless other columns are named."""

    def make(*rows: tuple[Any, ...], columns: str = "id int, amount int, _order int") -> DataFrame:
        return spark.createDataFrame(list(rows), columns).coalesce(1)

    return make


@pytest.fixture
def path(folder: Address) -> Address:
    return folder / "table"


def values(path: Address, *columns: str) -> list[tuple[Any, ...]]:
    """The sorted rows of the table as tuples."""
    return sorted((tuple(row[name] for name in columns or ("id", "amount")) for row in table(path)), key=repr)


def all_settings(spark: SparkSession) -> dict[str, str]:
    """The settings of the session."""
    return dict(spark.conf.getAll)


def settings_of(spark: SparkSession) -> list[str | None]:
    names = [f"spark.databricks.delta.write.{name}" for name in SETTINGS]
    return [spark.conf.get(name, None) for name in (*names, "spark.databricks.delta.commitInfo.userMetadata")]


def test_an_append_returns_its_commit_with_the_transaction(spark: SparkSession, frame: Frame, path: Address) -> None:
    first = writes.append(frame((1, 10, 0), (2, 20, 0)), path, txn(0))
    second = writes.append(frame((3, 30, 0)), path, txn(1))

    assert (first.version, first.metrics["numOutputRows"]) == (0, 2)
    assert first.metadata == {"app_id": APP, "batch_id": 0, "attempt": "", "prepared": {"read": 10}, "stands_on": {}}
    assert (second.version, second.metrics["numOutputRows"], second.metadata["prepared"]) == (1, 1, {"read": 11})
    assert values(path) == [(1, 10), (2, 20), (3, 30)]
    assert tables.transactions(spark, path) == {APP: 1}


WRITES: dict[str, Callable[..., tables.Commit]] = {
    "append": lambda rows, path, txn: writes.append(rows, path, txn),
    "upsert": lambda rows, path, txn: writes.upsert(rows, path, ("id",), txn),
    "groups": lambda rows, path, txn: writes.replace_groups(rows.selectExpr("*", "'upsert' _op"), path, ("id",), txn),
    "swap": lambda rows, path, txn: writes.swap(rows, path, ("id",), txn, ()),
    "replace": lambda rows, path, txn: writes.replace_table(rows, path, txn),
    "merge": lambda rows, path, txn: writes.merge(
        rows, path, "t.id = s.id", txn, updates={}, inserts=("true", ["id", "amount", "_order"])
    ),
}


ORDERS = "id int, amount int, _order int"


@pytest.mark.parametrize("write", WRITES)
def test_each_write_commits_the_transaction_and_the_prepared_line(
    write: str, spark: SparkSession, frame: Frame, path: Address
) -> None:
    write_table(path, ORDERS, (1, 10, 0))

    commit = WRITES[write](frame((2, 20, 0)), path, txn(5))

    assert (commit.version, commit.metadata) == (
        1,
        {"app_id": APP, "batch_id": 5, "attempt": "", "prepared": {"read": 15}, "stands_on": {}},
    )
    assert tables.transactions(spark, path) == {APP: 5}
    assert {row["id"] for row in table(path)} == ({2} if write in ("swap", "replace") else {1, 2})
    assert settings_of(spark) == [None, None, None], "later writes of the session must not use this transaction"


@pytest.mark.parametrize("write", ["append", "upsert"])
def test_a_rerun_of_a_batch_writes_nothing_and_returns_the_earlier_commit(
    write: str, frame: Frame, path: Address
) -> None:
    write_table(path, ORDERS, (1, 10, 0))
    written = WRITES[write](frame((2, 20, 0)), path, txn(0))

    assert WRITES[write](frame((3, 30, 0)), path, txn(0)) == written

    assert values(path) == [(1, 10), (2, 20)]


def states_computed(spark: SparkSession) -> list[str]:
    """The jobs until now in which Delta computed the state of a whole table."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    described = [str(jobs.apply(number).description()) for number in range(jobs.size())]
    return [each for each in described if "Compute snapshot for version" in each]


def test_an_append_computes_the_state_of_the_table_only_if_its_checksum_file_lacks_the_transactions(
    spark: SparkSession, frame: Frame, path: Address
) -> None:
    writes.append(frame((1, 10, 0)), path, txn(0))
    before = states_computed(spark)
    writes.append(frame((2, 20, 1)), path, txn(1))
    assert states_computed(spark) == before

    (path / "_delta_log" / f"{1:020d}.crc").delete()
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    writes.append(frame((3, 30, 2)), path, txn(2))
    assert len(states_computed(spark)) > len(before), "the jobs have another description"
    assert tables.transactions(spark, path) == {APP: 2}


@pytest.mark.parametrize("write", ["append", "upsert"])
def test_a_batch_that_another_process_has_committed_since_the_table_was_read_is_not_written(
    write: str, spark: SparkSession, frame: Frame, path: Address
) -> None:
    import deltalake
    import pyarrow as pa

    writes.append(frame((1, 10, 0)), path, txn(0))
    tables.read(spark, path).collect()
    schema = pa.schema([("id", pa.int32()), ("amount", pa.int32()), ("_order", pa.int32())])
    other = pa.table({"id": [2], "amount": [20], "_order": [1]}, schema)
    properties = deltalake.CommitProperties(app_transactions=[deltalake.Transaction(APP, 1)])
    deltalake.write_deltalake(str(path), other, mode="append", commit_properties=properties)
    with pytest.raises((LedgerImbalanceError, WriteConflictError)):
        WRITES[write](frame((2, 30, 1)), path, txn(1))
    assert values(path) == [(1, 10), (2, 20)]


def test_a_batch_older_than_the_table_is_an_error_and_not_skipped_silently(frame: Frame, path: Address) -> None:
    writes.append(frame((1, 10, 0)), path, txn(5))

    with pytest.raises(LedgerImbalanceError, match=r"has batch 5 of orders/silver/v1/0 after batch 3"):
        writes.append(frame((2, 20, 0)), path, txn(3))

    assert values(path) == [(1, 10)]


@pytest.fixture
def at_merge(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What is called when a MERGE is about to be executed; each must have been called at the end."""
    from delta.tables import DeltaMergeBuilder

    called: list[Callable[[], object]] = []
    reached: set[Callable[[], object]] = set()
    execute = DeltaMergeBuilder.execute

    def call_and_execute(merge: DeltaMergeBuilder) -> DataFrame:
        for each in called:
            each()
            reached.add(each)
        return execute(merge)

    monkeypatch.setattr(DeltaMergeBuilder, "execute", call_and_execute)
    yield called
    assert reached == set(called) != set()


def test_no_other_write_of_the_session_can_read_the_settings_of_a_merge(
    spark: SparkSession, frame: Frame, path: Address, at_merge: list[Callable[[], object]]
) -> None:
    write_table(path, ORDERS, (1, 10, 0))
    before, during = all_settings(spark), list[dict[str, str]]()
    at_merge.append(lambda: during.append(all_settings(spark)))

    writes.upsert(frame((2, 20, 0)), path, ("id",), txn(0))

    assert [*during, all_settings(spark)] == [before, before]
    assert tables.transactions(spark, path) == {APP: 0}


def test_two_merges_at_once_have_their_own_transactions(
    spark: SparkSession, frame: Frame, folder: Address, at_merge: list[Callable[[], object]]
) -> None:
    paths = {number: folder / f"table{number}" for number in (1, 2)}
    for path in paths.values():
        write_table(path, ORDERS, (1, 10, 0))
    both_are_prepared = Barrier(2, timeout=TIMEOUT_SECONDS)
    at_merge.append(both_are_prepared.wait)

    def merge(number: int) -> tables.Commit:
        return writes.upsert(frame((2, number, 0)), paths[number], ("id",), txn(number, f"orders/{number}"))

    with ThreadPoolExecutor(2) as threads:
        commits = dict(zip(paths, threads.map(merge, paths), strict=True))

    for number, path in paths.items():
        assert commits[number].metadata["app_id"] == f"orders/{number}"
        assert commits[number].metadata["prepared"] == {"read": 10 + number}
        assert tables.transactions(spark, path) == {f"orders/{number}": number}


def test_a_failed_write_leaves_no_settings(spark: SparkSession, frame: Frame, path: Address) -> None:
    from pyspark.sql import functions as F

    write_table(path, ORDERS, (1, 10, 0))
    before = all_settings(spark)

    with pytest.raises(Exception, match="on purpose"):
        writes.upsert(
            frame((2, 20, 0)).withColumn("amount", F.raise_error(F.lit("on purpose")).cast("int")),
            path,
            ("id",),
            txn(1),
        )

    assert all_settings(spark) == before
    assert values(path) == [(1, 10)]


def test_append_upsert_and_replacing_groups_add_a_new_column_to_the_table(frame: Frame, path: Address) -> None:
    wide = "id int, amount int, _order int, note string"
    write_table(path, ORDERS, (1, 10, 0))
    writes.upsert(frame((2, 20, 0, "new"), columns=wide), path, ("id",), txn(1))
    writes.append(frame((3, 30, 0, "x", 5), columns=f"{wide}, size int"), path, txn(2))
    more = f"{wide}, size int, color string, _op string"
    writes.replace_groups(frame((1, 11, 0, "g", 6, "red", "upsert"), columns=more), path, ("id",), txn(3))

    assert values(path, "id", "note", "size", "color") == [
        (1, "g", 6, "red"),
        (2, "new", None, None),
        (3, "x", 5, None),
    ]


@pytest.mark.parametrize("write", ["append", "upsert", "groups"])
def test_rows_that_lack_a_column_or_change_its_type_are_refused(write: str, frame: Frame, path: Address) -> None:
    write_table(path, ORDERS, (1, 10, 0))

    with pytest.raises(
        DeclarationConflictError, match=r"has amount, which the rows do not have: .* or another writer added it"
    ):
        WRITES[write](frame((2, 0), columns="id int, _order int"), path, txn(1))
    with pytest.raises(
        DeclarationConflictError, match=r"column 'amount' of the table at .* is int, but the transform returns bigint"
    ):
        WRITES[write](frame((2, 20, 0), columns="id int, amount bigint, _order int"), path, txn(1))

    assert values(path) == [(1, 10)]


def test_the_first_upsert_creates_the_table(spark: SparkSession, frame: Frame, path: Address) -> None:
    writes.upsert(frame((1, 10, 0)), path, ("id",), txn(0))

    assert values(path) == [(1, 10)]
    assert tables.transactions(spark, path) == {APP: 0}


def test_an_upsert_inserts_new_keys_and_updates_only_rows_with_a_lower_order(frame: Frame, path: Address) -> None:
    columns = "a int, b int, amount int, _order int"
    write_table(path, columns, (1, 1, 10, 5), (1, 2, 20, 5), (1, 3, 30, 5), (1, 4, 40, 5))
    rows = frame((1, 1, 11, 6), (1, 2, 21, 5), (1, 3, 31, 4), (2, 1, 51, 1), columns=columns)

    commit = writes.upsert(rows, path, ("a", "b"), txn(1))

    assert values(path, "a", "b", "amount") == [(1, 1, 11), (1, 2, 20), (1, 3, 30), (1, 4, 40), (2, 1, 51)]
    assert (commit.metrics["numTargetRowsInserted"], commit.metrics["numTargetRowsUpdated"]) == (1, 1)


GROUPS = "day int, total int, _op string"


def test_groups_are_written_replaced_and_deleted_in_one_commit(frame: Frame, path: Address) -> None:
    first = frame((1, 10, "upsert"), (2, 20, "upsert"), (None, 30, "upsert"), (9, None, "delete"), columns=GROUPS)
    writes.replace_groups(first, path, ("day",), txn(0))
    assert values(path, "day", "total") == [(1, 10), (2, 20), (None, 30)]

    second = frame(
        (1, 11, "upsert"),
        (2, None, "delete"),
        (None, 31, "upsert"),
        (3, 40, "upsert"),
        (7, None, "delete"),
        columns=GROUPS,
    )
    commit = writes.replace_groups(second, path, ("day",), txn(1))

    assert values(path, "day", "total") == [(1, 11), (3, 40), (None, 31)]
    names = ("Inserted", "Updated", "Deleted")
    assert [commit.metrics[f"numTargetRows{name}"] for name in names] == [1, 2, 1]
    assert "_op" not in table(path)[0]


def test_a_swap_makes_the_tables_equal_and_writes_only_rows_that_differ(frame: Frame, path: Address) -> None:
    write_table(path, ORDERS, (1, 10, 0), (2, 20, 0), (3, 30, 0), (4, None, 0), (None, 50, 0))
    staged = frame((1, 10, 9), (2, 21, 0), (4, None, 0), (None, 51, 0), (6, 60, 0))

    commit = writes.swap(staged, path, ("id",), txn(7, "orders/silver/v2/0"), ("_order",))

    assert values(path) == [(1, 10), (2, 21), (4, None), (6, 60), (None, 51)]
    names = ("Inserted", "Updated", "Deleted")
    assert [commit.metrics[f"numTargetRows{name}"] for name in names] == [1, 2, 1]
    assert {row["id"]: row["_order"] for row in table(path)}[1] == 0, (
        "a difference only in bookkeeping columns is no change"
    )


def test_a_swap_adds_a_column_and_updates_the_rows_that_have_a_value_in_it(frame: Frame, path: Address) -> None:
    write_table(path, ORDERS, (1, 10, 0), (2, 20, 0))
    staged = frame((1, 10, 0, "x"), (2, 20, 0, None), columns="id int, amount int, _order int, note string")

    commit = writes.swap(staged, path, ("id",), txn(0, "orders/silver/v2/0"), ("_order",))

    assert values(path, "id", "note") == [(1, "x"), (2, None)]
    assert commit.metrics["numTargetRowsUpdated"] == 1


def test_a_swap_of_equal_tables_without_other_columns_commits_only_the_transaction(
    spark: SparkSession, frame: Frame, path: Address
) -> None:
    write_table(path, "id int", (1,), (2,))

    writes.swap(frame((1,), (2,), columns="id int"), path, ("id",), txn(0, "orders/silver/v2/0"), ())

    assert values(path, "id") == [(1,), (2,)]
    assert tables.transactions(spark, path)["orders/silver/v2/0"] == 0


def test_replacing_a_table_replaces_rows_and_schema(spark: SparkSession, frame: Frame, path: Address) -> None:
    write_table(path, ORDERS, (1, 10, 0))

    commit = writes.replace_table(
        frame((7, "x"), columns="number bigint, name string"), path, txn(0, "orders/silver/v2/0")
    )

    assert table(path) == [{"number": 7, "name": "x"}]
    assert commit.version == 1
    assert tables.transactions(spark, path)["orders/silver/v2/0"] == 0


def test_the_first_update_whose_condition_is_true_applies_in_a_merge(frame: Frame, path: Address) -> None:
    from pyspark.sql import functions as F

    write_table(path, ORDERS, (1, 10, 0), (2, 20, 0))

    writes.merge(
        frame((1, 100, 1), (2, 200, 1), (3, 300, 1), (4, 400, 0)),
        path,
        "t.id = s.id",
        txn(1),
        updates={"t.amount < 15": {"amount": F.lit(-1)}, "true": {"amount": F.col("s.amount")}},
        inserts=("s._order = 1", ["id", "amount"]),
    )

    assert values(path, "id", "amount", "_order") == [(1, -1, 0), (2, 200, 0), (3, 300, None)]


def test_rows_fit_a_table_if_they_have_all_its_columns_with_the_same_types(frame: Frame) -> None:
    live = frame(columns="id int, amount int")

    assert writes.fits(frame(columns="amount int, id int, note string"), live)
    assert not writes.fits(frame(columns="id int"), live)
    assert not writes.fits(frame(columns="id int, amount bigint"), live)


LOCAL = datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001  # a time without a zone


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        ("append", "map<string, timestamp_ntz>"),
        pytest.param("upsert", "timestamp_ntz", marks=pytest.mark.nightly),
        ("groups", "array<struct<at: timestamp_ntz>>"),
        pytest.param("swap", "timestamp_ntz", marks=pytest.mark.nightly),
        pytest.param("replace", "array<struct<at: timestamp_ntz>>", marks=pytest.mark.nightly),
    ],
)
def test_a_new_column_may_need_a_feature_that_the_table_does_not_have(
    write: str, kind: str, spark: SparkSession, frame: Frame, path: Address
) -> None:
    import duckdb
    from deltalake import DeltaTable

    write_table(path, ORDERS, (1, 10, 0))
    nested = {"t": LOCAL, "a": [{"at": LOCAL}], "m": {"x": LOCAL}}[kind[0]]
    rows = frame((2, 20, 0, nested), columns=f"{ORDERS}, local {kind}")

    WRITES[write](rows, path, txn(5))
    WRITES[write](rows.withColumn("id", rows.id + 1), path, txn(6))

    with_old = [] if write in ("swap", "replace") else [1, 2]
    assert sorted(row["id"] for row in table(path)) == [*with_old, 3]
    with duckdb.connect() as connection:
        connection.register("stored", DeltaTable(str(path)).to_pyarrow_dataset())
        [(value,)] = connection.execute("SELECT local FROM stored WHERE id = 3").fetchall()
    assert value == nested
    assert tables.version(spark, path) == 3, "the feature is enabled once, in a commit of its own"
    assert tables.transactions(spark, path) == {APP: 6}


@pytest.mark.parametrize(
    "expression",
    [
        "interval '1' day",
        "make_interval(1)",
        "'a' COLLATE UTF8_LCASE",
        "array(named_struct('a', NULL))",
        "map('a', struct())",
    ],
)
def test_a_type_that_no_table_can_have_is_refused_by_the_name_of_its_column(
    expression: str, frame: Frame, path: Address
) -> None:
    rows = frame((1, 10, 0)).selectExpr("*", f"{expression} AS wrong")

    with pytest.raises(SpecError, match="column 'wrong' is"):
        writes.append(rows, path, txn(0))
    assert not path.exists()


def test_all_other_types_are_stored(spark: SparkSession, frame: Frame, path: Address) -> None:
    write_table(path, ORDERS, (1, 10, 0))
    columns = {
        "t": "CAST(1 AS tinyint)", "d": "CAST(1.5 AS decimal(38, 18))", "f": "CAST(1 AS float)", "b": "true", "y": "X'00'",
        "day": "DATE'9999-12-31'", "at": "TIMESTAMP'2026-01-05 23:59:59'", "local": "CAST(DATE'1582-10-10' AS timestamp_ntz)",
        "n": "NULL", "c": "CAST('a' AS char(3))", "deep": "map('a', array(named_struct('x', named_struct('y', 1))))",
    }  # fmt: skip

    writes.append(
        frame((2, 20, 0)).selectExpr("*", *[f"{sql} AS {name}" for name, sql in columns.items()]),
        path,
        txn(0),
    )

    assert len(table(path)) == 2
