"""What is done to tables, checkpoints and notes of a real lake is noticed before anything is read, and nothing is written meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.spark.orders import Declare, Orders, row
from tidegate.errors import CheckpointCorruptError, TableInDoubtError, TableUnreadableError
from tidegate.lake.layout import Layout
from tidegate.probes import delta_log

pytestmark = [pytest.mark.jvm]

FLOWS = ("bronze", "silver", "gold")


def restore(layout: Layout, older: Path, name: str) -> None:
    DeltaTable(str(layout.table(name))).restore(0)


def lose(layout: Layout, older: Path, name: str) -> None:
    path = layout.table(name)
    for file in Path(path / "_delta_log").glob(f"*{DeltaTable(str(path)).version():020d}.*"):
        file.unlink()


def tear(layout: Layout, older: Path, name: str) -> None:
    path = layout.table(name)
    delta_log.entry(path, DeltaTable(str(path)).version()).put(b"")


def cut(layout: Layout, older: Path, name: str) -> None:
    """The newest entry ends with its first line, as a power cut may leave it: it can be parsed."""
    path = layout.table(name)
    entry = delta_log.entry(path, DeltaTable(str(path)).version())
    entry.put(entry.read().data.splitlines(keepends=True)[0])


def put_back(layout: Layout, older: Path, part: str) -> None:
    """A part of the lake from a copy that was made after the first increment."""
    remove(layout, older, part)
    shutil.copytree(older / part, Path(layout.root) / part)


def remove(layout: Layout, older: Path, part: str) -> None:
    shutil.rmtree(Path(layout.root) / part)


def put_notes_back(layout: Layout, older: Path, _: str) -> None:
    for note in older.rglob("*.history.json"):
        shutil.copy(note, Path(layout.root) / note.relative_to(older))


def remove_notes(layout: Layout, older: Path, _: str) -> None:
    for note in Path(layout.root).rglob("*.history.json"):
        note.unlink()


def delete(layout: Layout, older: Path, name: str) -> None:
    DeltaTable(str(layout.table(name))).delete("id = 1" if name.startswith("silver") else "_line_number = 1")


def optimize(layout: Layout, older: Path, name: str) -> None:
    DeltaTable(str(layout.table(name))).optimize.compact()


Act = Callable[[Layout, Path, str], None]


@dataclass(frozen=True)
class Case:
    acts: tuple[tuple[Act, str], ...]
    in_doubt: set[str]
    """The flows that stand on what was done."""
    error: type[Exception] = TableInDoubtError


NOTES, LEDGER = (remove_notes, ""), (put_back, "_ops")
CASES = (
    Case((), set()),
    Case(((optimize, "silver.orders"),), set()),
    Case(((put_notes_back, ""),), set()),
    Case((NOTES,), set()),
    Case((NOTES, LEDGER), set()),
    Case(((put_back, ""),), set()),
    Case(((restore, "bronze.orders"),), {"bronze", "silver"}),
    Case(((restore, "silver.orders"),), {"silver", "gold"}),
    Case(((restore, "gold.orders"),), {"gold"}),
    Case(((lose, "bronze.orders"),), {"bronze", "silver"}),
    Case(((lose, "silver.orders"),), {"silver", "gold"}),
    Case(((lose, "gold.orders"),), {"gold"}),
    Case(((cut, "silver.orders"),), {"silver", "gold"}, TableUnreadableError),
    Case(((tear, "bronze.orders"),), {"bronze", "silver"}, TableUnreadableError),
    Case(((tear, "silver.orders"),), {"silver", "gold"}, TableUnreadableError),
    Case((NOTES, (tear, "silver.orders")), {"silver", "gold"}, TableUnreadableError),
    Case(((put_notes_back, ""), (cut, "silver.orders")), {"silver", "gold"}, TableUnreadableError),
    Case(((put_back, "tables/bronze"),), {"bronze", "silver"}),
    Case(((put_back, "tables/silver"),), {"silver", "gold"}),
    Case(((put_back, "tables"),), {"bronze", "silver", "gold"}),
    Case(((remove, "tables/gold"),), {"gold"}),
    Case((NOTES, (lose, "silver.orders")), {"silver", "gold"}),
    Case(((put_notes_back, ""), (lose, "bronze.orders")), {"bronze", "silver"}),
    Case((NOTES, LEDGER, (put_back, "tables/bronze")), {"bronze", "silver"}),
    Case((NOTES, LEDGER, (put_back, "tables/silver")), {"silver", "gold"}),
    Case((NOTES, LEDGER, (put_back, "tables/gold")), {"gold"}),
    Case((NOTES, (remove, "_ops"), (remove, "tables/gold")), {"gold"}),
    Case(((put_back, "checkpoints/orders/bronze/v1"),), {"bronze"}, CheckpointCorruptError),
    Case(((put_back, "checkpoints/orders/silver/v1"),), {"silver"}, CheckpointCorruptError),
    Case(((remove, "checkpoints/orders/silver/v1"),), {"silver"}, CheckpointCorruptError),
    Case(((put_back, "checkpoints/orders/silver"),), {"silver"}, CheckpointCorruptError),
    Case(
        ((put_back, "checkpoints/orders/bronze/v1"), (tear, "bronze.orders")),
        {"bronze", "silver"},
        TableUnreadableError,
    ),
    Case(((delete, "silver.orders"),), set()),
    Case(((delete, "bronze.orders"),), {"silver"}),
)


def test_what_was_done_to_a_lake_is_in_the_plan_and_a_run_stops_those_who_stand_on_it(
    orders: Orders, declare: Declare, tmp_path: Path
) -> None:
    declare()
    layout, older, newer = orders.deployment.layout, tmp_path / "older", tmp_path / "newer"
    for number, copy in enumerate((older, newer), 1):
        orders.land(row(number), row(number + 10))
        assert {flow.state for flow in orders.run(*FLOWS).flows} == {"done"}
        shutil.copytree(Path(layout.root), copy)
    for case in CASES:
        for act, part in case.acts:
            act(layout, older, part)
        planned = orders.plan()
        what = [(act.__name__, part) for act, part in case.acts]
        assert {lag.flow for lag in planned.readings if lag.failed} == case.in_doubt, what
        assert all(isinstance(error, case.error) for error in planned.errors), what
        if case.acts == ((delete, "silver.orders"),):
            assert "DELETE of silver.orders by another writer (version 2, 20" in planned.readings[2].remarks
            assert [lag.has_work for lag in planned.readings] == [False, False, True]
        shutil.rmtree(Path(layout.root))
        shutil.copytree(newer, Path(layout.root))

    restore(layout, older, "silver.orders")
    orders.land(row(3))
    report = orders.run(*FLOWS)
    assert [flow.state for flow in report.flows] == ["done", "failed", "skipped"]
    error = report.flow("silver").error
    assert error is not None and (error.kind, error.exit_code) == ("TableInDoubtError", 65)
    assert "version 2 is a RESTORE by another writer at 20" in error.message
    assert DeltaTable(str(layout.table("silver.orders"))).version() == 2, "nothing was committed over it"

    shutil.rmtree(Path(layout.root))
    shutil.copytree(newer, Path(layout.root))
    tear(layout, older, "gold.orders")
    report = orders.run(*FLOWS)
    assert [flow.state for flow in report.flows] == ["done", "done", "failed"], (
        "a damaged table stops what stands on it"
    )
    error = report.flow("gold").error
    assert error is not None and (error.kind, error.exit_code) == ("TableUnreadableError", 78)

    shutil.rmtree(Path(layout.root))
    shutil.copytree(newer, Path(layout.root))
    delete(layout, older, "bronze.orders")
    assert [flow.state for flow in orders.run(*FLOWS).flows] == ["done", "failed", "skipped"]
    assert [flow.error for flow in orders.deployment.run("orders", ["silver"], mode="full_refresh").flows] == [None]
    assert {flow.state for flow in orders.run(*FLOWS).flows} <= {"done", "idle"}
    left = {record["_row_id"] for record in orders.deployment.table("bronze.orders").to_pylist()}
    silver = orders.deployment.table("silver.orders").to_pylist()
    assert {record["_row_id"] for record in silver} == left, "derived again from the rows that are left"
    [gold] = orders.deployment.table("gold.orders").to_pylist()
    assert gold["orders"] == len(silver) == 3
