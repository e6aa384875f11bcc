"""What a manual mode would do is told before anything runs, from real tables, files and ledgers, with no JVM."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Project, append, orders
from tidegate.checkpoints import lease
from tidegate.report import BatchRecord
from tidegate.spec import Pipeline

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


def seen(project: Project, *options: str) -> dict[str, dict[str, Any]]:
    told = project.run("plan", "orders", "--json", *options)
    assert told.code == 0, told.err
    return {flow["flow"]: flow for flow in told.json["flows"]}


def test_a_replay_names_what_is_read_and_the_keys_and_groups_of_its_window(filled: Project) -> None:
    flows = seen(filled, "--mode", "replay", "--from", "2026-03-01", "--to", "2026-03-01")
    assert list(flows) == ["silver", "gold"]
    assert (flows["silver"]["rows"], flows["silver"]["keys"], flows["gold"]["keys"]) == (4, 2, 1)
    assert flows["silver"]["reads"] == "bronze.orders at version 0"
    assert flows["silver"]["touches"] == ["orders/gold"]
    assert flows["gold"]["touches"] == []
    assert flows["silver"]["tables"] == ["gold.orders"]
    assert flows["silver"]["busy"] is None


def test_the_time_is_estimated_from_the_flows_own_history(filled: Project) -> None:
    window = ("--mode", "replay", "--from", "2026-03-01", "--to", "2026-03-02")
    assert seen(filled, *window)["silver"]["seconds"] is None
    for batch, (read, seconds) in enumerate([(2, 3.0), (8, 3.6)]):
        line = BatchRecord(
            flow="silver", batch_id=batch, app_id="a", kind="upsert", read=read, written=read, seconds=seconds
        )
        filled.record(orders(), line)
    assert seen(filled, *window)["silver"]["seconds"] == 3.2, "4 rows: 2.8 s and 0.1 s for each"


def test_an_increment_names_the_files_that_are_read_and_counts_those_that_are_not(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    project.declare(orders())
    folder = project.folder / "landing" / "orders"
    folder.mkdir()
    for name in ("0.csv", "0.tmp"):
        (folder / name).write_text("order_id\n1\n")
    told = project.run("plan", "orders")
    files = r"bronze: reads 1 new file in orders: 0\.csv; not read: 1 file in the folder that does not fit \S+, ~"
    assert re.search(files, told.out), told.out
    assert "silver: reads what flow bronze writes, " in told.out


def test_an_increment_is_told_as_fully_as_a_manual_mode(filled: Project) -> None:
    mail = filled.declare(Pipeline(name="mail", flows=(orders().flow("bronze"),)))
    path = filled.folder / "pipelines" / f"{mail.name}.py"
    path.write_text(path.read_text().replace("schedule=None", "schedule=AfterTables('gold.orders')"))
    told = filled.run("plan", "orders", "--json").json["preview"]
    bronze = told["flows"][0]
    assert (bronze["reads"], bronze["bytes"], bronze["rows_exact"]) == ("1 new file in orders: 0.csv", 24, False)
    assert [flow["rewrites"] for flow in told["flows"]] == [
        "",
        "keys of silver.orders that these rows name, 4 at most",
        "groups of gold.orders that these rows name, 3 at most",
    ]
    assert bronze["tables"] == ["silver.orders", "gold.orders"]
    assert bronze["starts"] == ["mail"]
    assert told["commands"] == ["airflow dags trigger orders", "tidegate run orders"]
    assert "to start it: tidegate run orders" in filled.run("plan", "orders").out


def test_who_works_on_a_flow_now_is_told_and_what_a_run_would_do_meanwhile(filled: Project) -> None:
    with lease.hold(filled.layout, (lease.checkpoint_resource("orders", "silver"),), what="attempt a1 of orders"):
        told = filled.run("plan", "orders", "--mode", "full_refresh")
    held = told.row("silver: ", "held by attempt a1 of orders")
    assert "`tidegate run` would end with 75" in held
    assert "Airflow would try again" in held
    assert "gold: it is held" not in told.out


def test_what_an_increment_does_before_and_what_stops_it_are_told(filled: Project) -> None:
    window = ("--mode", "replay", "--from", "2026-03-01", "--to", "2026-03-01")
    assert seen(filled, *window)["silver"]["first"] == "an increment, all of bronze.orders, version 0, is to be read"
    offset = {"reservoirId": "x", "reservoirVersion": 9, "index": -1, "isStartingVersion": False}
    filled.checkpoint(orders(), orders().flow("silver")).plan(0, {"sourceVersion": 1, **offset}).commit(0)
    assert seen(filled, *window)["silver"]["first"].startswith("it would stop: ")


def test_what_reads_everything_takes_no_increment_before(filled: Project) -> None:
    assert [flow["first"] for flow in seen(filled, "--mode", "full_refresh").values()] == ["", ""]
    assert seen(filled, "--mode", "reingest")["bronze"]["first"] == ""
    window = ("--from", "2026-03-01", "--to", "2026-03-01")
    assert seen(filled, "--mode", "reingest", *window)["bronze"]["first"] == "an increment, 1 new file in orders"


def test_a_neighbour_that_does_not_load_is_named_and_stops_nobody(filled: Project) -> None:
    (filled.folder / "pipelines" / "aa_wip.py").write_text("pipeline = Pipeline(")
    for mode in (["incremental"], ["replay", "--from", "2026-03-01", "--to", "2026-03-01"]):
        told = filled.run("plan", "orders", "--mode", *mode)
        assert told.code == 0, told.err
        assert "aa_wip does not load; whether it reads these tables is not known" in told.out


def test_a_full_refresh_and_a_reingest_say_what_they_are_for(filled: Project) -> None:
    refresh = seen(filled, "--mode", "full_refresh", "--flow", "gold")
    assert refresh["gold"]["rewrites"] == "gold.orders (2 rows), where the result differs"
    again = seen(filled, "--mode", "reingest")
    assert list(again) == ["bronze"]
    assert again["bronze"]["reads"] == "1 of 1 landed file, those that bronze lacks"
    assert (again["bronze"]["bytes"], again["bronze"]["rows_exact"]) == (24, False)
    assert again["bronze"]["touches"] == ["orders/silver", "orders/gold"]


def test_of_a_reingest_only_the_files_that_bronze_lacks_and_the_window_holds_are_told(filled: Project) -> None:
    paths = [filled.land(f"{day}.csv", "order_id,amount\nA-1,1.0\n") for day in (1, 2, 3)]
    for day, path in enumerate(paths, 1):
        os.utime(path, (instant := datetime(2026, 3, day, 12, tzinfo=UTC).timestamp(), instant))
    held = {"_path": f"file://{paths[0]}", "_modified_at": datetime(2026, 3, 1, 12, tzinfo=UTC), "line": "A-1,1.0"}
    shutil.rmtree(filled.layout.table("bronze.orders"))
    append(filled.layout.table("bronze.orders"), [held])
    bad = {"_row_id": f"{paths[1]}@{int(datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp()) * 1000}", "level": "file"}
    append(filled.layout.quarantine("orders", "bronze"), [bad])
    told = seen(filled, "--mode", "reingest")["bronze"]
    assert told["reads"] == "2 of 4 landed files, those that bronze lacks"
    assert told["bytes"] == 48
    within = seen(filled, "--mode", "reingest", "--from", "2026-03-01", "--to", "2026-03-03")["bronze"]
    assert within["reads"] == "1 of 3 landed files of 2026-03-01 to 2026-03-03, those that bronze lacks"
    assert within["rows"] == 1


def test_the_exact_commands_are_printed(filled: Project) -> None:
    filled.declare(dataclasses.replace(orders(), schedule="@daily", timezone="Europe/Paris"))
    told = filled.run("plan", "orders", "--mode", "replay", "--from", "2026-03-01", "--to", "2026-03-07").out
    conf = '{"mode": "replay", "from_date": "2026-03-01", "to_date": "2026-03-07"}'
    assert f"airflow dags trigger orders --conf '{conf}'" in told
    assert "tidegate run orders --mode replay --from 2026-03-01 --to 2026-03-07" in told
    span = "--from-date 2026-03-01T00:00:00+01:00 --to-date 2026-03-07T23:59:59+01:00"
    assert f"or in 7 runs, one for each interval: airflow backfill create --dag-id orders {span}" in told
    assert "--reprocess-behavior completed --max-active-runs 1" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--mode", "again"], "mode='again' is not allowed"),
        (["--mode", "replay"], "needs from_date and to_date"),
        (["--mode", "replay", "--from", "2026-03-02", "--to", "2026-03-01"], "lies after"),
        (["--mode", "reingest", "--flow", "gold"], "is not for flow 'gold'"),
        (["--from", "2026-03-02", "--to", "2026-03-03"], "do not go with mode='incremental'"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_jvm(filled: Project, options: list[str], told: str) -> None:
    for verb in ("plan", "run"):
        ended = filled.run(verb, "orders", *options, JAVA_HOME="/nowhere")
        assert ended.code == 64
        assert told in ended.err
