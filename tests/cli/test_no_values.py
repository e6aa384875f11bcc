"""No value of the data leaves the tables: canaries in good rows, in broken ones, and in a transform that raises."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pendulum
import pytest

from tests.cli.project import Project, Result
from tidegate.alerting import episodes
from tidegate.ops import alert_history
from tidegate.status import observation

pytestmark = pytest.mark.jvm

CANARY = "canary4711"
AMOUNT = "471147.11"
"""A canary among numbers: the largest amount, and above what the suite allows."""
PERSON = "Canaria Smith"
"""A canary that stands where the name of a field should: keys of a map are data."""
CANARIES = (CANARY, AMOUNT, PERSON.lower())

LANDED = f"""order_id,ordered_at,customer,amount,updated_at
{CANARY}-good,2026-01-05T09:30:00Z,{CANARY}@example.com,19.90,2026-01-05T09:30:00Z
{CANARY}-type,2026-01-05T10:12:00Z,ada,{CANARY},2026-01-05T10:12:00Z
{CANARY}-null,,{CANARY},1.00,2026-01-05T10:12:00Z
{CANARY}-high,2026-01-05T11:45:00Z,{CANARY},{AMOUNT},2026-01-05T11:45:00Z
{CANARY}-torn,"{CANARY}
"""
DRIFTED = f"""order_id,ordered_at,customer,amount,updated_at,{PERSON}
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
RAISING = """

def _raise(customer: str) -> str:
    raise ValueError(f"cannot read {customer}")


_well = clean


def clean(rows: DataFrame) -> DataFrame:
    read = F.udf(_raise, "string")
    return _well(rows).withColumn("customer", read("customer"))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A pipeline whose first run judged canaries, and whose second met them in a transform that raises."""
    made = Project.scaffolded(tmp_path_factory.mktemp("copy") / "project")
    plain = [{"type": kind, "kwargs": kwargs, "severity": severity} for kind, kwargs, severity in SUITE]
    suite = made.folder / "expectations" / "sample" / "silver.json"
    suite.write_text(json.dumps({"name": "sample/silver", "expectations": plain}))
    made.land("canaries.csv", LANDED, "sample")
    torn = gzip.compress(LANDED.encode() * 50)[:-30]
    (made.folder / "landing" / "sample" / "torn.csv.gz").write_bytes(torn)
    return made


@pytest.fixture(scope="module")
def judged(project: Project) -> Result:
    told = project.run("run", "sample")
    assert told.code == 0, told.out + told.err
    return told


@pytest.fixture(scope="module")
def raised(project: Project, judged: Result) -> Result:
    job = project.folder / "spark_jobs" / "sample.py"
    job.write_text(job.read_text() + RAISING)
    project.land("more.csv", LANDED.replace("-good", "-more"), "sample")
    told = project.run("run", "sample")
    assert told.code == 70, told.out + told.err
    return told


@pytest.fixture(scope="module")
def refused(project: Project, raised: Result) -> Result:
    """A third run, whose contract is frozen, met a field whose name is a person's; and alerts opened."""
    job = project.folder / "spark_jobs" / "sample.py"
    job.write_text(job.read_text().replace(RAISING, ""))
    declaration = project.folder / "pipelines" / "sample.py"
    declared = declaration.read_text().replace("import ChangeFeed, ", "import ChangeFeed, Contract, Thresholds, ")
    declared = declared.replace("schema=SCHEMA)", 'schema=SCHEMA, contract=Contract(mode="freeze"))')
    declaration.write_text(
        declared.replace('name="sample",', 'name="sample", thresholds=Thresholds(quarantine_rows=1),')
    )
    project.land("drifted.csv", DRIFTED, "sample")
    told = project.run("run", "sample")
    assert told.code == 65, told.out + told.err
    now, declared = pendulum.now("UTC"), runpy.run_path(str(declaration))["pipeline"]
    (found,) = observation.judge(project.environment, [("sample", declared)], now)
    alert_history.append(project.layout, "sample", episodes.settle((), found.findings_beside([]), now))
    return told


def rows(path: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    found: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return found


def quoting(folder: Path, *, but: tuple[Path, ...] = ()) -> set[str]:
    """The files below a folder in which a canary stands, in whatever case."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not any(path.is_relative_to(other) for other in but) and shown(path.read_bytes())
    }


def shown(content: bytes | str) -> bool:
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    return any(canary in text.lower() for canary in CANARIES)


def test_the_canaries_are_where_rows_belong(project: Project, judged: Result) -> None:
    layout = project.layout
    assert quoting(project.folder / "landing") == {"sample/canaries.csv"}
    assert sum(shown(str(row)) for row in rows(layout.table("bronze.sample"))) == 5
    assert [row["order_id"] for row in rows(layout.table("silver.sample")) if shown(str(row))] == [f"{CANARY}-good"]
    refused = {
        rule for row in rows(layout.quarantine("sample", "silver")) if shown(row["record"]) for rule in row["rules"]
    }
    assert refused == {"wrong_type(amount)", "required(ordered_at)", "between(amount)", "malformed_line"}
    assert {rule for row in rows(layout.quarantine("sample", "bronze")) for rule in row["rules"]} == {
        "corrupt_compression"
    }


def test_every_expectation_of_the_suite_met_a_canary_and_failed(project: Project, judged: Result) -> None:
    (verdict,) = rows(project.layout.ops("sample", "verdicts"))
    assert {result["expectation"] for result in json.loads(verdict["results"]) if not result["success"]} == {
        kind for kind, _, _ in SUITE
    }


def test_a_run_names_the_page_of_each_flow(project: Project, judged: Result) -> None:
    for flow in ("bronze", "silver", "gold"):
        page = Path(judged.row(f"report ({flow}): ").partition(": ")[2])
        assert page == project.layout.docs("sample") / flow / "v1-0-batch-0.html"
        assert page.is_file()


def test_no_page_log_report_or_table_of_the_platform_holds_a_value(project: Project, refused: Result) -> None:
    layout = project.layout
    tables = (layout.lake / "tables", layout.lake / "quarantine", project.folder / "landing")
    logs = list(layout.reports("sample").rglob("driver.log"))
    assert len(logs) == 3
    # What Spark said of the raising transform is kept for a person who may read the data; see the guide.
    (kept,) = (path for path in layout.reports("sample").rglob("failure-*.txt"))
    assert shown(kept.read_text()), "the transform did raise on a canary"
    assert quoting(project.folder, but=(*tables, kept)) == set()
    # Parquet is compressed: read, and not only searched.
    for name in ("ledger", "verdicts", "progress", "evolution", "alerts"):
        held = rows(layout.ops("sample", name))
        assert held and not shown(str(held)), name


def test_a_field_whose_name_is_a_persons_is_told_by_its_hash(project: Project, refused: Result) -> None:
    lines = rows(project.layout.ops("sample", "evolution"))
    assert [(line["event"], line["kind"]) for line in lines] == [("refused", "addition")]
    hidden = f"name#{hashlib.sha256(PERSON.encode()).hexdigest()[:8]}"
    assert lines[0]["field"] == hidden
    assert f"new field {hidden}" in refused.out + refused.err
    assert any(PERSON in line for line in (row["_header"] for row in rows(project.layout.table("bronze.sample"))))


def test_no_command_says_a_value(project: Project, judged: Result, raised: Result, refused: Result) -> None:
    told = [judged, raised, refused]
    commands = (
        *("status", "lag", "alerts", "plan", "ledger", "checkpoint", "docs"),
        *(("quarantine", "list"), ("contract", "show"), ("contract", "show", "--json")),
    )
    told += [project.run(*([command] if isinstance(command, str) else command), "sample") for command in commands]
    for result in told:
        assert not shown(result.out + result.err), result.out + result.err


def test_pages_made_anew_from_the_tables_are_those_that_the_runs_made(project: Project, refused: Result) -> None:
    site = project.layout.docs("sample")
    before = {path.relative_to(site): alike(path) for path in site.rglob("*.html")}
    assert len(before) == 3 + 6 + 2, "indexes, batches, and two that wait: one refused by its gate, one by its contract"
    told = project.run("docs", "sample")
    assert told.out.strip() == str(site / "index.html"), told.err
    assert {path.relative_to(site): alike(path) for path in site.rglob("*.html")} == before


def alike(path: Path) -> str:
    """A page without its instants: the table's line is a little older than the page of the run."""
    return re.sub(r'<time datetime="[^"]+">[^<]+</time>', "<time>", path.read_text())
