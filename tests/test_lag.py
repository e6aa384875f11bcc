"""What is new, how far behind, and whether a run has work: asked without a JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.written import Checkpoint, DeltaLog, add, change, delta_offset, remove, txn
from tidegate import backlog, fingerprints, lag
from tidegate.embedded import jars
from tidegate.embedded.broker import Broker
from tidegate.environment import Environment
from tidegate.errors import CheckpointCorruptError, OffsetsExpiredError, SourceError, SourceUnavailableError
from tidegate.layout import Layout
from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, KafkaSource, Pipeline, Table

PROJECT = Path(__file__).parents[1]
BRONZE = Flow(
    name="bronze", source=FileSource(path="trips", format="csv", schema="a INT"), target=Table("bronze.trips")
)
SILVER = Flow(
    name="silver",
    source=ChangeFeed("bronze.trips"),
    transform="flights:clean",
    target=Table("silver.trips", keys=("id",), sequence_by=("at",)),
    gate=Gate("trips/silver"),
)
GOLD = Flow(
    name="gold",
    source=ChangeFeed("silver.trips"),
    transform="flights:daily_delay",
    target=Table("gold.trips", keys=("day",)),
)
TRIPS = Pipeline(name="trips", flows=(BRONZE, SILVER, GOLD))
CLICKS = Pipeline(
    name="clicks",
    flows=(Flow(name="bronze", source=KafkaSource(topic="clicks", schema="a INT"), target=Table("bronze.clicks")),),
)


class Place:
    """A lake, a landing folder and a project of one test."""

    def __init__(self, folder: Path) -> None:
        self.environment = Environment.read(
            {
                "TIDEGATE_PROJECT": str(folder / "project"),
                "TIDEGATE_LAKE": str(folder / "lake"),
                "TIDEGATE_LANDING": str(folder / "landing"),
            }
        )
        self.layout = Layout.of(self.environment)
        self.landing = self.layout.landing("trips")
        self.landing.mkdir(parents=True)
        self.suite = folder / "project" / "expectations" / "trips" / "silver.json"
        self.suite.parent.mkdir(parents=True)
        self.suite.write_text(json.dumps({"name": "trips/silver", "expectations": []}))

    def land(self, name: str, content: str = "a\n1\n2\n") -> Path:
        path = self.landing / name
        path.write_text(content)
        return path

    def checkpoint(self, flow: str, *, dag: str = "trips", version: int = 1, refresh: int = 0) -> Checkpoint:
        return Checkpoint(self.layout.checkpoint(dag, flow, version, refresh))

    def table(self, name: str) -> DeltaLog:
        return DeltaLog(self.layout.table(name))

    def read_everything(self, checkpoint: Checkpoint, batch_id: int = 0) -> None:
        """As a job would: list what lies there, plan it, commit it."""
        files = {str(path): path.stat().st_mtime_ns // 1_000_000 for path in self.landing.iterdir()}
        checkpoint.list_files(batch_id, files)
        checkpoint.run(batch_id, {"logOffset": batch_id})

    def measure(self, flow: Flow, pipeline: Pipeline = TRIPS) -> lag.Lag:
        return lag.measure(self.environment, pipeline, flow)

    def plan(self, *flows: Flow, pipeline: Pipeline = TRIPS) -> lag.Plan:
        return lag.plan(self.environment, pipeline, flows or pipeline.flows)

    def refuse(self, batch_id: int) -> None:
        """As the job notes it."""
        path = self.layout.refusal("trips", "silver", 1, 0)
        told = {
            "batch_id": batch_id,
            "suite_fingerprint": fingerprints.suite_fingerprint(self.suite),
            "code_fingerprint": fingerprints.code_fingerprint("flights"),
        }
        path.write_text(json.dumps(told))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ------------------------------------------------------------------------------------------------------- landing folders


def test_an_empty_landing_folder_is_no_work(place: Place) -> None:
    told = place.measure(BRONZE)
    assert (told.kind, told.has_work, told.behind, told.rows, told.bytes, told.first) == ("files", False, 0, 0, 0, True)
    assert told.position == "nothing read"
    assert told.reason == "nothing new in trips"


def test_a_missing_landing_folder_says_what_to_do(place: Place) -> None:
    place.landing.rmdir()
    with pytest.raises(SourceError, match="create it"):
        place.measure(BRONZE)
    with pytest.raises(SourceError, match="create it"):
        place.plan()


def test_files_that_no_committed_batch_listed_are_behind_with_exact_bytes_and_estimated_rows(place: Place) -> None:
    place.land("a.csv")
    place.read_everything(place.checkpoint("bronze"))
    assert place.measure(BRONZE).has_work is False
    place.land("b?[1].csv", "a\n" + "1\n" * 100)
    place.land("c.tmp")
    told = place.measure(BRONZE)
    assert (told.behind, told.bytes, told.bytes_exact, told.rows, told.rows_exact) == (1, 202, True, 100, False)
    assert (told.has_work, told.ignored, told.first) == (True, 1, False)
    assert told.reason == "1 new file in trips"
    assert told.position == "1 file read"


def test_a_batch_that_was_planned_and_not_committed_is_still_to_do(place: Place) -> None:
    checkpoint = place.checkpoint("bronze")
    place.land("a.csv")
    place.read_everything(checkpoint)
    path = place.land("b.csv")
    checkpoint.list_files(1, {str(path): path.stat().st_mtime_ns // 1_000_000})
    checkpoint.plan(1, {"logOffset": 1})
    told = place.measure(BRONZE)
    assert (told.has_work, told.pending_batch, told.behind) == (True, 1, 1)
    assert told.reason == "batch 1 was planned and not committed; 1 new file in trips"
    path.unlink()
    told = place.measure(BRONZE)
    assert (told.has_work, told.behind) == (True, 0), "a file that vanished meanwhile does not hide the batch"


def test_files_that_were_listed_and_never_planned_are_work_even_when_they_vanished(place: Place) -> None:
    checkpoint = place.checkpoint("bronze")
    place.land("a.csv")
    place.read_everything(checkpoint)
    checkpoint.list_files(1, {str(place.landing / "gone.csv"): 1})
    told = place.measure(BRONZE)
    assert (told.has_work, told.behind) == (True, 0)


def test_a_file_changed_after_it_was_read_is_told_and_is_no_work(place: Place) -> None:
    path = place.land("a.csv")
    place.read_everything(place.checkpoint("bronze"))
    path.write_text("a\n1\n2\n3\n")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 5_000_000_000))
    told = place.measure(BRONZE)
    assert (told.has_work, told.rewritten, told.behind) == (False, 1, 0)
    assert "1 file changed after being read" in told.reason


def test_a_file_ten_years_older_than_the_newest_is_never_read_and_never_work(place: Place) -> None:
    place.land("a.csv")
    place.read_everything(place.checkpoint("bronze"))
    path = place.land("old.csv")
    os.utime(path, ns=(0, path.stat().st_mtime_ns - (backlog.MAX_AGE_MS + 60_000) * 1_000_000))
    told = place.measure(BRONZE)
    assert (told.has_work, told.behind, told.ignored) == (False, 0, 1)


def test_a_new_version_reads_everything_again(place: Place) -> None:
    place.land("a.csv")
    place.read_everything(place.checkpoint("bronze"))
    told = place.measure(replace(BRONZE, checkpoint_version=2))
    assert (told.has_work, told.first, told.behind) == (True, True, 1)


def test_a_torn_checkpoint_is_never_taken_for_an_empty_one(place: Place) -> None:
    place.land("a.csv")
    checkpoint = place.checkpoint("bronze")
    place.read_everything(checkpoint)
    (checkpoint.path / "offsets" / "0").write_text("")
    with pytest.raises(CheckpointCorruptError):
        place.plan()


# ---------------------------------------------------------------------------------------------------------- change feeds


def test_a_source_table_that_does_not_exist_yet_is_no_work_and_says_so(place: Place) -> None:
    told = place.measure(SILVER)
    assert (told.kind, told.has_work, told.behind) == ("change_feed", False, 0)
    assert told.reason == "waits: bronze.trips does not exist yet"


def test_a_checkpoint_never_used_has_the_whole_table_to_read(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3, 10))
    log.commit(add("b", 4, 20))
    told = place.measure(SILVER)
    assert (told.has_work, told.first, told.behind, told.rows, told.rows_exact, told.bytes) == (
        True,
        True,
        2,
        7,
        True,
        30,
    )
    assert told.reason == "all of bronze.trips, version 1, is to be read"


def test_an_empty_source_table_is_no_work(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit()
    assert place.measure(SILVER).has_work is False
    log.commit(add("a", 0))
    assert place.measure(SILVER).has_work is False


def test_a_drained_feed_stands_before_the_next_version(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3))
    checkpoint = place.checkpoint("silver")
    checkpoint.run(0, delta_offset(1))
    told = place.measure(SILVER)
    assert (told.has_work, told.behind, told.position) == (False, 0, "version 0")
    log.commit(add("b", 4, 20))
    log.commit(remove("a", 3, data_change=False), add("c", 3, data_change=False), operation="OPTIMIZE")
    log.commit(
        change(70), operation="MERGE", metrics={f"numTargetRows{w}": 2 for w in ("Inserted", "Updated", "Deleted")}
    )
    told = place.measure(SILVER)
    assert (told.has_work, told.behind, told.rows, told.bytes) == (True, 2, 10, 90)
    assert told.reason == "2 new versions of bronze.trips"


def test_maintenance_of_the_source_is_no_work(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3))
    place.checkpoint("silver").run(0, delta_offset(1))
    log.commit(remove("a", 3, data_change=False), add("c", 3, data_change=False), operation="OPTIMIZE")
    log.commit(log.metadata, operation="SET TBLPROPERTIES")
    log.commit(txn("app", 1))
    assert place.measure(SILVER).has_work is False


def test_a_feed_that_ends_with_a_commits_last_file_is_drained_too(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3))
    log.commit(change(), operation="DELETE", metrics={"numDeletedRows": 2})
    place.checkpoint("silver").run(0, delta_offset(1, 0))
    told = place.measure(SILVER)
    assert (told.has_work, told.position) == (False, "version 1, file 1")


def test_a_commit_read_in_part_leaves_its_other_files(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 1, 1), add("b", 2, 2), add("c", 4, 4))
    place.checkpoint("silver").run(0, delta_offset(0, 0))
    told = place.measure(SILVER)
    assert (told.has_work, told.behind, told.rows, told.bytes) == (True, 1, 6, 6)


def test_a_first_load_read_in_part_leaves_the_rest_of_the_snapshot_and_later_commits(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 1, 1), add("b", 2, 2), add("c", 4, 4))
    log.commit(add("d", 8, 8))
    place.checkpoint("silver").run(0, delta_offset(0, 1, snapshot=True))
    told = place.measure(SILVER)
    assert (told.has_work, told.behind, told.rows, told.bytes) == (True, 2, 12, 12)
    assert told.position == "first load of version 0, file 2"


def test_rows_that_the_log_does_not_tell_are_marked(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 1))
    place.checkpoint("silver").run(0, delta_offset(1))
    log.commit(change(70), operation="RESTORE")
    told = place.measure(SILVER)
    assert (told.has_work, told.rows, told.rows_exact, told.bytes) == (True, None, False, 70)


@pytest.mark.parametrize("accident", ["ends earlier", "replaced", "log cleaned", "gone"])
def test_a_source_that_no_longer_holds_what_comes_next_is_loud(place: Place, accident: str) -> None:
    log = place.table("bronze.trips")
    for name in "abc":
        log.commit(add(name, 1))
    version = 9 if accident == "ends earlier" else 1
    table_id = "another" if accident == "replaced" else log.metadata["metaData"]["id"]
    place.checkpoint("silver").run(0, delta_offset(version, table_id=str(table_id)))
    folder = log.path / "_delta_log"
    if accident == "log cleaned":
        (folder / f"{1:020d}.json").unlink()
    if accident == "gone":
        for entry in folder.iterdir():
            entry.unlink()
    with pytest.raises(OffsetsExpiredError, match="checkpoint_version") as raised:
        place.measure(SILVER)
    assert "bronze.trips" in raised.value.message


# ------------------------------------------------------------------------------------------------------ refused and staged


def refused(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3))
    log.commit(add("b", 3))
    checkpoint = place.checkpoint("silver")
    checkpoint.run(0, delta_offset(1))
    checkpoint.plan(1, delta_offset(2))
    place.refuse(1)


def test_a_refused_batch_waits_for_a_person_and_so_do_the_flows_below(place: Place) -> None:
    refused(place)
    place.table("silver.trips").commit(add("a", 3))
    told = place.measure(SILVER)
    assert (told.refused, told.has_work, told.pending_batch) == (True, False, 1)
    assert told.reason == "waits: batch 1 was refused by trips/silver; mend the suite, the transform or the data"
    plan = place.plan()
    assert plan.work is False
    assert [below.has_work for below in plan.lags] == [False, False, False]
    assert plan.reasons[2] == "gold: waits: flow silver does not get through"
    assert place.plan(GOLD).work is True, "asked for alone, gold has its own to read"


def test_new_files_are_work_above_a_refused_flow_and_not_for_it(place: Place) -> None:
    refused(place)
    place.land("a.csv")
    plan = place.plan()
    assert plan.work is True
    assert plan.reasons == (
        "bronze: 1 new file in trips",
        "silver: waits: batch 1 was refused by trips/silver; mend the suite, the transform or the data",
        "gold: waits: flow silver does not get through",
    )


def test_a_changed_suite_lets_a_refused_batch_be_judged_again(place: Place) -> None:
    refused(place)
    place.suite.write_text(json.dumps({"name": "trips/silver", "expectations": [{"type": "x"}]}))
    told = place.measure(SILVER)
    assert (told.refused, told.has_work) == (False, True)


def test_changed_code_lets_a_refused_batch_be_judged_again(place: Place) -> None:
    refused(place)
    other = replace(SILVER, transform="clickstream:clean")
    assert place.measure(other, Pipeline(name="trips", flows=(BRONZE, other))).has_work is True


@pytest.mark.parametrize("content", ["", "[]", '{"batch_id": 0}', "{"])
def test_a_note_that_does_not_fit_holds_nothing_up(place: Place, content: str) -> None:
    refused(place)
    place.layout.refusal("trips", "silver", 1, 0).write_text(content)
    assert place.measure(SILVER).has_work is True


def test_a_suite_that_is_gone_holds_nothing_up_because_the_job_says_so(place: Place) -> None:
    refused(place)
    place.suite.unlink()
    assert place.measure(SILVER).has_work is True


def test_a_full_refresh_waits_to_be_swapped_in_until_the_table_holds_it(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3))
    live = place.table("silver.trips")
    live.commit(add("a", 3), txn("trips/silver/v1/0", 0))
    silver = replace(SILVER, checkpoint_version=2)
    pipeline = Pipeline(name="trips", flows=(BRONZE, silver))
    place.checkpoint("silver", version=2).run(0, delta_offset(1))
    staged = DeltaLog(place.layout.staging("trips", "silver", 2, 0))
    staged.commit(add("a", 3), txn("trips/silver/v2/0", 0))
    told = place.measure(silver, pipeline)
    assert (told.has_work, told.reason) == (True, "a full refresh waits to be swapped in")
    assert place.plan(silver, pipeline=pipeline).small is False, "a refresh is never small"
    live.commit(txn("trips/silver/v2/0", 0))
    assert place.measure(silver, pipeline).has_work is False, "a folder that a crash left behind is no work"


# ------------------------------------------------------------------------------------------------------------- the plan


def test_flows_below_one_with_work_have_work(place: Place) -> None:
    place.land("a.csv")
    plan = place.plan()
    assert plan.work is True
    assert [told.has_work for told in plan.lags] == [True, True, True]
    assert plan.reasons == (
        "bronze: 1 new file in trips",
        "silver: reads what flow bronze writes",
        "gold: reads what flow silver writes",
    )
    assert plan.reason == "; ".join(plan.reasons)


def test_only_chosen_flows_count(place: Place) -> None:
    place.land("a.csv")
    plan = place.plan(GOLD)
    assert (plan.work, [told.flow for told in plan.lags]) == (False, ["gold"])
    assert plan.reason == "gold: waits: silver.trips does not exist yet"


def test_with_nothing_new_every_flow_says_why(place: Place) -> None:
    plan = place.plan()
    assert (plan.work, len(plan.reasons)) == (False, 3)


@pytest.mark.parametrize(
    ("size", "first", "small"),
    [(1, True, True), (15, True, True), (17, True, False), (17, False, True), (63, False, True), (65, False, False)],
)
def test_small_is_what_pays_with_a_quick_start(place: Place, size: int, first: bool, small: bool) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 1, 1))
    if not first:
        place.checkpoint("silver").run(0, delta_offset(1))
    log.commit(add("b", 1, size * 1024 * 1024))
    assert place.plan(SILVER).small is small


def test_the_lag_is_plain_json(place: Place) -> None:
    place.land("a.csv")
    told = place.measure(BRONZE).to_json()
    assert json.loads(json.dumps(told)) == told
    assert {"flow", "kind", "rows", "bytes", "rows_exact", "bytes_exact", "behind", "pending_batch", "has_work"} <= set(
        told
    )


def test_measuring_writes_nothing(place: Place) -> None:
    place.land("a.csv")
    refused(place)
    before = sorted(place.layout.lake.rglob("*"))
    place.plan()
    assert sorted(place.layout.lake.rglob("*")) == before


def test_two_pipelines_are_measured_in_half_a_second_of_the_processor(place: Place) -> None:
    for number in range(365):
        place.land(f"{number}.csv")
    place.read_everything(place.checkpoint("bronze"))
    for table, flow in (("bronze.trips", "silver"), ("silver.trips", "gold")):
        log = place.table(table)
        for number in range(200):
            log.commit(add(f"f{number}", 1))
        place.checkpoint(flow).run(0, delta_offset(100))
    place.plan()
    started = time.process_time()
    place.plan()
    place.plan()
    assert time.process_time() - started < 0.5


def test_nothing_heavy_is_imported() -> None:
    program = (
        "import sys, tidegate.lag, tidegate.lease, tidegate.probes.kafka\n"
        "heavy = ('airflow', 'pyspark', 'delta', 'pandas', 'pyarrow', 'great_expectations', 'deltalake', 'confluent_kafka')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert done.stdout.strip() == "[]"


# ----------------------------------------------------------------------------------------------------------------- Kafka


def test_without_a_broker_the_error_is_transient(place: Place) -> None:
    environment = replace(place.environment, kafka="127.0.0.1:1")
    with pytest.raises(SourceUnavailableError):
        lag.plan(environment, CLICKS, CLICKS.flows)


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_topic_is_behind_by_its_offsets_and_says_when_they_are_gone(place: Place, tmp_path: Path) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    with Broker(tmp_path / "kafka", class_path=jars.class_path(PROJECT, "broker")) as broker:
        environment = replace(place.environment, kafka=broker.bootstrap)
        (flow,) = CLICKS.flows

        def measured() -> lag.Lag:
            return lag.measure(environment, CLICKS, flow)

        with pytest.raises(SourceError, match="no topic 'clicks'"):
            measured()
        broker.create_topic("clicks", partitions=2)
        assert (measured().has_work, measured().first) == (False, True)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(30):
            producer.produce("clicks", value="x" * 10, partition=number % 2)
        producer.flush(10)
        told = measured()
        assert (told.has_work, told.behind, told.rows, told.rows_exact, told.bytes_exact) == (True, 30, 30, True, False)
        assert told.reason == "30 new messages in topic clicks"

        checkpoint = place.checkpoint("bronze", dag="clicks")
        checkpoint.run(0, {"clicks": {"0": 15, "1": 10}})
        told = measured()
        assert (told.has_work, told.behind, told.position, told.first) == (True, 5, "0:15 1:10", False)
        checkpoint.run(1, {"clicks": {"0": 15, "1": 15}})
        assert measured().has_work is False
        checkpoint.plan(2, {"clicks": {"0": 15, "1": 15}})
        assert measured().has_work is True
        checkpoint.commit(2)

        checkpoint.run(3, {"clicks": {"0": 15}})
        assert measured().behind == 15, "a partition that the checkpoint does not know is new"
        checkpoint.run(4, {"clicks": {"0": 99, "1": 15}})
        with pytest.raises(OffsetsExpiredError, match="made anew"):
            measured()
        checkpoint.run(5, {"clicks": {"0": 15, "1": 15, "2": 1}})
        with pytest.raises(OffsetsExpiredError, match="no longer has that partition"):
            measured()
        checkpoint.run(6, {"clicks": {"0": 3, "1": 15}})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for deleted in admin.delete_records([TopicPartition("clicks", 0, 5)]).values():
            deleted.result(10)
        with pytest.raises(OffsetsExpiredError, match="deleted before they were read"):
            measured()
