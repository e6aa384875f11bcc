"""Replays: quarantine entries are judged again exactly once, and every row is in exactly one place.

Tests with whole pipelines and a gate are in `tests/spark/reprocessing/test_whole_replays.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deployment import Deployment
from tests.spark import job as orders
from tidegate.checkpoints.pending_jobs import CLAIM
from tidegate.errors import RequestError, SourceUnavailableError, UnexpectedError
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import store
from tidegate.quarantine import claims
from tidegate.quarantine.selection import Selection
from tidegate.spark.batch import micro_batch
from tidegate.spark.flow import run_flow
from tidegate.spark.job import Job
from tidegate.spark.lake import tables, writes
from tidegate.spark.reprocessing import replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spec import Flow

pytestmark = pytest.mark.jvm

ALL = Selection.check()
StartState = Callable[[Callable[[Deployment], None]], Deployment]


def without_keys_of(*ids: int) -> Callable[[DataFrame], DataFrame]:
    """Code that derives no key for some orders, which are quarantined."""

    def clean(rows: DataFrame) -> DataFrame:
        listed = ", ".join(map(str, (-1, *ids)))
        return rows.selectExpr("* EXCEPT (id)", f"CASE WHEN id NOT IN ({listed}) THEN id END AS id")

    return clean


def make_job(place: Path, flow: Flow, **more: Any) -> Job:
    from pyspark.sql import SparkSession

    return orders.job_of(SparkSession.active(), place, flow, **more)


def land(place: Path, name: str, content: str) -> Path:
    path = place / "landing" / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def lines(*ids: int) -> str:
    return "".join(f"{json.dumps({'id': number, 'at': number, 'amount': number * 10})}\n" for number in ids)


def five_of_eight_in_quarantine(deployment: Deployment) -> None:
    place = deployment.environment.lake.parent
    land(place, "one.json", lines(*range(8)))
    run_flow(make_job(place, orders.BRONZE))
    run_flow(make_job(place, orders.SILVER, transform=without_keys_of(1, 2, 3, 4, 5)))


@pytest.fixture
def place(start_state: StartState) -> Path:
    """A project with three of eight orders in silver and five in its quarantine."""
    return start_state(five_of_eight_in_quarantine).environment.lake.parent


def silver(place: Path, *still_refused: int, **more: Any) -> Job:
    """The job of a replay with code that refuses only these orders."""
    return make_job(place, orders.SILVER, transform=without_keys_of(*still_refused), mode="replay", **more)


def states(job: Job) -> dict[str, int]:
    return dict(Counter(row["state"] for row in orders.table(job.place.quarantine)))


def open_ids(job: Job) -> list[int]:
    rows = orders.table(job.place.quarantine)
    return sorted(json.loads(row["record"])["id"] for row in rows if row["state"] == "open")


def replay_lines(job: Job) -> list[dict[str, Any]]:
    path = PipelinePlace(job.place.layout, "orders").ops("ledger")
    return store.select(path, "SELECT * FROM delta_table WHERE kind = 'replay' ORDER BY batch_id")


def expect_every_order_in_one_place(job: Job, count: int = 8) -> None:
    rows = orders.table(job.place.quarantine)
    assert {row["_in_hand"] for row in rows} == {None}, "no entry is claimed"
    assert not CLAIM.exists(FlowPlace(job.place.layout, "orders", job.flow.name))
    written = [row["id"] for row in orders.table(job.live)]
    assert len(written) == len(set(written)) == count - len(open_ids(job))
    assert not set(written) & set(open_ids(job))


def test_rows_that_pass_are_written_and_rows_that_fail_keep_their_entry(place: Path) -> None:
    dry_run, job = silver(place, 4, 5), silver(place, 4, 5)
    before = {row["_row_id"]: row for row in orders.table(job.place.quarantine)}

    replay.replay_entries(dry_run, ALL, dry_run=True, limit=4)

    assert (dry_run.run.report.dry_run, [line.read for line in dry_run.run.report.batches]) == (True, [4])
    assert {row["_row_id"]: row for row in orders.table(job.place.quarantine)} == before, "a dry run changes nothing"
    assert (replay_lines(job), CLAIM.exists(FlowPlace(job.place.layout, "orders", "silver"))) == ([], False)
    replay.replay_entries(job, ALL)
    (line,) = job.run.report.batches
    assert (line.kind, line.read, line.written, line.quarantined, line.imbalance()) == ("replay", 5, 3, 2, 0)
    assert (line.batch_id, line.app_id) == (0, "orders/silver/replay")
    assert [line["requested_by"] for line in replay_lines(job)] == ["ada"]
    assert (states(job), open_ids(job)) == ({"replayed": 3, "open": 2}, [4, 5])
    after = {row["_row_id"]: row for row in orders.table(job.place.quarantine)}
    assert after.keys() == before.keys()
    returned = [row for row in after.values() if row["state"] == "open"]
    assert {(row["attempts"], row["changed_by"], row["_batch_id"]) for row in returned} == {(1, "ada", 0)}
    expect_every_order_in_one_place(job)


@pytest.mark.nightly
def test_claims_are_bounded_and_numbered_and_do_not_claim_returned_entries_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "ENTRIES_AT_ONCE", 3)
    first = silver(place, 1, 2, 3, 4, 5)

    replay.replay_entries(first, ALL)

    assert [(line.batch_id, line.read, line.quarantined) for line in first.run.report.batches] == [(0, 3, 3), (1, 2, 2)]
    assert {row["attempts"] for row in orders.table(first.place.quarantine)} == {1}
    second = silver(place)
    replay.replay_entries(second, ALL, limit=2)
    assert [(line.batch_id, line.read) for line in second.run.report.batches] == [(2, 2)]
    assert states(second) == {"replayed": 2, "open": 3}
    expect_every_order_in_one_place(second)


def fail(*_: Any, **__: Any) -> None:
    raise SourceUnavailableError("simulated crash")


@pytest.mark.nightly
def test_a_retry_of_a_replay_continues_where_the_first_attempt_stopped(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "ENTRIES_AT_ONCE", 2)
    process_claim, request_id = replay.process_claim, "q20260101T000000-1"

    def fail_second_claim(job: Job, number: int) -> None:
        if number == 1:
            raise SourceUnavailableError("no broker answers")
        process_claim(job, number)

    with monkeypatch.context() as patched:
        patched.setattr(replay, "process_claim", fail_second_claim)
        with pytest.raises(SourceUnavailableError):
            replay.replay_entries(silver(place, request_id=request_id), ALL, limit=4)
    job = silver(place, request_id=request_id)
    assert claims.unfinished_claim(job.place.quarantine) == claims.Claim(number=1, entries=2)

    replay.replay_entries(job, ALL, limit=4)

    assert [(line.batch_id, line.read) for line in job.run.report.batches] == [(0, 2), (1, 2)], (
        "the limit applies to all attempts together, and the report covers the whole replay"
    )
    assert [line["batch_id"] for line in replay_lines(job)] == [0, 1]
    assert states(job) == {"replayed": 4, "open": 1}
    expect_every_order_in_one_place(job)


def test_a_permanent_error_releases_the_claim(place: Path) -> None:
    def fail_to_transform(_rows: DataFrame) -> DataFrame:
        raise ValueError("secret@example.org")

    job = make_job(place, orders.SILVER, transform=fail_to_transform, mode="replay")

    with pytest.raises(UnexpectedError):
        replay.replay_entries(job, ALL)

    assert states(job) == {"open": 5}
    assert claims.unfinished_claim(job.place.quarantine) is None
    expect_every_order_in_one_place(job)


@pytest.mark.nightly
def test_the_next_run_releases_a_replay_that_crashed_before_it_wrote_to_the_target(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "write_target", fail)
        with pytest.raises(SourceUnavailableError):
            replay.replay_entries(silver(place, 5), ALL)
    job = silver(place)
    assert CLAIM.exists(FlowPlace(job.place.layout, "orders", "silver"))
    assert claims.unfinished_claim(job.place.quarantine) is not None

    run_flow(job)

    assert job.run.report.notes == ["released the entries of the interrupted replay 0: 5 entries open again"]
    assert (job.run.report.batches, states(job)) == ([], {"open": 5})
    expect_every_order_in_one_place(job)


@pytest.mark.nightly
def test_the_split_of_a_released_replay_is_not_that_of_the_next_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "write_target", fail)
        with pytest.raises(SourceUnavailableError):
            replay.replay_entries(silver(place), ALL)
    run_flow(silver(place))
    job = silver(place, 5)

    replay.replay_entries(job, ALL)

    assert [(line.batch_id, line.written, line.quarantined) for line in job.run.report.batches] == [(1, 4, 1)]
    assert open_ids(job) == [5]
    expect_every_order_in_one_place(job)


@pytest.mark.parametrize(
    "by_run", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["the next run", "the next replay"]
)
def test_a_replay_that_crashed_after_it_wrote_to_the_target_is_recorded_and_settled_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, by_run: bool
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "record_batch", fail)
        with pytest.raises(SourceUnavailableError):
            replay.replay_entries(silver(place, 5), ALL)
    job = silver(place, 3, 5) if by_run else silver(place, 5)
    version = tables.version(job.spark, job.live)

    if by_run:
        run_flow(job)
        assert job.run.report.notes == ["finished the interrupted replay 0"]
    else:
        replay.replay_entries(job, Selection.check(rule="no_such_rule"))

    assert [(line["read"], line["written"], line["requested_by"]) for line in replay_lines(job)] == [(5, 4, "ada")]
    assert tables.version(job.spark, job.live) == version, "the decided split is kept"
    assert (states(job), open_ids(job)) == ({"replayed": 4, "open": 1}, [5])
    expect_every_order_in_one_place(job)


@pytest.mark.nightly
def test_an_entry_without_its_source_record_stays_open_with_a_rule_for_it(place: Path) -> None:
    from deltalake import DeltaTable

    job = silver(place)
    assert job.source_table is not None
    row_id = next(row["_row_id"] for row in orders.table(job.place.quarantine))
    properties = orders.by_writer(job.source_table)
    DeltaTable(str(job.source_table)).delete(f"_row_id = '{row_id}'", commit_properties=properties)

    replay.replay_entries(job, ALL)

    (line,) = job.run.report.batches
    assert (line.read, line.written) == (4, 4)
    (entry,) = [row for row in orders.table(job.place.quarantine) if row["state"] == "open"]
    assert (entry["_row_id"], entry["rules"], entry["attempts"]) == (row_id, ["null_key(id)", claims.SOURCE_GONE], 1)
    expect_every_order_in_one_place(job)


def test_a_checkpoint_without_data_in_the_table_replays_nothing(place: Path) -> None:
    for dry_run in (True, False):
        with pytest.raises(
            RequestError,
            match="Run the flow first: tidegate run orders --flow silver, then tidegate ",
        ):
            replay.replay_entries(silver(place, version=2), ALL, dry_run=dry_run)
    assert states(silver(place)) == {"open": 5}


def test_without_a_matching_entry_nothing_is_claimed(place: Path) -> None:
    job = silver(place)

    replay.replay_entries(job, Selection.check(rule="wrong_type(at)"))

    assert (job.run.report.batches, states(job)) == ([], {"open": 5})
    expect_every_order_in_one_place(job)


@pytest.mark.nightly
def test_a_corrected_file_is_read_again_and_an_unreadable_one_is_returned(spark: Any, tmp_path: Path) -> None:
    land(tmp_path, "good.json", lines(1))
    corrected = land(tmp_path, "corrected.json", "")
    land(tmp_path, "bad.json", "")
    run_flow(make_job(tmp_path, orders.BRONZE))
    corrected.write_text(lines(2, 3))
    job = make_job(tmp_path, orders.BRONZE, mode="replay")

    replay.replay_entries(job, ALL)

    (line,) = job.run.report.batches
    assert (line.files_listed, line.files_opened, line.files_quarantined, line.read) == (2, 1, 1, 2)
    assert line.imbalance() == 0
    by_file = {Path(json.loads(row["source"])["path"]).name: row["state"] for row in orders.table(job.place.quarantine)}
    assert by_file == {"corrected.json": "replayed", "bad.json": "open"}
    assert sorted(json.loads(row["line"])["id"] for row in orders.table(job.live)) == [1, 2, 3]
    again = make_job(tmp_path, orders.BRONZE, mode="replay")
    replay.replay_entries(again, ALL)
    assert [(each.files_listed, each.files_quarantined) for each in again.run.report.batches] == [(1, 1)]


def two_versions_behind_a_keyed_table(deployment: Deployment) -> None:
    """``latest`` reads the changes of silver; rows without a key are in its quarantine."""
    place = deployment.environment.lake.parent
    job = make_job(place, orders.SILVER)
    for batch_id, ids in enumerate(((0, 1, 2), (2, 3, 4))):
        rows = [(number, batch_id, number * 10 + batch_id, (batch_id,)) for number in ids]
        frame = job.spark.createDataFrame(rows, "id int, at int, amount int, _order struct<at: int>")
        writes.upsert(frame, job.live, ("id",), orders.transaction(job, batch_id))
        run_flow(make_job(place, orders.LATEST, transform=without_keys_of(1, 2, 3)))


def latest(place: Path, *still_refused: int) -> Job:
    return make_job(place, orders.LATEST, transform=without_keys_of(*still_refused), mode="replay")


@pytest.mark.nightly
def test_changes_of_a_keyed_table_are_replayed_from_its_first_load_and_its_change_feed(start_state: StartState) -> None:
    place = start_state(two_versions_behind_a_keyed_table).environment.lake.parent
    job = latest(place, 3)
    entries = states(job)["open"]

    replay.replay_entries(job, ALL)

    (line,) = job.run.report.batches
    assert (line.read, line.quarantined, line.imbalance()) == (entries, 1, 0)
    upstream = {row["id"]: row["amount"] for row in orders.table(job.place.layout.table("silver.orders"))}
    replayed = {row["id"]: row["amount"] for row in orders.table(job.live)}
    assert replayed == {number: amount for number, amount in upstream.items() if number != 3}
    assert open_ids(job) == [3]


@pytest.mark.nightly
def test_entries_older_than_the_log_of_their_keyed_table_are_returned_and_do_not_stop_others(
    start_state: StartState,
) -> None:
    from deltalake import DeltaTable

    place = start_state(two_versions_behind_a_keyed_table).environment.lake.parent
    job = latest(place)
    assert job.source_table is not None
    rows = orders.table(job.place.quarantine)
    newest = DeltaTable(str(job.source_table)).version()
    old = {row["_row_id"] for row in rows if json.loads(row["source"])["version"] < newest}
    assert 0 < len(old) < len(rows)
    # Delta deletes these files after the retention period of the log.
    DeltaTable(str(job.source_table)).create_checkpoint()
    for log in Path(job.source_table / "_delta_log").glob("*"):
        if log.name[:20].isdigit() and int(log.name[:20]) < newest:
            log.unlink()

    replay.replay_entries(job, ALL)

    assert job.run.report.batches[0].read == len(rows) - len(old)
    still_open = {row["_row_id"]: row for row in orders.table(job.place.quarantine) if row["state"] == "open"}
    assert still_open.keys() == old
    assert {(tuple(row["rules"]), row["_in_hand"]) for row in still_open.values()} == {
        (("null_key(id)", claims.SOURCE_GONE), None)
    }
    again = latest(place)
    replay.replay_entries(again, ALL)
    assert sum(line.read for line in again.run.report.batches) == 0, "no claim is left"
