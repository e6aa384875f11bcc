"""The quarantine entry of a refused row, and how backfills and replays change it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.job import BRONZE, LATEST, PLANNED_MS, backfill, job_of, plan_batch, table, transaction
from tidegate.checkpoints import refusal
from tidegate.errors.refusals import GateRefusal
from tidegate.quarantine import claims
from tidegate.quarantine.selection import Selection
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import quarantine
from tidegate.spark.batch.quarantine import REFUSED
from tidegate.spark.batch.split import Split
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing.replay import Replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

PLANNED = datetime.fromtimestamp(PLANNED_MS / 1000, UTC)
LATER_MS = PLANNED_MS + 60_000
LATER = datetime.fromtimestamp(LATER_MS / 1000, UTC)


def refused_rows(spark: SparkSession, *entries: tuple[str, list[str]], level: str = "row") -> DataFrame:
    """Rows with the schema `REFUSED`, from pairs of id and rules."""
    rows = [(name, level, rules, f"raw {name}", json.dumps({"path": f"/{name}"})) for name, rules in entries]
    return spark.createDataFrame(rows, REFUSED).coalesce(1)


def ids(spark: SparkSession, *names: str) -> DataFrame:
    return spark.createDataFrame([(name,) for name in names], "_row_id string").coalesce(1)


def append(job: Job, *entries: tuple[str, list[str]], batch_id: int = 0, level: str = "row") -> None:
    rows = refused_rows(job.spark, *entries, level=level)
    quarantine.append(job, rows, batch_id, transaction(job, batch_id), PLANNED_MS)


def entries(job: Job, *columns: str) -> dict[str, tuple[Any, ...]]:
    """Some columns of every entry, by its id."""
    rows = table(job.place.quarantine)
    assert len(rows) == len({row["_row_id"] for row in rows})
    return {row["_row_id"]: tuple(row[name] for name in columns) for row in rows}


def refused_before(job: Job, batch_id: int) -> dict[str, list[str]]:
    return {row["_row_id"]: row["rules"] for row in job.work.refused_ids(job, job.spark, batch_id).collect()}


def test_a_source_row_has_one_entry_with_each_rule_once(spark: SparkSession) -> None:
    origin = "named_struct('raw', raw, 'source', '{}') AS _origin"
    rows = spark.createDataFrame(
        [("a", "text of a", ["x", "y"]), ("a", "text of a", ["y", "z"]), ("b", "text of b", ["x"])],
        "_row_id string, raw string, _errors array<string>",
    ).selectExpr("_row_id", "_errors", origin)

    by_id = {row["_row_id"]: row.asDict() for row in quarantine.from_rows(rows, one_to_one=False).collect()}

    assert sorted(by_id["a"].pop("rules")) == ["x", "y", "z"]
    assert by_id["a"] == {"_row_id": "a", "level": "row", "record": "text of a", "source": "{}"}
    assert by_id["b"]["rules"] == ["x"]
    assert len(by_id) == 2
    alone = quarantine.from_rows(rows.where("_row_id = 'b'"), one_to_one=True).collect()
    assert [(row["_row_id"], row["rules"], row["record"]) for row in alone] == [("b", ["x"], "text of b")]


def test_a_new_entry_is_open_and_has_time_batch_and_suite(spark: SparkSession, tmp_path: Path) -> None:
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}, "severity": "warning"}
    job = job_of(spark, tmp_path, LATEST, suite=[rule], version=3, refresh=2)
    assert job.gate is not None

    append(job, ("a", ["x"]), batch_id=4)

    (row,) = table(job.place.quarantine)
    assert row == {
        "_row_id": "a",
        "level": "row",
        "rules": ["x"],
        "record": "raw a",
        "source": '{"path": "/a"}',
        "suite": "orders/latest",
        "suite_fingerprint": job.gate.suite.fingerprint,
        "state": "open",
        "quarantined_at": PLANNED,
        "attempts": 0,
        "changed_by": None,
        "changed_at": None,
        "reason": None,
        "_replay": None,
        "_in_hand": None,
        "_app_id": "orders/latest/v3/2",
        "_checkpoint_version": 3,
        "_refresh": 2,
        "_batch_id": 4,
    }
    assert tables.transactions(spark, job.place.quarantine) == {"orders/latest/v3/2": 4}


def test_the_entries_of_a_batch_are_appended_once(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(spark, tmp_path, LATEST)

    for _ in range(2):
        append(job, ("a", ["x"]))

    assert entries(job, "rules", "suite") == {"a": (["x"], None)}


def test_entries_of_a_batch_that_was_taken_out_have_the_person_and_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = job_of(spark, tmp_path, LATEST)
    plan_batch(job, 0)
    refusal.record(job.place, GateRefusal(batch_id=0, suite_fingerprint="s"))
    refusal.decide(job.place, LATEST, by="ada", reason="of another airport")

    append(job, ("a", ["x"]))
    append(job, ("b", ["x"]), batch_id=1)

    assert entries(job, "changed_by", "reason", "state") == {
        "a": ("ada", "of another airport", "open"),
        "b": (None, None, "open"),
    }


def test_rows_refused_by_an_earlier_attempt_are_identified_by_transaction_and_batch_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = job_of(spark, tmp_path, LATEST)
    append(job, ("a", ["x"]))
    append(job, ("b", ["y", "z"]), ("c", ["x"]), batch_id=1)
    append(job_of(spark, tmp_path, LATEST, version=2), ("d", ["x"]), batch_id=1)

    assert refused_before(job, 1) == {"b": ["y", "z"], "c": ["x"]}
    assert refused_before(job, 0) == {"a": ["x"]}


def change(job: Job, name: str, **values: str) -> None:
    """Update an entry with delta-rs."""
    from deltalake import DeltaTable

    updates = {column: value if value == "NULL" else f"'{value}'" for column, value in values.items()}
    DeltaTable(str(job.place.quarantine)).update(updates=updates, predicate=f"_row_id = '{name}'")


def apply_backfill(spark: SparkSession, folder: Path, refused: dict[str, list[str]], *passed: str) -> Job:
    window = job_of(spark, folder, LATEST, work=backfill(7, LATER_MS))
    rows = refused_rows(spark, *refused.items())
    quarantine.apply_backfill(window, rows, ids(spark, *passed), 7, transaction(window, 7), LATER_MS)
    return window


def test_a_backfill_closes_adds_and_keeps_entries_in_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(spark, tmp_path, LATEST)
    append(job, *((name, ["x"]) for name in ("passes", "waived", "fails", "expired", "bystander")))
    change(job, "passes", _in_hand="claimed", _replay="3")
    change(job, "waived", state="waived", changed_by="bob", reason="too old", _replay="3")
    change(job, "expired", state="expired", changed_by="bob", reason="too late")
    before = tables.version(spark, job.place.quarantine)

    refused = {"fails": ["y"], "expired": ["y"], "new": ["z"]}
    window = apply_backfill(spark, tmp_path, refused, "passes", "waived", "never quarantined")

    assert tables.version(spark, job.place.quarantine) == before + 1
    assert entries(job, "state", "rules", "attempts", "changed_by", "changed_at", "reason", "_in_hand") == {
        "passes": ("replayed", ["x"], 0, "ada", LATER, "backfill 7", None),
        "waived": ("replayed", ["x"], 0, "bob", None, "too old; passed in backfill 7", None),
        "fails": ("open", ["y"], 1, None, None, None, None),
        "expired": ("expired", ["x"], 0, "bob", None, "too late", None),
        "bystander": ("open", ["x"], 0, None, None, None, None),
        "new": ("open", ["z"], 0, None, None, None, None),
    }
    assert {replay for (replay,) in entries(job, "_replay").values()} == {None}, (
        "an undo of replay 3 leaves them closed"
    )
    assert entries(job, "_app_id", "_batch_id", "quarantined_at")["new"] == (window.app_id, 7, LATER)
    assert tables.transactions(spark, job.place.quarantine)[window.app_id] == 7
    # A rerun of the backfill keeps the split: refused are the rows of all open, waived and expired entries of the checkpoint.
    assert refused_before(window, 7) == {"fails": ["y"], "expired": ["x"], "new": ["z"], "bystander": ["x"]}


@pytest.mark.nightly
def test_a_backfill_changes_no_entries_of_files_or_of_other_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    append(job_of(spark, tmp_path, LATEST, version=2), ("other version", ["x"]))
    append(job_of(spark, tmp_path, LATEST, refresh=1), ("other refresh", ["x"]))
    job = job_of(spark, tmp_path, LATEST)
    append(job, ("file", ["x"]), level="file")
    append(job, ("replayed", ["x"]), batch_id=1)
    change(job, "replayed", state="replayed", reason="before")
    before = entries(job, "state", "rules", "reason")

    apply_backfill(spark, tmp_path, {}, "other version", "other refresh", "file", "replayed")

    assert entries(job, "state", "rules", "reason") == before


def test_a_backfill_closes_the_entry_of_its_own_checkpoint_only(spark: SparkSession, tmp_path: Path) -> None:
    append(job_of(spark, tmp_path, LATEST, version=2), ("a", ["x"]))
    job = job_of(spark, tmp_path, LATEST)
    append(job, ("a", ["x"]))

    apply_backfill(spark, tmp_path, {}, "a")

    assert {row["_checkpoint_version"]: row["state"] for row in table(job.place.quarantine)} == {
        1: "replayed",
        2: "open",
    }


@pytest.mark.nightly
def test_a_row_that_was_replayed_and_fails_again_gets_a_new_entry(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(spark, tmp_path, LATEST)
    append(job, ("a", ["x"]))
    change(job, "a", state="replayed")

    apply_backfill(spark, tmp_path, {"a": ["y"]})

    assert sorted((row["state"], row["rules"]) for row in table(job.place.quarantine)) == [
        ("open", ["y"]),
        ("replayed", ["x"]),
    ]


def claim(job: Job, number: int = 3) -> Job:
    """The flow with a claim of all its open entries."""
    claims.create(job.place.quarantine, Selection(), number=number, first=number, limit=100, by="ada")
    claimed = claims.entries_of(job.place.quarantine, number)
    return job.doing(Replay(by="ada", number=number, started_ms=LATER_MS, entries=tuple(claimed)))


def return_entries(job: Job, refused: DataFrame) -> None:
    line = LedgerLine(flow="", batch_id=3, app_id="", kind="replay")
    split = Split(prepared=line, refused=refused, write=lambda _: pytest.fail("only step 3"), expected_rows=0)
    job.work.write_refused(job, split, 3, transaction(job, 3))


@pytest.mark.nightly
def test_a_claimed_entry_that_is_refused_again_is_returned_with_the_new_rules(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = job_of(spark, tmp_path, LATEST)
    append(job, ("a", ["x"]), ("b", ["x"]))
    job = claim(job)
    append(job_of(spark, tmp_path, LATEST), ("not claimed", ["x"]), batch_id=1)

    return_entries(job, refused_rows(spark, ("a", ["y", "z"])))

    assert entries(job, "_in_hand", "rules", "attempts", "state") == {
        "a": ("returned", ["y", "z"], 1, "open"),
        "b": ("claimed", ["x"], 0, "open"),
        "not claimed": (None, ["x"], 0, "open"),
    }
    assert tables.transactions(spark, job.place.quarantine)["orders/latest/replay"] == 3
    assert refused_before(job, 3) == {"a": ["y", "z"]}
    assert refused_before(job, 2) == {}


def test_a_claimed_file_is_returned_by_path_even_if_it_was_changed(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(spark, tmp_path, BRONZE)
    files = [(f"/{name}@1", "file", ["empty_file"], "", json.dumps({"path": f"/{name}"})) for name in ("a", "b")]
    rows = spark.createDataFrame(files, REFUSED)
    quarantine.append(job, rows, 0, transaction(job, 0), PLANNED_MS)
    job = claim(job)

    return_entries(job, refused_rows(spark, ("/a@2", ["not_utf8"]), level="file"))

    assert entries(job, "_in_hand", "rules") == {
        "/a@1": ("returned", ["not_utf8"]),
        "/b@1": ("claimed", ["empty_file"]),
    }
