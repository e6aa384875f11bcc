"""Accidents, once each: a table is restored or deleted by hand. What follows says so, and can be mended."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.hunt.history import History

if TYPE_CHECKING:
    from tests.hunt.conftest import Begin

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.chaos, pytest.mark.nightly]


def table(history: History, name: str) -> Path:
    return history.deployment.layout.table(f"{name}.hunt")


def two_increments(history: History, between: Any = lambda: None) -> None:
    for number in range(2):
        for _ in range(3):
            history.log.append(history.source.add(history.rng))
        if number:
            between()
        history.increment()


def restore(history: History, name: str, version: int) -> None:
    history.spark.sql(f"RESTORE TABLE delta.`{table(history, name)}` TO VERSION AS OF {version}")


def newest(history: History, name: str) -> int:
    from deltalake import DeltaTable

    return DeltaTable(str(table(history, name))).version()


def test_gold_follows_a_restored_silver_and_a_full_refresh_brings_the_rows_back(begin: Begin) -> None:
    history = begin(3)
    versions: list[int] = []
    kept: list[Any] = []

    def remember() -> None:
        versions.append(newest(history, "silver"))
        kept.append(dict(history.judge.silver))

    two_increments(history, remember)
    restore(history, "silver", versions[0])
    (history.judge.silver,) = kept

    history.increment()
    history.full_refresh()


@pytest.mark.parametrize("flow", ["silver", "gold"])
def test_a_table_that_was_deleted_by_hand_is_named_and_derived_again_by_a_new_version(flow: str, begin: Begin) -> None:
    history = begin(3)
    two_increments(history)
    shutil.rmtree(table(history, flow))
    history.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    report = history.deployment.run("hunt")

    error = report.flow(flow).error
    assert error is not None
    assert error["kind"] == "CheckpointCorruptError"
    assert "Restore the table, or set checkpoint_version=2" in error["message"]
    if flow == "silver":
        history.new_version()
    else:
        history.project.gold = 2
        history.project.write(history.code, history.version)
        history.increment()
