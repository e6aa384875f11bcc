"""Accidents, once each, to tables and files: what follows is right, or says what happened and can be mended."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.hunt.history import History
from tests.hunt.lake import rows
from tests.hunt.sources import Files
from tidegate.lake.place import FlowPlace

if TYPE_CHECKING:
    from tests.hunt.conftest import Begin

pytestmark = [pytest.mark.jvm, pytest.mark.gx, pytest.mark.chaos, pytest.mark.nightly]


def table(history: History, name: str) -> Path:
    return Path(history.deployment.layout.table(f"{name}.hunt"))


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


def kinds(report: Any) -> list[str | None]:
    return [None if error is None else error.kind for error in errors(report)]


def test_a_restored_silver_stops_its_flow_and_gold_until_a_full_refresh_brings_the_rows_back(begin: Begin) -> None:
    history = begin(3)
    versions: list[int] = []
    two_increments(history, lambda: versions.append(newest(history, "silver")))
    restore(history, "silver", versions[0])

    report = history.deployment.run("hunt")

    assert kinds(report) == [None, "TableInDoubtError", None]
    assert [flow.state for flow in report.flows] == ["idle", "failed", "skipped"]
    history.full_refresh()


def test_a_restored_bronze_stops_its_flows_until_a_reingest_and_a_full_refresh_bring_the_rows_back(
    begin: Begin,
) -> None:
    history = begin(3)
    versions: list[int] = []
    two_increments(history, lambda: versions.append(newest(history, "bronze")))
    restore(history, "bronze", versions[0])

    assert kinds(history.deployment.run("hunt")) == ["TableInDoubtError", "TableInDoubtError", None]
    assert kinds(history.deployment.run("hunt", mode="reingest")) == [None, "TableInDoubtError", None]
    history.full_refresh()


def errors(report: Any) -> list[Any]:
    return [flow.error for flow in report.flows]


def raise_version(history: History, flow: str) -> None:
    if flow == "silver":
        history.version = 2
    else:
        setattr(history.project, flow, 2)
    history.project.write(history.code, history.version)


def test_a_table_that_was_deleted_by_hand_is_named_and_new_versions_derive_it_and_what_is_below_it_again(
    begin: Begin,
) -> None:
    deleted, below = "silver", "gold"
    history = begin(3)
    two_increments(history)
    shutil.rmtree(table(history, deleted))
    history.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    error = history.deployment.run("hunt").flow(deleted).error
    assert error is not None
    assert error.kind == "TableInDoubtError"
    assert f"the history of table '{deleted}.hunt' is in doubt: it has no log any more" in error.message
    raise_version(history, deleted)
    error = history.deployment.run("hunt").flow(below).error
    assert error is not None
    assert f"the history of table '{deleted}.hunt' is in doubt" in error.message
    raise_version(history, below)

    report = history.deployment.run("hunt")
    assert [flow.error for flow in report.flows] == [None] * 3
    history.judge.derive_again(history.code, (2, 0))
    assert history.judge.differences(history.deployment.environment.lake) == []


CSV = 4
"""A seed whose files are CSV."""


def test_a_line_of_100_mb_and_a_gzip_bomb_go_to_quarantine_and_all_other_files_are_read(begin: Begin) -> None:
    history = begin(CSV)
    assert isinstance(history.source, Files)
    history.source.add_bad("line.csv", "line_too_long", bytes(100_000_000))
    history.source.add_bad("bomb.csv.gz", "line_too_long", gzip.compress(bytes(200_000_000)))

    two_increments(history)

    assert len([entry for entry in history.judge.files if "line_too_long" in entry.rules]) == 2
    assert history.judge.silver


def test_records_of_files_with_the_same_modification_time_have_the_order_of_paths_and_lines(begin: Begin) -> None:
    history = begin(3)
    assert isinstance(history.source, Files)
    history.source.spread = 1
    two_increments(history)
    assert len({record.at[0] for record in history.judge.bronze.values()}) == 1

    history.full_refresh()


@contextlib.contextmanager
def written_to(path: Path) -> Iterator[None]:
    """Records are appended to a file all the time."""
    ended = threading.Event()

    def append() -> None:
        number = 1_000_000
        with path.open("a") as file:
            while not ended.wait(0.001):
                number += 1
                file.write(f"{number},1,2026-03-20,1,\n")
                file.flush()

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("id,at,day,amount,op\n" + "".join(f"{number},1,2026-03-20,1,\n" for number in range(100_000)))
    writer = threading.Thread(target=append)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


def test_a_file_that_is_written_while_it_is_read_is_in_quarantine_until_it_is_replayed(begin: Begin) -> None:
    history = begin(CSV)
    assert isinstance(history.source, Files)
    path, layout = history.source.folder / "growing.csv", history.deployment.layout

    def in_bronze() -> int:
        return sum(row["_path"] == f"file://{path}" for row in rows(Path(layout.table("bronze.hunt"))))

    with written_to(path):
        bronze = history.deployment.run("hunt", flows=["bronze"]).flow("bronze")
    assert bronze.error is None
    (entry,) = rows(Path(FlowPlace(layout, "hunt", "bronze").quarantine))
    assert (entry["rules"], entry["state"]) == (["changed_while_read"], "open")
    assert (layout.table("bronze.hunt").exists() and in_bronze()) == 0

    history.source.add(history.rng)
    assert history.deployment.run("hunt", flows=["bronze"]).flow("bronze").error is None
    request = history.deployment.replay_request("bronze", "hunt")
    assert history.deployment.try_run(request).flow("bronze").error is None
    assert in_bronze() == len(path.read_text().splitlines()) - 1
    (entry,) = [
        each
        for each in rows(Path(FlowPlace(layout, "hunt", "bronze").quarantine))
        if each["_row_id"].startswith(str(path))
    ]
    assert entry["state"] == "replayed"
