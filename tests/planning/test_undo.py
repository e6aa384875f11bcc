"""What an undo may put back, decided from the ledger without a JVM."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Project, orders
from tidegate.errors import RequestError
from tidegate.lake.layout import run_key
from tidegate.lake.place import PipelinePlace, Place
from tidegate.ops import ledger
from tidegate.ops.ledger import RunOrigin
from tidegate.reports.ledger_line import LedgerLine
from tidegate.requests.request import RunRequest
from tidegate.runs.undo import plan as undo
from tidegate.spec import ChangeFeed, Flow, KafkaSink

pytestmark = pytest.mark.slow

WINDOWS = "orders/silver/v1/0/window"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    project.declare(orders())
    return project


def commit(project: Project, table: str, app_id: str, batch_id: int, **prepared: Any) -> int:
    """A commit to a table, as a job writes it; returns its version."""
    import pyarrow
    from deltalake import CommitProperties, DeltaTable, write_deltalake

    metadata = {"app_id": app_id, "batch_id": batch_id, "prepared": prepared}
    write_deltalake(
        str(project.layout.table(table)),
        pyarrow.table({"order_id": [str(batch_id)]}),
        mode="append",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(metadata)}),
    )
    return DeltaTable(str(project.layout.table(table))).version()


def record(project: Project, flow: str, kind: Any, app_id: str, batch_id: int = 0, **counts: Any) -> None:
    line = LedgerLine(flow=flow, kind=kind, app_id=app_id, batch_id=batch_id, **counts)
    project.record(orders(), line, mode="backfill")


def backfilled(project: Project, batch_id: int = 0) -> None:
    version = commit(project, "silver.orders", WINDOWS, batch_id)
    counts = {"read": 4, "written": 4, "groups": 4, "upserted": 1, "deleted": 2, "unchanged": 1}
    record(project, "silver", "backfill", WINDOWS, batch_id, target_version=version, **counts)


def plan(project: Project, run: str = "run-1", **params: Any) -> tuple[RunRequest, list[str]]:
    request = RunRequest.check(orders(), "u", {"mode": "undo", "undo_run": run, **params})
    return undo.plan(project.layout, orders(), request)


def refused(project: Project, run: str = "run-1", **params: Any) -> str:
    with pytest.raises(RequestError) as error:
        plan(project, run, **params)
    return error.value.message


def test_what_a_sink_has_got_is_put_right_by_its_next_increment(project: Project) -> None:
    sent = Flow(name="sent", source=ChangeFeed("silver.orders"), target=KafkaSink("orders"))
    pipeline = dataclasses.replace(orders(), flows=(*orders().flows, sent))
    record(project, "sent", "send", "orders/sent/v1/0", read=1, written=1)
    request = RunRequest.check(pipeline, "u", {"mode": "undo", "undo_run": "run-1"})
    with pytest.raises(RequestError, match=r"its next increment sends the rows that are put back in silver\.orders"):
        undo.plan(project.layout, pipeline, request)


def test_an_undo_is_planned_for_the_flows_in_which_the_run_has_a_backfill(project: Project) -> None:
    record(project, "bronze", "append", "orders/bronze/v1/0", read=3, written=3)
    record(project, "silver", "upsert", "orders/silver/v1/0", read=3, written=3)
    backfilled(project)

    request, lines = plan(project)

    assert (request.undoes, request.flows, request.small) == ("run-1", ("silver",), True)
    assert [line.partition("stays")[0] for line in lines[:2]] == ["bronze: batch 0 ", "silver: batch 0 "]
    assert lines[2].startswith("silver: puts back backfill 0 (")
    assert lines[2].endswith("which changed 3 rows of 4 keys")


def test_what_cannot_be_put_back_is_refused_with_the_next_step(project: Project) -> None:
    record(project, "bronze", "append", "orders/bronze/v1/0/window", read=3, written=3)
    assert "bronze.orders keeps every record as it arrived" in refused(project)
    record(project, "silver", "upsert", "orders/silver/v1/0", 7, read=3, written=3)
    message = refused(project, flows=["silver"])
    assert "silver: batch 7 stays: it is an increment, whose source rows are not read again" in message
    assert "backfill its days, or run a full refresh" in message
    record(project, "gold", "swap", "orders/gold/v1/0", groups=2, upserted=2)
    assert "gold: swap stays: a full refresh or a new version is not put back" in refused(project, flows=["gold"])
    assert "does not apply to flow 'bronze'; it applies to: silver, gold" in refused(project, flows=["bronze"])
    assert "has no line of run 'other'" in refused(project, "other")


def test_a_run_before_a_new_version_or_a_replaced_table_is_refused(project: Project) -> None:
    backfilled(project)
    commit(project, "silver.orders", "orders/silver/v1/1", 0, replaced=True)
    assert "were made before version 1 replaced all rows and the schema" in refused(project)
    Path(Place(project.layout, "orders", "silver", 1, 1).checkpoint).mkdir(parents=True)
    assert "a new version derives the table again, in another checkpoint" in refused(project)


def test_a_commit_that_the_table_no_longer_has_is_refused(project: Project) -> None:
    record(project, "silver", "backfill", WINDOWS, read=1, written=1, groups=1, upserted=1, target_version=0)
    assert "are no longer in the table's log, so they cannot be put back" in refused(project)
    commit(project, "silver.orders", "another/table", 0)
    assert "are no longer in the table's log" in refused(project)


def test_a_run_that_was_undone_is_refused_until_its_undo_is_undone(project: Project) -> None:
    def undone(number: int, run: str, undoes: str) -> None:
        line = LedgerLine(
            flow="silver",
            kind="undo",
            app_id="orders/silver/undo",
            batch_id=number,
            groups=1,
            upserted=1,
            undoes=undoes,
        )
        ledger.record(
            PipelinePlace(project.layout, "orders"), line, RunOrigin(run_key=run, checkpoint_version=1, refresh=0)
        )

    backfilled(project)
    undone(0, "u1", "run-1")
    message = refused(project)
    assert "silver: run run-1 was undone already, by run u1 at 20" in message
    assert message.endswith("Nothing was changed; `tidegate undo u1` takes that undo back")
    undone(1, "u2", "u1")
    assert plan(project)[0].flows == ("silver",)
    undone(2, "u3", "run-1")
    assert "by run u3" in refused(project)


def test_an_undo_that_stopped_between_two_tables_goes_on_with_the_other(project: Project) -> None:
    backfilled(project)
    windows = "orders/gold/v1/0/window"
    version = commit(project, "gold.orders", windows, 0)
    record(project, "gold", "recompute", windows, groups=2, upserted=2, target_version=version)
    assert plan(project)[0].flows == ("silver", "gold")
    line = LedgerLine(flow="silver", kind="undo", app_id="orders/silver/undo", batch_id=0, undoes="run-1")
    ledger.record(
        PipelinePlace(project.layout, "orders"), line, RunOrigin(run_key="u1", checkpoint_version=1, refresh=0)
    )

    request, lines = plan(project)

    assert request.flows == ("gold",)
    assert lines[0].startswith("silver: run run-1 was undone already, by run u1")


def test_a_run_is_found_by_its_id_and_by_its_key_and_an_id_cannot_break_out_of_its_literal(project: Project) -> None:
    line = LedgerLine(flow="silver", kind="upsert", app_id="orders/silver/v1/0", batch_id=0)
    ledger.record(
        PipelinePlace(project.layout, "orders"),
        line,
        RunOrigin(run_key=run_key("manual__1"), checkpoint_version=1, refresh=0),
    )
    for run in ("manual__1", run_key("manual__1")):
        assert undo.find(undo.read(PipelinePlace(project.layout, "orders"), run), run) == run_key("manual__1")
    assert undo.read(PipelinePlace(project.layout, "orders"), "x') OR ('a' = 'a") == []


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mode": "undo"}, "needs undo_run, the id of the run; it is the run_key"),
        ({"mode": "undo", "undo_run": "a b"}, "undo_run='a b' is not the id of a run"),
        ({"undo_run": "r"}, "undo_run cannot be used with mode='incremental'; allowed with: undo"),
    ],
)
def test_the_run_to_undo_is_a_run_id_and_belongs_to_the_mode(params: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=re.escape(message)):
        RunRequest.check(orders(), "u", params)
