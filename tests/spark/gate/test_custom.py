"""The custom expectation: a reference to another table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.errors import SpecError
from tidegate.lake.layout import Layout
from tidegate.lake.place import Place
from tidegate.reports.verdict import Verdict
from tidegate.spark.gate import LakeContext, SuiteGate, load_suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

AIRPORT = {"column": "origin", "table": "silver.airports", "table_column": "code"}
REF = Place(Layout.local(Path("lake"), Path("landing")), "flights", "silver", 1, 0)


def rule(kind: str, severity: str = "critical", **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity}


def gate_of(layout: Layout, *expectations: dict[str, Any]) -> SuiteGate:
    path = Path(layout.root) / "silver.json"
    path.write_text(json.dumps({"name": "flights/silver", "expectations": list(expectations)}))
    return SuiteGate(load_suite(path, "flights/silver"), "code", LakeContext(layout))


def judged(gate: SuiteGate, rows: DataFrame, batch_id: int = 0) -> tuple[Verdict, list[Any]]:
    flagged = gate.flag(rows).persist()
    try:
        return gate.judge(flagged, flow="silver", app_id=REF.app_id, batch_id=batch_id), flagged.collect()
    finally:
        flagged.unpersist()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path, tmp_path / "landing")


@pytest.fixture
def airports(spark: SparkSession, layout: Layout) -> Path:
    """Three airports, one of them deleted, and one without a code."""
    path = layout.table("silver.airports")
    rows = [("JFK", False), ("LGA", False), ("XXX", True), (None, False)]
    spark.createDataFrame(rows, "code string, _deleted boolean").write.format("delta").save(str(path))
    return Path(path)


def test_rows_with_an_unknown_reference_are_flagged_and_nulls_are_not(
    spark: SparkSession, layout: Layout, airports: Path
) -> None:
    rows = spark.createDataFrame(
        [(1, "JFK"), (2, "BOS"), (3, None), (4, "XXX"), (5, "LGA"), (6, "BOS")], "id int, origin string"
    )
    gate = gate_of(
        layout,
        rule("expect_column_values_to_be_in_table", "critical", **AIRPORT, mostly=0.3),
        rule(
            "expect_column_values_to_be_in_table",
            "info",
            **AIRPORT,
            row_condition={"type": "comparison", "column": {"name": "id"}, "operator": ">", "parameter": 4},
        ),
    )
    verdict, flagged = judged(gate, rows)

    assert {row["id"] for row in flagged if row["_errors"]} == {2, 4, 6}
    assert {row["id"] for row in flagged if row["_notes"]} == {6}
    assert verdict.outcome == "split"
    assert verdict.results[0].summary() == "in_table(origin) (3 of 5 rows break it, mostly 0.3)"


def test_references_are_evaluated_with_a_hash_join(
    spark: SparkSession, layout: Layout, airports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = spark.createDataFrame([("JFK",)], "origin string")
    gate_of(layout, rule("expect_column_values_to_be_in_table", **AIRPORT)).flag(rows).explain()
    plan = capsys.readouterr().out
    assert "HashJoin" in plan
    assert "NestedLoop" not in plan


def test_the_public_api_of_great_expectations_returns_the_same_rows(
    spark: SparkSession, layout: Layout, airports: Path
) -> None:
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    from tidegate.spark.gate.lake_context import activate

    rows = spark.createDataFrame([(1, "JFK"), (2, "BOS"), (3, None)], "id int, origin string")
    gate = gate_of(layout, rule("expect_column_values_to_be_in_table", **AIRPORT))
    verdict, flagged = judged(gate, rows)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("batch").get_batch({"dataframe": rows})
    with activate(LakeContext(layout)):
        expected = batch.validate(
            gate.suite.expectations[0].expectation,
            result_format={"result_format": "COMPLETE", "unexpected_index_column_names": ["id"]},
        )

    assert [entry["id"] for entry in expected.result["unexpected_index_list"]] == [2]
    assert [row["id"] for row in flagged if row["_errors"]] == [2]
    assert verdict.results[0].unexpected == expected.result["unexpected_count"]
    assert verdict.results[0].success == expected.success


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"table": "silver.missing"}, "table 'silver.missing' does not exist yet"),
        ({"table_column": "name"}, "no column 'name'"),
    ],
)
def test_a_reference_to_a_missing_table_or_column_raises(
    spark: SparkSession, layout: Layout, airports: Path, wrong: dict[str, str], message: str
) -> None:
    gate = gate_of(layout, rule("expect_column_values_to_be_in_table", **{**AIRPORT, **wrong}))
    with pytest.raises(SpecError, match=message):
        gate.flag(spark.createDataFrame([("JFK",)], "origin string"))
