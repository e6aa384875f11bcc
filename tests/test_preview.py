"""What a manual mode would do is told before anything runs, from real tables, files and ledgers, with no JVM."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Project, orders
from tidegate.report import BatchRecord

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
    assert flows["silver"]["busy"] is None


def test_the_time_is_estimated_from_the_flows_own_history(filled: Project) -> None:
    window = ("--mode", "replay", "--from", "2026-03-01", "--to", "2026-03-02")
    assert seen(filled, *window)["silver"]["seconds"] is None
    for batch, seconds in enumerate((2.0, 4.0, 4.0)):
        line = BatchRecord(flow="silver", batch_id=batch, app_id="a", kind="upsert", read=8, written=8, seconds=seconds)
        filled.record(orders(), line)
    assert seen(filled, *window)["silver"]["seconds"] == 2.0, "4 rows at the median of 2 rows a second"


def test_a_full_refresh_and_a_reingest_say_what_they_are_for(filled: Project) -> None:
    refresh = seen(filled, "--mode", "full_refresh", "--flow", "gold")
    assert refresh["gold"]["rewrites"] == "gold.orders (2 rows), where the result differs"
    again = seen(filled, "--mode", "reingest")
    assert list(again) == ["bronze"]
    assert again["bronze"]["reads"] == "of 1 landed file those that bronze lacks"
    assert again["bronze"]["touches"] == ["orders/silver", "orders/gold"]


def test_the_exact_commands_are_printed(filled: Project) -> None:
    told = filled.run("plan", "orders", "--mode", "replay", "--from", "2026-03-01", "--to", "2026-03-07").out
    conf = '{"mode": "replay", "from_date": "2026-03-01", "to_date": "2026-03-07"}'
    assert f"airflow dags trigger orders --conf '{conf}'" in told
    assert "tidegate run orders --mode replay --from 2026-03-01 --to 2026-03-07" in told
    assert "airflow backfill create --dag-id orders --from-date 2026-03-01 --to-date 2026-03-07" in told
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
