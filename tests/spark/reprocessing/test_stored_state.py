"""The state of a flow is read as it was after its last complete batch, without a change of its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.kinds.payments import DECISIONS, FIRSTS, START, WINDOWS, Payments
from tidegate import json_codec
from tidegate.errors import RequestError
from tidegate.reports.stored_state import StateTable, StoredState
from tidegate.runs.state import run as stored_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


def shown(payments: Payments, *keys: str, limit: int = 20) -> StoredState:
    """What the command shows."""
    job = payments.job(mode="state", limit=limit, keys=keys)
    stored_state.show(job)
    state = json_codec.read(job.run.place.stored_state(job.flow.name), StoredState)
    assert state is not None
    return state


def files(payments: Payments) -> dict[str, int]:
    checkpoint = payments.job().place.checkpoint
    return {str(path): path.stat().st_mtime_ns for path in Path(checkpoint).rglob("*")}


def rows(table: StateTable) -> list[dict[str, Any]]:
    return sorted((dict(zip(table.columns, row, strict=True)) for row in table.rows), key=repr)


def test_the_open_windows_of_a_flow_are_shown_and_nothing_of_its_checkpoint_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    payments = Payments(spark, tmp_path, WINDOWS)
    with pytest.raises(RequestError, match="has no state yet"):
        shown(payments)
    payments.add(("a", "c1", 1, 1), ("b", "c2", 2, 2), ("c", "c1", 4, 9), ("d", "c1", 8, 25))
    payments.run()
    before = files(payments)
    state = shown(payments)
    assert (state.operator, state.partitions) == ("stateStoreSave", 2)
    (table,) = state.tables
    assert (table.name, table.columns, table.more) == ("", ("window", "card", "sum"), False)
    assert [(row["card"], row["sum"]) for row in rows(table)] == [("c1", "8")], "the first windows are closed"
    assert f"{START:%Y-%m-%d}T09:20:00.000Z" in str(table.rows[0][0])
    assert files(payments) == before


def test_the_rows_of_one_key_are_shown_and_a_key_that_the_state_cannot_have_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    payments = Payments(spark, tmp_path, FIRSTS)
    payments.add(("a", "c1", 1, 1), ("b", "c2", 2, 2), ("c", "c3", 4, 2))
    payments.run()
    (table,) = shown(payments, "card=c2").tables
    assert [(row["card"], row["kept_until"]) for row in rows(table)] == [("c2", "2026-01-01 09:12:00.001")]
    (table,) = shown(payments, limit=2).tables
    assert (len(table.rows), table.more) == (2, True)
    with pytest.raises(RequestError, match="key 'amount' is not allowed; the state of flow 'firsts' has card"):
        shown(payments, "amount=1")


@pytest.mark.nightly
def test_each_variable_and_the_timers_of_custom_state_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    payments = Payments(spark, tmp_path, DECISIONS)
    payments.add(("a", "c1", 1, 1), ("b", "c2", 2, 2))
    payments.run()
    tables = {table.name: table for table in shown(payments, "card=c2").tables}
    assert {name: table.kind for name, table in tables.items()} == {"recent": "value", "timers": "timer"}
    (recent,) = rows(tables["recent"])
    assert (recent["card"], recent["amount"]) == ("c2", "[2]")
    assert json.loads(recent["at"]) == [START.timestamp() + 120]
    assert rows(tables["timers"]) == [{"card": "c2", "expires_at": "2026-01-01 10:02:00"}]
