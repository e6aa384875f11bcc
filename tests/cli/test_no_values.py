"""No value of the data leaks out of the tables: canaries in good rows, broken rows, a field name, and a failing transform.

Output and files of the example pipelines are searched in the tests of the guides (tests/docs).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import runpy
from pathlib import Path
from typing import Any

import pendulum
import pytest

from tests.canaries import contains_any, files_containing, tables_containing
from tests.cli.project import Project, Result
from tests.resolved import resolved
from tidegate.alerting import episodes
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import alert_history
from tidegate.status.evaluation import evaluate_pipelines
from tidegate.store import Address

pytestmark = [pytest.mark.nightly, pytest.mark.jvm]

CANARY = "canary4711"
AMOUNT = "471147.11"
"""A numeric canary: the largest amount, and above the suite's limit."""
PERSON = "Canaria Smith"
"""A canary used as a field name: keys of a map are data."""
CANARIES = (CANARY, AMOUNT, PERSON)

LANDED = f"""order_id,ordered_at,customer,amount,updated_at
{CANARY}-good,2026-01-05T09:30:00Z,{CANARY}@example.com,19.90,2026-01-05T09:30:00Z
{CANARY}-type,2026-01-05T10:12:00Z,ada,{CANARY},2026-01-05T10:12:00Z
{CANARY}-null,,{CANARY},1.00,2026-01-05T10:12:00Z
{CANARY}-high,2026-01-05T11:45:00Z,{CANARY},{AMOUNT},2026-01-05T11:45:00Z
{CANARY}-torn,{CANARY}
"""
EXTRA_FIELD = f"""order_id,ordered_at,customer,amount,updated_at,{PERSON}
B-1,2026-01-07T09:30:00Z,{CANARY},19.90,2026-01-07T09:30:00Z,{CANARY}
"""
SUITE = (
    ("expect_column_values_to_be_between", {"column": "amount", "max_value": 100_000}, "warning"),
    ("expect_column_values_to_match_regex", {"column": "customer", "regex": "^[a-z]+$"}, "info"),
    ("expect_column_values_to_be_in_set", {"column": "customer", "value_set": ["ada"]}, "info"),
    ("expect_column_distinct_values_to_be_in_set", {"column": "customer", "value_set": ["ada"]}, "info"),
    ("expect_column_most_common_value_to_be_in_set", {"column": "order_id", "value_set": ["A-1"]}, "info"),
    ("expect_column_max_to_be_between", {"column": "amount", "max_value": 10}, "info"),
    (
        "unexpected_rows_expectation",
        {"unexpected_rows_query": "SELECT * FROM {batch} WHERE length(customer) > 5"},
        "info",
    ),
)
TRANSFORM = """

def _raise(customer: str) -> str:
    if "canary" in (customer or ""):
        raise ValueError(f"cannot read {customer}")
    return customer


def raising(rows: DataFrame) -> DataFrame:
    read = F.udf(_raise, "string")
    return clean(rows).withColumn("customer", read("customer"))
"""
DECLARATION = """
from dataclasses import replace

from tidegate.spec import Contract, Thresholds

FROZEN = FileSource(path="frozen", format="csv", schema=SCHEMA, contract=Contract(mode="freeze"))


def cleaned(name, source, target, transform):
    table = Table(target, keys=("order_id",), sequence_by=("updated_at",))
    return Flow(name=name, source=ChangeFeed(source), target=table, transform=transform)


pipeline = replace(
    pipeline,
    thresholds=Thresholds(quarantine_rows=1),
    flows=(
        *pipeline.flows[:2],
        cleaned("raising", "bronze.sample", "silver.raised", "sample:raising"),
        Flow(name="landing", source=FROZEN, target=Table("bronze.frozen")),
        cleaned("frozen", "bronze.frozen", "silver.frozen", "sample:clean"),
    ),
)
"""
"""Bronze and silver, a flow whose transform raises, and one whose contract refuses a field."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A pipeline with a flow that judges canaries, one that raises on them, and one that reads a field with a person's name."""
    project = Project.scaffolded(tmp_path_factory.mktemp("copy") / "project")
    plain = [{"type": kind, "kwargs": kwargs, "severity": severity} for kind, kwargs, severity in SUITE]
    suite = project.folder / "expectations" / "sample" / "silver.json"
    suite.write_text(json.dumps({"name": "sample/silver", "expectations": plain}))
    for file, text in (("pipelines/sample.py", DECLARATION), ("spark_jobs/sample.py", TRANSFORM)):
        path = project.folder / file
        path.write_text(path.read_text() + text)
    project.land("canaries.csv", LANDED, "sample")
    torn = gzip.compress(LANDED.encode() * 50)[:-30]
    (project.folder / "landing" / "sample" / "torn.csv.gz").write_bytes(torn)
    project.land("extra_field.csv", EXTRA_FIELD, "frozen")
    return project


@pytest.fixture(scope="module")
def ran(project: Project) -> Result:
    """The only run of all flows; alerts are recorded after it."""
    result = project.run("run", "sample")
    assert result.code == 65, result.out + result.err
    states = {flow["flow"]: flow["state"] for flow in report_of(project)["flows"]}
    assert states == {
        **dict.fromkeys(("bronze", "silver", "landing"), "done"),
        **dict.fromkeys(("raising", "frozen"), "refused"),
    }
    now = pendulum.now("UTC")
    declared = runpy.run_path(str(project.folder / "pipelines" / "sample.py"))["pipeline"]
    (evaluation,) = evaluate_pipelines(project.environment, [("sample", resolved(declared))], now)
    alert_history.append(
        PipelinePlace(project.layout, "sample"), episodes.transitions((), evaluation.findings_including([]), now)
    )
    return result


def report_of(project: Project) -> dict[str, Any]:
    (path,) = Path(PipelinePlace(project.layout, "sample").reports).rglob("report.json")
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def rows(path: Path | Address) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    table_rows: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return table_rows


def test_the_canaries_are_in_tables_and_quarantine(project: Project, ran: Result) -> None:
    layout = project.layout
    assert files_containing(project.folder / "landing", CANARIES) == {"sample/canaries.csv", "frozen/extra_field.csv"}
    assert sum(contains_any(str(row), CANARIES) for row in rows(layout.table("bronze.sample"))) == 5
    silver = rows(layout.table("silver.sample"))
    assert [row["order_id"] for row in silver if contains_any(str(row), CANARIES)] == [f"{CANARY}-good"]
    entries = [
        row for row in rows(FlowPlace(layout, "sample", "silver").quarantine) if contains_any(row["record"], CANARIES)
    ]
    assert {rule for entry in entries for rule in entry["rules"]} == {
        "wrong_type(amount)",
        "required(ordered_at)",
        "between(amount)",
        "malformed_line",
    }
    assert {rule for row in rows(FlowPlace(layout, "sample", "bronze").quarantine) for rule in row["rules"]} == {
        "corrupt_compression"
    }


def test_every_expectation_of_the_suite_fails_on_a_canary(project: Project, ran: Result) -> None:
    (verdict,) = [
        row for row in rows(PipelinePlace(project.layout, "sample").ops("verdicts")) if row["flow"] == "silver"
    ]
    assert {result["expectation"] for result in json.loads(verdict["results"]) if not result["success"]} == {
        kind for kind, _, _ in SUITE
    }


def test_no_page_log_report_or_platform_table_contains_a_value(project: Project, ran: Result) -> None:
    layout = project.layout
    exported = project.run("docs", "sample")
    assert exported.out.strip() == str(PipelinePlace(layout, "sample").docs / "index.html"), exported.err
    pages = {
        str(path.relative_to(PipelinePlace(layout, "sample").docs))
        for path in Path(PipelinePlace(layout, "sample").docs).rglob("v*.html")
    }
    assert pages == {f"{flow}/v1-0-batch-0.html" for flow in ("bronze", "silver", "raising", "landing", "frozen")}
    contents = (Path(layout.root) / "tables", Path(layout.root) / "quarantine", project.folder / "landing")
    (log,) = Path(PipelinePlace(layout, "sample").reports).rglob("driver.log")
    assert "raising: refused" in log.read_text()
    # The transform did raise on canaries. Only the class of its exception is stored.
    assert "ValueError" in ran.out + ran.err
    assert not list(Path(PipelinePlace(layout, "sample").reports).rglob("failure-*.txt"))
    assert files_containing(project.folder, CANARIES, excluding=contents) == set()
    assert all(
        rows(PipelinePlace(layout, "sample").ops(name))
        for name in ("ledger", "verdicts", "progress", "evolution", "alerts")
    )
    assert tables_containing(layout, "sample", CANARIES) == set()


def test_a_field_name_that_looks_like_data_is_shown_as_a_hash(project: Project, ran: Result) -> None:
    (line,) = rows(PipelinePlace(project.layout, "sample").ops("evolution"))
    hidden = f"name#{hashlib.sha256(PERSON.encode()).hexdigest()[:8]}"
    assert (line["flow"], line["event"], line["kind"], line["field"]) == ("frozen", "refused", "addition", hidden)
    assert f"new field {hidden}" in ran.out + ran.err
    assert any(PERSON in row["_header"] for row in rows(project.layout.table("bronze.frozen")))


def test_no_command_prints_a_value(project: Project, ran: Result) -> None:
    commands = (
        *("status", "lag", "alerts", "plan", "ledger", "checkpoint", "docs"),
        *(("quarantine", "list"), ("contract", "show"), ("contract", "show", "--json")),
    )
    results = [project.run(*([command] if isinstance(command, str) else command), "sample") for command in commands]
    for result in (ran, *results):
        assert result.out and not contains_any(result.out + result.err, CANARIES), result.out + result.err
