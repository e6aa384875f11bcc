"""`tidegate quarantine`, `checkpoint` and `ledger` on real Delta tables."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from tests.cli.project import Project, append, orders, quarantined
from tidegate.lake.place import FlowPlace
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec.limits import Thresholds

pytestmark = pytest.mark.slow

SECRET = "ada@example.org"


@pytest.fixture
def quarantine(project: Project) -> Project:
    """Three open entries and a closed one in silver, one from a topic in gold."""
    project.declare(orders())
    file = {"path": "file:///landing/orders/1.csv", "line": 7}
    append(
        FlowPlace(project.layout, "orders", "silver").quarantine,
        [
            quarantined("1.csv#7", ["between(amount)", "not_null(order_id)"], file, f"{SECRET},-1"),
            quarantined("1.csv#8", ["between(amount)"], {**file, "line": 8}, f"{SECRET},-2"),
            quarantined("2.csv#1", ["between(amount)"], {**file, "path": "file:///landing/orders/2.csv"}, "x,-3"),
            quarantined("1.csv#9", ["between(amount)"], {**file, "line": 9}, "x,-4", state="waived"),
        ],
    )
    append(
        FlowPlace(project.layout, "orders", "gold").quarantine,
        [quarantined("t/0/5", ["malformed_json"], {"topic": "orders", "partition": 0, "offset": 5}, "{")],
    )
    return project


def test_open_entries_are_counted_by_flow_rule_and_source(quarantine: Project) -> None:
    result = quarantine.run("quarantine", "list", "orders")
    assert result.code == 0
    assert result.row("between(amount)", "/landing/orders/1.csv").split()[3] == "2"
    assert result.row("between(amount)", "/landing/orders/2.csv").split()[3] == "1"
    assert result.row("not_null(order_id)").split()[3] == "1"
    assert result.row("gold", "malformed_json").endswith("orders")
    assert "silver: 3 open" in result.out


def test_a_list_never_shows_contents(quarantine: Project) -> None:
    for extra in ([], ["--json"], ["silver"]):
        assert SECRET not in quarantine.run("quarantine", "list", "orders", *extra).out


def test_one_flow_can_be_listed_alone(quarantine: Project) -> None:
    flows = quarantine.run("quarantine", "list", "orders", "gold", "--json").json["flows"]
    assert [(flow["flow"], flow["open"]) for flow in flows] == [("gold", 1)]


def test_show_prints_contents(quarantine: Project) -> None:
    result = quarantine.run("quarantine", "show", "orders", "silver", "--limit", "2")
    assert result.out.count("record  ") == 2
    assert f"record  {SECRET},-1" in result.out
    assert len(quarantine.run("quarantine", "show", "orders", "silver", "--json").json["records"]) == 3


def test_closed_entries_are_shown_with_who_when_and_why(quarantine: Project) -> None:
    rule = ("--rule", "not_null(order_id)")
    quarantine.run("quarantine", "waive", "orders", "silver", *rule, "--reason", "a test of theirs")
    result = quarantine.run("quarantine", "show", "orders", "silver", "--state", "waived")
    assert result.code == 0
    assert result.out.count("record  ") == 2
    assert re.search(r"waived +by \w+, \d{4}-\d\d-\d\d .*: a test of theirs", result.out), result.out
    records = quarantine.run("quarantine", "show", "orders", "silver", "--state", "waived", "--json").json["records"]
    assert {record["reason"] for record in records} == {"a test of theirs", None}
    assert (
        "Nothing is expired in flow 'silver'"
        in quarantine.run("quarantine", "show", "orders", "silver", "--state", "expired").out
    )
    wrong = quarantine.run("quarantine", "show", "orders", "silver", "--state", "gone' OR 1=1")
    assert (wrong.code, "allowed: open, replayed, waived, expired, withdrawn" in wrong.err) == (64, True), wrong.err


def test_without_a_quarantine_table_nothing_is_quarantined(project: Project) -> None:
    project.declare(orders())
    assert "Nothing is quarantined" in project.run("quarantine", "list", "orders").out


def test_the_ledger_shows_the_last_lines_and_that_they_balance(project: Project) -> None:
    pipeline = project.declare(orders())
    for batch_id in range(3):
        project.record(
            pipeline,
            LedgerLine(
                flow="silver",
                batch_id=batch_id,
                app_id="orders/silver/v1/0",
                kind="upsert",
                read=10,
                written=7,
                quarantined=1,
                filtered={"test_order": 2},
            ),
        )
    result = project.run("ledger", "orders", "--last", "2")
    assert result.code == 0
    assert result.out.count("upsert") == 2
    assert result.row("silver      2 ", " ok ").endswith("7 written, 1 quarantined, 2 filtered by test_order")
    assert [line["batch_id"] for line in project.run("ledger", "orders", "--json").json["batches"]] == [0, 1, 2]


def test_the_ledger_distinguishes_backfills_and_decisions_from_batches_and_shows_who_requested_them(
    quarantine: Project,
) -> None:
    pipeline = orders()
    batch = LedgerLine(flow="silver", batch_id=3, app_id="orders/silver/v1/0", kind="upsert", read=10, written=10)
    quarantine.record(pipeline, batch)
    window = dataclasses.replace(batch, app_id="orders/silver/v1/0/window", kind="backfill")
    quarantine.record(pipeline, window, mode="backfill", requested_by="ada")
    quarantine.run(
        "quarantine", "waive", "orders", "silver", "--rule", "between(amount)", "--reason", "a test of theirs"
    )

    result = quarantine.run("ledger", "orders")

    assert result.code == 0, result.out
    assert result.row("upsert").split()[3:5] == ["3", "v1/0"]
    assert "backfill 3" in result.row("backfill")
    assert result.row("backfill").endswith("backfill by ada")
    assert re.search(r"silver +waive +waive .* ok +3 +0 +3 closed +waive by \w+$", result.row("closed")), result.out
    assert "a test of theirs" not in result.out
    lines = quarantine.run("ledger", "orders", "--json").json["batches"]
    assert [(line["kind"], line["mode"]) for line in lines] == [
        ("upsert", "incremental"),
        ("backfill", "backfill"),
        ("waive", "waive"),
    ]
    assert [line["requested_by"] for line in lines][:2] == [None, "ada"]


def test_a_line_that_does_not_balance_is_shown_and_exits_with_70(project: Project) -> None:
    pipeline = project.declare(orders())
    project.record(
        pipeline, LedgerLine(flow="silver", batch_id=0, app_id="orders/silver/v1/0", kind="upsert", read=10, written=7)
    )
    result = project.run("ledger", "orders")
    assert result.code == 70
    assert "off by 3" in result.row("silver")


def test_checkpoints_show_versions_refreshes_and_batches(project: Project) -> None:
    old = project.declare(orders())
    project.checkpoint(old, old.flow("silver")).plan(0, {"reservoirVersion": 0}).commit(0).plan(
        1, {"reservoirVersion": 1}
    )
    new = project.declare(orders(version=2))
    project.checkpoint(new, new.flow("silver")).plan(0, {"reservoirVersion": 0})
    Path(FlowPlace(project.layout, "orders", "silver").checkpoints / "v2" / "1").mkdir()
    result = project.run("checkpoint", "orders", "--json").json["checkpoints"]
    assert [(line["version"], line["refresh"], line["in_use"]) for line in result] == [
        (1, 0, False),
        (2, 0, False),
        (2, 1, True),
    ]
    assert [(line["last_planned"], line["last_committed"]) for line in result] == [(1, 0), (0, None), (None, None)]
    assert all(len(line["fingerprint"]) == 16 and line["created_at"] for line in result)
    assert "batch 1 is pending" in project.run("checkpoint", "orders").row("silver", "v1")


def test_a_checkpoint_that_does_not_match_the_declaration_is_reported(project: Project) -> None:
    pipeline = project.declare(orders())
    project.checkpoint(pipeline, pipeline.flow("silver"))
    path = project.folder / "pipelines" / "orders.py"
    path.write_text(path.read_text().replace("orders:clean", "orders:tidy"))
    result = project.run("checkpoint", "orders")
    assert result.code == 78
    assert "'orders:clean' -> 'orders:tidy'" in result.row("silver", "v1")


def test_a_corrupt_checkpoint_is_reported_and_hides_no_other(project: Project) -> None:
    pipeline = project.declare(orders())
    project.checkpoint(pipeline, pipeline.flow("bronze")).plan(0, {"logOffset": 0}).commit(0)
    corrupt = project.checkpoint(pipeline, pipeline.flow("silver")).plan(0, {"reservoirVersion": 0})
    (corrupt.folder / "offsets" / "0").write_text("")
    result = project.run("checkpoint", "orders")
    assert result.code == 78
    assert "it is empty or incomplete" in result.row("silver", "v1")
    assert "yes" in result.row("bronze", "v1")


def test_waive_prints_how_many_are_waived_and_how_many_remain_open(quarantine: Project) -> None:
    arguments = ("quarantine", "waive", "orders", "silver", "--rule", "between(amount)", "--reason", "test orders")
    assert "3 would be waived" in quarantine.run(*arguments, "--dry-run").out
    result = quarantine.run(*arguments)
    assert (result.code, result.out.strip()) == (0, "silver: 3 waived, 0 still open")
    assert "silver: 0 open, 4 waived" in quarantine.run("quarantine", "list", "orders").out
    states = quarantine.run("quarantine", "list", "orders", "silver", "--json").json["flows"][0]["states"]
    assert states == {"waived": 4}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("waive", "orders", "silver", "--reason", " "), "waiving needs a reason"),
        (("waive", "orders", "silver", "--reason", "x", "--rule", "a' OR 1=1"), "is not a rule name"),
        (("waive", "orders", "silver", "--reason", "x", "--since", "soon"), "is not a date"),
        (("waive", "orders", "silvr", "--reason", "x"), "did you mean 'silver'"),
        (("expire", "orders", "--older-than", "a month"), "is not an age"),
    ],
)
def test_an_invalid_argument_exits_with_64_and_changes_nothing(
    quarantine: Project, arguments: tuple[str, ...], message: str
) -> None:
    result = quarantine.run("quarantine", *arguments)
    assert result.code == 64
    assert message in result.err
    assert quarantine.run("quarantine", "list", "orders", "silver", "--json").json["flows"][0]["open"] == 3


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_replay_of_a_flow_that_is_switched_off_is_refused_before_a_jvm_starts(
    quarantine: Project, options: tuple[str, ...]
) -> None:
    assert quarantine.run("flow", "off", "orders", "silver", "--reason", "frozen until Monday").code == 0
    result = quarantine.run("quarantine", "replay", "orders", "silver", *options)
    assert result.code == 64
    assert "frozen until Monday. Switch it on first: tidegate flow on orders silver" in " ".join(result.err.split())
    assert quarantine.run("quarantine", "list", "orders", "silver", "--json").json["flows"][0]["open"] == 3


def test_expire_closes_old_entries_of_all_flows(quarantine: Project) -> None:
    assert (
        "silver: 0 expired, 3 still open"
        in quarantine.run("quarantine", "expire", "orders", "--older-than", "9999d").out
    )
    result = quarantine.run("quarantine", "expire", "orders", "--older-than", "1d")
    assert result.code == 0
    assert "silver: 3 expired, 0 still open" in result.out
    assert "gold: 1 expired, 0 still open" in result.out


def test_waive_exits_with_75_while_a_run_holds_the_lease(quarantine: Project) -> None:
    from tidegate.checkpoints import lease

    with lease.hold(quarantine.layout, ("checkpoint:orders/silver",), what="attempt a1 of orders"):
        result = quarantine.run("quarantine", "waive", "orders", "silver", "--reason", "x")
    assert result.code == 75
    assert "attempt a1 of orders" in result.err
    assert quarantine.run("quarantine", "list", "orders", "silver", "--json").json["flows"][0]["open"] == 3


def test_status_shows_open_entries_their_age_and_exceeded_thresholds(quarantine: Project) -> None:
    pipeline = orders()
    flows = [
        dataclasses.replace(flow, thresholds=Thresholds(quarantine_rows=2)) if flow.name == "silver" else flow
        for flow in pipeline.flows
    ]
    without_age_limit = Thresholds(quarantine_hours=None)
    quarantine.declare(dataclasses.replace(pipeline, flows=tuple(flows), thresholds=without_age_limit))
    result = quarantine.run("status", "orders")
    assert "3, oldest " in result.row("orders/silver ")
    assert "orders/silver: warning: 3 entries are open in quarantine, more than 2" in result.out
    assert "orders/silver: warning: 3 entries are open in quarantine, the oldest for " in result.out
    assert "orders/gold: warning" not in result.out
    flow = quarantine.run("status", "orders", "--json").json["flows"][1]["quarantine"]
    assert (flow["open"], flow["states"], len(flow["warnings"])) == (3, {"open": 3, "waived": 1}, 2)
