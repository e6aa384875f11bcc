"""Previews of requests, from real tables, files and ledgers, without a JVM."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Project, append, orders, quarantined
from tidegate.checkpoints import lease
from tidegate.lake.place import FlowPlace
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import FileSource, Intervals, Pipeline, Table
from tidegate.times import dates

pytestmark = pytest.mark.slow

DAYS = [date(2026, 3, 1), date(2026, 3, 1), date(2026, 3, 2)]


@pytest.fixture
def filled(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    project.declare(orders())
    project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    project.table("bronze.orders", [{"line": f"A-{number},1.0"} for number in range(4)])
    project.table("silver.orders", [{"order_id": f"A-{n}", "day": day} for n, day in enumerate(DAYS)])
    project.table("gold.orders", [{"day": day, "total": 1.0} for day in DAYS[1:]])
    return project


def preview(project: Project, *options: str) -> dict[str, dict[str, Any]]:
    result = project.run("plan", "orders", "--json", *options)
    assert result.code == 0, result.err
    return {flow["flow"]: flow for flow in result.json["flows"]}


def test_a_backfill_shows_what_it_reads_and_the_keys_and_groups_of_its_window(filled: Project) -> None:
    flows = preview(filled, "--mode", "backfill", "--from", "2026-03-01", "--to", "2026-03-01")
    assert list(flows) == ["silver", "gold"]
    assert (flows["silver"]["rows"], flows["silver"]["keys"], flows["gold"]["keys"]) == (4, 2, 1)
    assert flows["silver"]["reads"] == "bronze.orders at version 0"
    assert flows["silver"]["touches"] == ["orders/gold"]
    assert flows["gold"]["touches"] == []
    assert flows["silver"]["tables"] == ["gold.orders"]
    assert flows["silver"]["busy"] is None


def test_the_duration_is_estimated_from_earlier_batches_of_the_flow(filled: Project) -> None:
    window = ("--mode", "backfill", "--from", "2026-03-01", "--to", "2026-03-02")
    assert preview(filled, *window)["silver"]["seconds"] is None
    for batch, (read, seconds) in enumerate([(2, 3.0), (8, 3.6)]):
        line = LedgerLine(
            flow="silver", batch_id=batch, app_id="a", kind="upsert", read=read, written=read, seconds=seconds
        )
        filled.record(orders(), line)
    assert preview(filled, *window)["silver"]["seconds"] == 6.6, "twice the median of the increments"
    assert "about 7 s by earlier increments, times 2" in filled.run("plan", "orders", *window).out


def test_an_increment_lists_its_files_and_counts_those_that_it_skips(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    project.declare(orders())
    folder = project.folder / "landing" / "orders"
    folder.mkdir()
    for name in ("0.csv", "0.tmp"):
        (folder / name).write_text("order_id\n1\n")
    result = project.run("plan", "orders")
    files = r"bronze: reads 1 new file in orders: 0\.csv; not read: 1 file in the folder that does not fit \S+, ~"
    assert re.search(files, result.out), result.out
    assert "silver: reads what flow bronze writes, " in result.out


def test_the_preview_of_an_increment_is_complete(filled: Project) -> None:
    mail = filled.declare(
        Pipeline(name="mail", flows=(dataclasses.replace(orders().flow("bronze"), target=Table("bronze.mail")),))
    )
    path = filled.folder / "pipelines" / f"{mail.name}.py"
    path.write_text(path.read_text().replace("schedule=None", "schedule=AfterTables('gold.orders')"))
    increment = filled.run("plan", "orders", "--json").json["preview"]
    bronze = increment["flows"][0]
    assert (bronze["reads"], bronze["bytes"], bronze["rows_exact"]) == ("1 new file in orders: 0.csv", 24, False)
    assert [flow["rewrites"] for flow in increment["flows"]] == [
        "",
        "keys of silver.orders of these rows, 4 at most",
        "groups of gold.orders of these rows, 3 at most",
    ]
    assert bronze["tables"] == ["silver.orders", "gold.orders"]
    assert bronze["starts"] == ["mail"]
    assert increment["commands"] == ["airflow dags trigger orders", "tidegate run orders"], "nothing to judge"
    assert "to start it: tidegate run orders" in filled.run("plan", "orders").out


def test_the_holder_of_a_lease_is_shown(filled: Project) -> None:
    with lease.hold(filled.layout, (lease.checkpoint_resource("orders", "silver"),), what="attempt a1 of orders"):
        result = filled.run("plan", "orders", "--mode", "full_refresh")
    line = result.row("silver: ", "held by attempt a1 of orders")
    assert "`tidegate run` would end with exit code 75" in line
    assert "Airflow would retry" in line
    assert "gold: its lease" not in result.out


def test_the_increment_before_a_backfill_and_its_error_are_shown(filled: Project) -> None:
    window = ("--mode", "backfill", "--from", "2026-03-01", "--to", "2026-03-01")
    assert preview(filled, *window)["silver"]["first"] == "an increment, all of bronze.orders, version 0"
    offset = {"reservoirId": "x", "reservoirVersion": 9, "index": -1, "isStartingVersion": False}
    filled.checkpoint(orders(), orders().flow("silver")).plan(0, {"sourceVersion": 1, **offset}).commit(0)
    assert preview(filled, *window)["silver"]["first"].startswith("it would fail: ")


def test_no_increment_runs_before_a_mode_that_reads_everything(filled: Project) -> None:
    assert [flow["first"] for flow in preview(filled, "--mode", "full_refresh").values()] == ["", ""]
    assert preview(filled, "--mode", "reingest")["bronze"]["first"] == ""
    window = ("--from", "2026-03-01", "--to", "2026-03-01")
    assert preview(filled, "--mode", "reingest", *window)["bronze"]["first"] == "an increment, 1 new file in orders"


def test_another_pipeline_that_does_not_load_is_listed(filled: Project) -> None:
    (filled.folder / "pipelines" / "aa_wip.py").write_text("pipeline = Pipeline(")
    for mode in (["incremental"], ["backfill", "--from", "2026-03-01", "--to", "2026-03-01"]):
        result = filled.run("plan", "orders", "--mode", *mode)
        assert result.code == 0, result.err
        assert "aa_wip does not load; it is unknown whether it reads these tables" in result.out


def test_previews_of_a_full_refresh_and_a_reingest(filled: Project) -> None:
    refresh = preview(filled, "--mode", "full_refresh", "--flow", "gold")
    assert refresh["gold"]["rewrites"] == "gold.orders (2 rows), where the result differs"
    reingest = preview(filled, "--mode", "reingest")
    assert list(reingest) == ["bronze"]
    assert reingest["bronze"]["reads"] == "1 of 1 landed file, those that are not in bronze"
    assert (reingest["bronze"]["bytes"], reingest["bronze"]["rows_exact"]) == (24, False)
    assert reingest["bronze"]["touches"] == ["orders/silver", "orders/gold"]


def test_a_reingest_reads_only_files_of_the_window_that_are_not_in_bronze(filled: Project) -> None:
    paths = [filled.land(f"{day}.csv", "order_id,amount\nA-1,1.0\n") for day in (1, 2, 3)]
    for day, path in enumerate(paths, 1):
        os.utime(path, (instant := datetime(2026, 3, day, 12, tzinfo=UTC).timestamp(), instant))
    ingested = {"_path": f"file://{paths[0]}", "_modified_at": datetime(2026, 3, 1, 12, tzinfo=UTC), "line": "A-1,1.0"}
    shutil.rmtree(filled.layout.table("bronze.orders"))
    append(filled.layout.table("bronze.orders"), [ingested])
    row_id = f"{paths[1]}@{int(datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp()) * 1000}"
    bad = quarantined(row_id, ["unreadable"], {"size": 24, "sha256": ""}, "", level="file")
    append(FlowPlace(filled.layout, "orders", "bronze").quarantine, [bad])
    whole = preview(filled, "--mode", "reingest")["bronze"]
    assert whole["reads"] == "2 of 4 landed files, those that are not in bronze"
    assert whole["bytes"] == 48
    within = preview(filled, "--mode", "reingest", "--from", "2026-03-01", "--to", "2026-03-03")["bronze"]
    assert within["reads"] == "1 of 3 landed files of 2026-03-01 to 2026-03-03, those that are not in bronze"
    assert within["rows"] == 1


def test_a_reingest_of_the_gaps_names_the_days_and_reads_what_bronze_lacks_of_them(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    bronze, *others = orders().flows
    assert isinstance(bronze.source, FileSource)
    days = Intervals("%Y-%m-%d", marker="%Y-%m-%d.done")
    own = dataclasses.replace(bronze, source=dataclasses.replace(bronze.source, intervals=days))
    pipeline = project.declare(dataclasses.replace(orders(), flows=(own, *others)))
    files = [project.land(f"2026-03-0{day}.csv", "order_id,amount\nA-1,1.0\n") for day in (1, 2, 4)]
    project.checkpoint(pipeline, own).listed(0, *files).plan(0, {"logOffset": 0}).commit(0)
    for day in (1, 2):
        project.land(f"2026-03-0{day}.done", "")
    os.utime(files[1], (2_000_000_000, 2_000_000_000))
    gaps = ("--mode", "reingest", "--gaps")

    bronze_preview = preview(project, *gaps)["bronze"]

    assert bronze_preview["reads"] == (
        "1 file of 3 days that are not complete: missing: 2026-03-03, incomplete: 2026-03-04 (no 2026-03-04.done), "
        "not read: 2026-03-02 (1 file changed after being read)"
    )
    assert (bronze_preview["bytes"], bronze_preview["rows"], bronze_preview["rewrites"]) == (
        24,
        1,
        "nothing: only missing rows are added to bronze.orders",
    )
    first = preview(project, *gaps, "--from", "2026-03-01", "--to", "2026-03-01")["bronze"]
    assert (first["reads"], first["bytes"]) == ("no file: each day of 2026-03-01 is complete", 0)
    output = project.run("plan", "orders", *gaps).out
    assert "orders: reingest of the gaps\n" in output
    assert "to start it: tidegate run orders --mode reingest --gaps\n" in output
    assert 'airflow dags trigger orders --conf \'{"mode": "reingest", "gaps": true}\'\n' in output


@pytest.mark.parametrize("timezone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("mode", ["backfill", "reingest"])
def test_a_window_of_the_whole_calendar_has_a_preview(filled: Project, mode: str, timezone: str) -> None:
    filled.declare(dataclasses.replace(orders(), schedule="@daily", timezone=timezone))
    ingested = {"_path": "file:///1.csv", "_modified_at": datetime(2026, 3, 1, 12, tzinfo=UTC), "line": "A-1,1.0"}
    shutil.rmtree(filled.layout.table("bronze.orders"))
    append(filled.layout.table("bronze.orders"), [ingested])
    flows = preview(filled, "--mode", mode, "--from", str(dates.FIRST), "--to", str(dates.LAST))
    reads = {"backfill": "bronze.orders at version 0", "reingest": "1 of 1 landed file of 0002-01-01 to 9998-12-31"}
    assert next(iter(flows.values()))["reads"].startswith(reads[mode])


def test_the_exact_commands_are_printed(filled: Project) -> None:
    filled.declare(dataclasses.replace(orders(), schedule="@daily", timezone="Europe/Paris"))
    output = filled.run("plan", "orders", "--mode", "backfill", "--from", "2026-03-01", "--to", "2026-03-07").out
    conf = '{"mode": "backfill", "from_date": "2026-03-01", "to_date": "2026-03-07"}'
    assert f"airflow dags trigger orders --conf '{conf}'" in output
    assert "to start it: tidegate run orders --mode backfill --from 2026-03-01 --to 2026-03-07\n" in output
    dry_run = "tidegate run orders --mode backfill --from 2026-03-01 --to 2026-03-07 --dry-run"
    assert f"to see what it deletes, changes and refuses: {dry_run}\n" in output
    span = "--from-date 2026-03-01T00:00:00+01:00 --to-date 2026-03-07T23:59:59+01:00"
    assert (
        f"or one run for each interval (--dry-run lists them): airflow backfill create --dag-id orders {span}" in output
    )
    assert "--reprocess-behavior completed --max-active-runs 1" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mode", "again"], "mode='again' is not allowed"),
        (["--mode", "backfill"], "needs from_date and to_date"),
        (["--mode", "backfill", "--from", "2026-03-02", "--to", "2026-03-01"], "is after"),
        (["--mode", "reingest", "--flow", "gold"], "does not apply to flow 'gold'"),
        (["--from", "2026-03-02", "--to", "2026-03-03"], "cannot be used with mode='incremental'"),
        (
            ["--mode", "backfill", "--from", "0001-01-01", "--to", "2026-03-03"],
            "from_date='0001-01-01' is out of range",
        ),
        (["--mode", "reingest", "--from", "2026-03-02", "--to", "9999-12-31"], "to_date='9999-12-31' is out of range"),
    ],
)
def test_an_invalid_request_is_refused_without_a_jvm(filled: Project, options: list[str], message: str) -> None:
    for verb in ("plan", "run"):
        result = filled.run(verb, "orders", *options, JAVA_HOME="/nowhere")
        assert result.code == 64
        assert message in result.err
