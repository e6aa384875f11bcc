"""Accidents, once each: a table is restored or deleted by hand. What follows says so, and can be mended."""

from __future__ import annotations

import shutil
from dataclasses import replace
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


def test_a_reingest_adds_what_a_restored_bronze_lacks_and_no_row_changes_but_refused_records_get_a_second_entry(
    begin: Begin,
) -> None:
    history = begin(3)
    history.code = replace(history.code, highest=0)
    history.project.write(history.code, history.version)
    versions: list[int] = []
    kept: set[str] = set()

    def remember() -> None:
        versions.append(newest(history, "bronze"))
        kept.update(history.judge.bronze)

    two_increments(history, remember)
    judge, silver = history.judge, dict(history.judge.silver)
    restore(history, "bronze", versions[0])

    assert errors(history.deployment.run("hunt", mode="reingest")) == [None] * 3

    again = [entry for entry in judge.entries if entry.row_id not in kept]
    assert again
    judge.entries += again
    assert differences_of_rows(history) == []
    assert judge.silver == silver

    history.code = replace(history.code, highest=1_000_000)
    history.project.write(history.code, history.version)
    assert errors(history.deployment.try_run(history.deployment.replay_request("silver", "hunt"))) == [None]
    judge.replay(history.code)
    assert any(entry.state == "replayed" for entry in judge.entries[-len(again) :])
    assert differences_of_rows(history) == [], "a replay closes both entries of a record"


def errors(report: Any) -> list[Any]:
    return [flow.error for flow in report.flows]


def differences_of_rows(history: History) -> list[str]:
    """Without those of gold, which may not have read them, and of the ledger, which counts a record each time that it is read."""
    differences = history.judge.differences(history.deployment.environment.lake, gold=False)
    return [line for line in differences if not line.startswith("ledger")]


def raise_version(history: History, flow: str) -> None:
    if flow == "silver":
        history.version = 2
    else:
        setattr(history.project, flow, 2)
    history.project.write(history.code, history.version)


@pytest.mark.parametrize(
    ("deleted", "below"), [("bronze", "silver"), ("silver", "gold"), ("gold", None)], ids=["bronze", "silver", "gold"]
)
def test_a_table_that_was_deleted_by_hand_is_named_and_new_versions_derive_it_again(
    deleted: str, below: str | None, begin: Begin
) -> None:
    history = begin(3)
    two_increments(history)
    shutil.rmtree(table(history, deleted))
    history.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    error = history.deployment.run("hunt").flow(deleted).error
    assert error is not None
    assert error["kind"] == "CheckpointCorruptError"
    assert "Restore the table, or set checkpoint_version=2" in error["message"]
    raise_version(history, deleted)
    if below is not None:
        error = history.deployment.run("hunt").flow(below).error
        assert error is not None
        assert f"table {deleted}.hunt no longer has the changes that the checkpoint reads next" in error["message"]
        raise_version(history, below)

    report = history.deployment.run("hunt")
    assert [flow.error for flow in report.flows] == [None] * 3
    if "silver" in (deleted, below):
        history.judge.derive_again(history.code, (2, 0))
    assert history.judge.differences(history.deployment.environment.lake) == []
