"""The check of transforms as Spark plans them, and a pipeline whose transform joins by what `on` does not say."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tests.spark import job as orders
from tests.spark.kinds import test_joins as joins
from tidegate.checkpoints import derivation
from tidegate.errors import UndeclaredDependenceError
from tidegate.planning.preview import preview
from tidegate.project import registry, resolution
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest
from tidegate.spark.derivation.check import check
from tidegate.spark.functions import import_function
from tidegate.spec import ChangeFeed, Flow, Table
from tidegate.status import plan as lag_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.deployment import Deployment

pytestmark = pytest.mark.jvm

SALES = Flow(
    name="gold",
    sources=(ChangeFeed("silver.orders"), ChangeFeed("silver.items", on={"item": "code", "day": "day"})),
    transform="orders:sales",
    target=Table("gold.orders", keys=("day",)),
)
ORDERS = "id int, day int, shop string, item int, amount int, tags array<int>"
ITEMS = "code int, day int, label string, price int"
Transform = Callable[..., DataFrame]


def checked(spark: SparkSession, folder: Path, transform: Transform, flow: Flow = SALES) -> tuple[str, ...]:
    """What the check could not follow in a transform."""
    job = orders.job_of(spark, folder, flow, transform=transform)
    frames = [spark.createDataFrame([], schema) for schema in (ORDERS, ITEMS)][: len(flow.feeds)]
    _, finding = check(job.resolved, transform, frames, lambda rows: transform(*rows))
    if (error := finding.error(1)) is not None:
        raise error
    return finding.doubts


def priced(orders: DataFrame, items: DataFrame) -> DataFrame:
    prices = items.groupBy("code", "day").agg(F.max("price").alias("price"))
    joined = orders.join(prices, (orders["item"] == prices["code"]) & (orders["day"] == prices["day"]), "left")
    return joined.groupBy(orders["day"]).agg(F.sum("price").alias("value"))


def with_using(orders: DataFrame, items: DataFrame) -> DataFrame:
    renamed = items.withColumnRenamed("code", "item").alias("i")
    totals = orders.alias("o").groupBy("day").agg(F.sum("amount").alias("total"))
    return orders.join(renamed, ["item", "day"]).groupBy("day").count().join(totals, "day", "full")


def by_sql(orders: DataFrame, items: DataFrame) -> DataFrame:
    return orders.sparkSession.sql(
        """WITH own AS (SELECT day, item, max(amount) AS most FROM {orders} GROUP BY day, item)
        SELECT own.day, count(price) AS prices, max(other.most) AS most
        FROM own JOIN own AS other ON own.day = other.day LEFT JOIN {items} AS i ON own.item = i.code AND own.day <=> i.day
        GROUP BY ALL""",
        orders=orders,
        items=items,
    )


def newest_of_an_order(orders: DataFrame, items: DataFrame) -> DataFrame:
    newest = orders.withColumn("rank", F.row_number().over(Window.partitionBy("day", "shop").orderBy("amount")))
    known = newest.where("rank = 1").join(
        items, (F.col("item") == F.col("code")) & (items["day"] == orders["day"]), "left_semi"
    )
    return known.unionByName(newest.where("amount > 3")).dropDuplicates(["id"]).groupBy("day").agg(F.sum("amount"))


def item_of_the_largest(orders: DataFrame, items: DataFrame) -> DataFrame:
    largest = orders.groupBy("day").agg(F.max_by("item", "amount").alias("item")).withColumnRenamed("day", "of")
    shops = orders.sparkSession.createDataFrame([("a", 1)], "shop string, size int")
    days = orders.join(F.broadcast(shops), "shop", "left").join(largest, orders["day"] == largest["of"])
    joined = days.join(
        items.toDF("code", "on", "label", "price"), (largest["item"] == F.col("code")) & (F.col("on") == days["day"])
    )
    return joined.groupBy("day").count()


@pytest.mark.parametrize("transform", [priced, with_using, by_sql, newest_of_an_order, item_of_the_largest])
def test_what_the_declaration_names_is_accepted(spark: SparkSession, tmp_path: Path, transform: Transform) -> None:
    assert checked(spark, tmp_path, transform) == ()


FLIGHTS = "flight_id string, day date, carrier string, origin string, cancelled boolean, dep_delay double"
WEATHER = "origin string, hour timestamp, day date, wind double, visibility double"
VIEWS = "event_id string, occurred_at timestamp, window_start timestamp, user_id string, page string, seconds double"


@pytest.mark.parametrize(
    ("pipeline", "flow", "schemas"),
    [
        ("delays", "delays", (FLIGHTS, WEATHER, "carrier string, name string")),
        ("flights", "gold", (FLIGHTS,)),
        ("clickstream", "gold", (VIEWS,)),
        ("clickstream", "sessions", (VIEWS,)),
    ],
)
def test_the_transforms_of_the_examples_are_accepted(
    spark: SparkSession, tmp_path: Path, pipeline: str, flow: str, schemas: tuple[str, ...]
) -> None:
    declared = dataclasses.replace(registry.load(pipeline).flow(flow), name="gold")
    transform = import_function(str(declared.transform), "transform")
    job = orders.job_of(spark, tmp_path, declared, transform=transform)
    frames = [spark.createDataFrame([], schema) for schema in schemas]
    _, finding = check(job.resolved, transform, frames, lambda rows: transform(*rows))
    assert (finding.problem, finding.doubts) == ("", ())


REFUSED: dict[str, tuple[Transform, str]] = {
    "other column": (
        lambda orders, items: orders.join(items, F.col("shop") == F.col("label")).groupBy(orders["day"]).count(),
        "joins silver.items by shop = label",
    ),
    "half of on": (
        lambda orders, items: orders.join(items, orders["item"] == items["code"]).groupBy(orders["day"]).count(),
        "joins silver.items by item = code, but on={'item': 'code', 'day': 'day'}",
    ),
    "expression": (
        lambda orders, items: (
            orders.join(items, (F.col("item") + 1 == F.col("code")) & (orders["day"] == items["day"]))
            .groupBy(orders["day"])
            .count()
        ),
        "joins silver.items by day = day",
    ),
    "all rows": (
        lambda orders, items: orders.crossJoin(items.agg(F.max("price").alias("top"))).groupBy("day").agg(F.max("top")),
        "groups rows of silver.items without code, day",
    ),
    "less than on": (
        lambda orders, items: (
            orders.join(items.groupBy("code").agg(F.max("price")), F.col("item") == F.col("code"))
            .groupBy("day")
            .count()
        ),
        "groups rows of silver.items by code without day",
    ),
    "running total": (
        lambda orders, items: (
            orders.withColumn("total", F.sum("amount").over(Window.orderBy("id"))).groupBy("day").agg(F.max("total"))
        ),
        "ranks or sums in windows rows of silver.orders without day",
    ),
    "share of all": (
        lambda orders, items: (
            orders.join(orders.groupBy("shop").agg(F.sum("amount").alias("all")), "shop")
            .groupBy("day")
            .agg(F.max("all"))
        ),
        "groups rows of silver.orders by shop without day",
    ),
    "subtotals": (lambda orders, items: orders.rollup("day", "shop").count(), "without day"),
    "limit": (lambda orders, items: orders.orderBy("amount").limit(10).groupBy("day").count(), "limits"),
    "first of all": (
        lambda orders, items: orders.dropDuplicates(["shop"]).groupBy("day").count(),
        "by shop without day",
    ),
    "not sold before": (
        lambda orders, items: (
            orders.join(orders.select("shop", "day").toDF("sold", "of"), F.col("shop") == F.col("sold"), "left_anti")
            .groupBy("day")
            .count()
        ),
        "joins rows of silver.orders with others of it without day",
    ),
    "another key": (
        lambda orders, items: orders.groupBy("day").agg(F.max("item").alias("item")).select(F.col("item").alias("day")),
        "returns another day than the rows of silver.orders have",
    ),
    "rows of others": (
        lambda orders, items: orders.select("day").union(items.select("day")).groupBy("day").count(),
        "joins silver.items by",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_does_not_name_is_refused_with_the_columns(spark: SparkSession, tmp_path: Path, case: str) -> None:
    transform, message = REFUSED[case]
    with pytest.raises(UndeclaredDependenceError) as raised:
        checked(spark, tmp_path, transform)
    assert message in raised.value.message
    line = inspect.getsourcelines(transform)[1]
    assert f"spark_jobs/orders.py line {line}" in raised.value.message


def as_rdd(orders: DataFrame, items: DataFrame) -> DataFrame:
    return orders.rdd.map(lambda row: row).toDF(orders.schema).groupBy("day").count()


def with_collected(orders: DataFrame, items: DataFrame) -> DataFrame:
    top = items.agg(F.max("price")).collect()[0][0]
    return orders.groupBy("day").agg(F.max(F.lit(top)).alias("top"))


DOUBTED: dict[str, tuple[Transform, str]] = {
    "mapInPandas": (lambda orders, items: orders.mapInPandas(lambda parts: parts, "day int"), "uses MapInPandas"),
    "applyInPandas": (
        lambda orders, items: orders.groupBy("day").applyInPandas(lambda rows: rows, "day int"),
        "groups by a function of Python",
    ),
    "udf": (
        lambda orders, items: (
            orders.withColumn("of", F.udf(lambda item: item, "int")("item"))
            .join(items, (F.col("of") == F.col("code")) & (orders["day"] == items["day"]))
            .groupBy(orders["day"])
            .count()
        ),
        "compares silver.items with what a function",
    ),
    "subquery": (
        lambda orders, items: (
            orders.where(F.col("amount") > items.select(F.max("price")).scalar()).groupBy("day").count()
        ),
        "has a subquery",
    ),
    "RDD": (as_rdd, "returns rows that its plan does not derive from silver.orders"),
    "collect": (with_collected, "runs 1 Spark job itself"),
}


@pytest.mark.parametrize("case", DOUBTED)
def test_what_the_plan_does_not_show_is_a_doubt_and_no_refusal(spark: SparkSession, tmp_path: Path, case: str) -> None:
    transform, doubt = DOUBTED[case]
    doubts = checked(spark, tmp_path, transform)
    assert any(doubt in each for each in doubts), doubts


CLEAN = Flow(
    name="silver",
    source=ChangeFeed("bronze.orders"),
    transform="orders:clean",
    target=Table("silver.orders", keys=("id",), sequence_by=("day",)),
)
OF_ONE_ROW: dict[str, Transform] = {
    "columns": lambda rows: rows.where("amount >= 0").withColumn("twice", F.col("amount") * 2),
    "explode": lambda rows: rows.withColumn("tag", F.explode("tags")),
    "union": lambda rows: rows.where("amount < 3").unionByName(rows.where("amount >= 3")),
    "numbers of what a row became": lambda rows: rows.withColumn("tag", F.explode("tags")).withColumn(
        "number", F.row_number().over(Window.partitionBy("_row_id").orderBy("tag"))
    ),
    "constants": lambda rows: rows.join(
        rows.sparkSession.createDataFrame([("a", 1)], "shop string, size int"), "shop", "left"
    ),
}
OF_ITS_BATCH: dict[str, tuple[Transform, str]] = {
    "rank": (
        lambda rows: rows.withColumn("rank", F.row_number().over(Window.partitionBy("id").orderBy("day"))),
        "ranks or sums in windows rows of bronze.orders by id without _row_id",
    ),
    "duplicates": (lambda rows: rows.dropDuplicates(["id"]), "removes duplicates of rows of bronze.orders by id"),
    "share": (
        lambda rows: rows.join(rows.groupBy("shop").agg(F.sum("amount").alias("all")), "shop"),
        "groups rows of bronze.orders by shop without _row_id",
    ),
    "limit": (lambda rows: rows.limit(3), "limits the number of rows of bronze.orders"),
}


@pytest.mark.parametrize("case", OF_ONE_ROW)
def test_a_row_that_is_made_of_its_own_source_row_is_no_doubt(spark: SparkSession, tmp_path: Path, case: str) -> None:
    assert checked_rows(spark, tmp_path, OF_ONE_ROW[case]) == ()


@pytest.mark.parametrize("case", OF_ITS_BATCH)
def test_a_row_that_depends_on_others_of_its_batch_is_a_doubt(spark: SparkSession, tmp_path: Path, case: str) -> None:
    transform, doubt = OF_ITS_BATCH[case]
    [text] = checked_rows(spark, tmp_path, transform)
    assert doubt in text
    assert text.endswith("so that a row depends on which others are in its batch")


def test_a_table_that_is_no_source_is_a_doubt(spark: SparkSession, tmp_path: Path) -> None:
    labels = str(tmp_path / "labels")
    spark.createDataFrame([(1, "a")], "id int, label string").write.format("delta").save(labels)
    doubts = checked_rows(spark, tmp_path, lambda rows: rows.join(spark.read.format("delta").load(labels), "id"))
    assert "reads a table or files that are no source of the flow" in doubts


def checked_rows(spark: SparkSession, folder: Path, transform: Transform) -> tuple[str, ...]:
    """What is doubtful about the transform of a flow of rows."""
    job = orders.job_of(spark, folder, CLEAN, transform=transform)
    rows = spark.createDataFrame([], f"_row_id string, {ORDERS}")
    return check(job.resolved, transform, [rows], lambda sources: transform(*sources))[1].doubts


def test_a_part_of_the_keys_is_enough_where_scopes_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    def sessions(orders: DataFrame) -> DataFrame:
        ranked = orders.withColumn("number", F.row_number().over(Window.partitionBy("shop").orderBy("id")))
        return ranked.select("shop", "number", "amount")

    target = Table("gold.orders", keys=("shop", "number"), replace_by=("shop",))
    flow = Flow(name="gold", source=ChangeFeed("silver.orders"), transform="orders:sessions", target=target)
    assert checked(spark, tmp_path, sessions, flow) == ()
    whole = dataclasses.replace(flow, target=Table("gold.orders", keys=("shop", "day")))
    with pytest.raises(UndeclaredDependenceError, match="by shop without day"):
        checked(spark, tmp_path, sessions, whole)


def test_a_batch_with_an_undeclared_join_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    def by_id(orders: DataFrame, latest: DataFrame) -> DataFrame:
        return (
            orders.join(latest, orders["id"] == latest["code"], "left")
            .groupBy("day")
            .agg(F.sum("price").alias("value"))
        )

    lake = joins.Lake(spark, tmp_path)
    lake.change("silver.latest", joins.price(1, 10))
    lake.change("silver.orders", joins.order(1, 1, 1))
    with pytest.raises(UndeclaredDependenceError, match=r"joins silver\.latest by id = code"):
        lake.run(transform=by_id)
    assert not lake.job().live.exists()


DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table

def silver(name, key):
    return (
        Flow(name=f"bronze_{name}", source=FileSource(path=name, format="csv", schema=SCHEMAS[name]), target=Table(f"bronze.{name}")),
        Flow(name=name, source=ChangeFeed(f"bronze.{name}"), target=Table(f"silver.{name}", keys=(key,), sequence_by=("at",))),
    )

SCHEMAS = {"sales": "id INT NOT NULL, shop STRING, item INT, at INT", "items": "code INT NOT NULL, label STRING, at INT"}
pipeline = Pipeline(
    name="shop",
    flows=(
        *silver("sales", "id"),
        *silver("items", "code"),
        Flow(
            name="gold",
            sources=(ChangeFeed("silver.sales"), ChangeFeed("silver.items", on={"item": "code"})),
            transform="shop:labels",
            target=Table("gold.labels", keys=("shop",)),
        ),
    ),
)
"""
TRANSFORM = """
from pyspark.sql import functions as F

def labels(sales, items):
    joined = sales.join(items, sales["{ours}"] == items["{theirs}"], "left")
    return joined.groupBy("shop").agg(F.count("code").alias("known"))
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Writes the pipeline, whose transform joins by these columns."""
    for package in ("pipelines", "spark_jobs"):
        (tmp_path / package).mkdir()
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(tmp_path / package)])

    def forget() -> None:
        for name in ("pipelines.shop", "spark_jobs.shop"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()

    def write(ours: str, theirs: str) -> None:
        (tmp_path / "pipelines/shop.py").write_text(DECLARATION)
        (tmp_path / "spark_jobs/shop.py").write_text(TRANSFORM.format(ours=ours, theirs=theirs))
        for cached in tmp_path.rglob("__pycache__/*.pyc"):
            cached.unlink()
        forget()

    yield write
    forget()


def test_a_pipeline_with_an_undeclared_join_is_refused_until_its_transform_follows_on(
    deployment: Deployment, spark: SparkSession, shop: Callable[[str, str], None]
) -> None:
    def planned() -> tuple[lag_plan.Plan, str]:
        resolved = resolution.resolve(registry.load("shop"), deployment.environment.project)
        made = lag_plan.decide(deployment.environment, resolved, resolved.pipeline.flows)
        request = RunRequest(dag_id="shop", run_id="test", requested_by="ada")
        lines = preview(deployment.environment, resolved, request, made.readings).lines()
        return made, "\n".join(line for line in lines if line.startswith("gold: "))

    def run() -> FlowReport:
        return deployment.run("shop").flow("gold")

    shop("shop", "label")
    deployment.land("1.csv", "id,shop,item,at\n1,a,7,1\n", "sales")
    deployment.land("1.csv", "code,label,at\n7,a,1\n", "items")
    assert f"gold: {derivation.NOT_CHECKED}" in planned()[1]

    report = run()

    assert report.error is not None
    assert (report.error.kind, report.error.exit_code) == ("UndeclaredDependenceError", 78)
    for part in (
        "spark_jobs/shop.py line 4",
        "joins silver.items by shop = label",
        "on={'item': 'code'}",
        "missing: code",
    ):
        assert part in report.error.message
    assert not deployment.layout.table("gold.labels").exists()
    [error] = planned()[0].errors
    assert (type(error), error.message) == (UndeclaredDependenceError, report.error.message)

    shop("item", "code")
    deployment.land("2.csv", "code,label,at\n8,b,1\n", "items")
    assert f"gold: {derivation.NOT_CHECKED}" in planned()[1], "the edited transform is another one"
    assert run().error is None
    deployment.land("3.csv", "id,shop,item,at\n2,b,8,1\n", "sales")
    assert "gold: its rows follow every change of the sources, by the plan of the transform" in planned()[1]
    assert run().error is None
    assert {(row["shop"], row["known"]) for row in deployment.table("gold.labels").to_pylist()} == {("a", 1), ("b", 1)}
