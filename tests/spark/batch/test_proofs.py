"""A proof of the tables of a flow in a bucket asks for each log once, and reads nothing twice in a run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import places
from tests.resolved import resolved_flow
from tests.spark_files import add, delta_offset
from tests.status.sample_project import BRONZE, SILVER, TRIPS, SampleProject
from tests.status.test_requests import BATCHES, _log, filled_in_memory, run
from tests.store.memory_buckets import MemoryBuckets
from tidegate.checkpoints import history
from tidegate.checkpoints.history import HISTORY, LAST_WRITTEN, LastWritten
from tidegate.errors import LedgerImbalanceError, TableInDoubtError, TableUnreadableError, WriteConflictError
from tidegate.probes import delta, delta_history
from tidegate.spark import flow, kind
from tidegate.spark.batch import checks, proofs
from tidegate.spark.batch.split import Decision
from tidegate.spark.batch.work import Stream
from tidegate.spark.job import Job, load_kind
from tidegate.spark.lake import writes
from tidegate.spark.lake.writes import Transaction
from tidegate.store import Address
from tidegate.store.address import KeptByRevision

pytestmark = pytest.mark.slow


@pytest.fixture
def buckets() -> MemoryBuckets:
    return MemoryBuckets()


@pytest.fixture
def project(tmp_path: Path, buckets: MemoryBuckets) -> SampleProject:
    project = filled_in_memory(tmp_path, buckets)
    delta_history._read_entries = KeptByRevision()
    return project


@pytest.fixture
def job(project: SampleProject) -> Job:
    """Of silver, without a session."""
    none: Any = None
    return Job(
        place=places.current(project.layout, TRIPS, SILVER),
        resolved=resolved_flow(SILVER, TRIPS, project.environment.project),
        kind=none,
        work=Stream(),
        transform=None,
        gate=None,
        run=none,
        spark=none,
        clusters=project.environment.cluster,
    )


def test_a_proof_lists_each_log_once_and_the_next_one_reads_nothing_again(job: Job, buckets: MemoryBuckets) -> None:
    buckets.requests.clear()
    first = proofs.check(job)
    # Of the flow and of the one above it: notes and checkpoint. Logs: source, quarantine, late rows, staging, target.
    listed = [request for request in buckets.requests if request[0] == "LIST"]
    assert len(listed) == len(set(listed)) == 2 + 2 + 5
    assert {method for method, _ in buckets.requests} == {"LIST", "GET"}
    buckets.requests.clear()
    assert proofs.check(job) == first
    assert buckets.requests == listed


def test_an_entry_of_another_batch_is_all_that_a_proof_reads(
    job: Job, project: SampleProject, buckets: MemoryBuckets
) -> None:
    proofs.check(job)
    for each in TRIPS.flows:
        run(project, each, BATCHES)
    buckets.requests.clear()
    delta_history._read_entries = KeptByRevision()
    proven = proofs.check(job)
    assert {position.version for position in proven.tables.values()} == {BATCHES}
    read = [key for method, key in buckets.requests if method == "GET"]
    newest = f"{BATCHES:020d}.json"
    assert sorted(key for key in read if "_delta_log" in key) == [
        f"lake/quarantine/trips/silver/_delta_log/{newest}",
        f"lake/tables/bronze/trips/_delta_log/{newest}",
        f"lake/tables/silver/trips/_delta_log/{newest}",
    ]


def tables(job: Job) -> list[Address]:
    return [job.live, job.place.layout.table("bronze.trips")]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("damage", ["replaced", "lost", "emptied"])
def test_what_became_of_a_log_after_a_proof_is_seen_by_the_next_one(job: Job, which: int, damage: str) -> None:
    proofs.check(job)
    table = tables(job)[which]
    newest = table / "_delta_log" / f"{BATCHES - 1:020d}.json"
    if damage == "lost":
        newest.delete()
    elif damage == "emptied":
        newest.put(b"")
    else:
        lines = newest.read().data.decode().splitlines()
        newest.put("\n".join([*lines[:-1], json.dumps(add("other", 1))]).encode())
    with pytest.raises((TableInDoubtError, TableUnreadableError)):
        proofs.check(job)


def test_a_restore_behind_a_proof_is_a_doubt(job: Job) -> None:
    proofs.check(job)
    log = _log(job.live, BATCHES)
    log.commit({"remove": {"path": "f1", "dataChange": True}}, operation="RESTORE")
    with pytest.raises(TableInDoubtError, match="RESTORE"):
        proofs.check(job)


def test_a_note_that_another_driver_wrote_meanwhile_is_not_replaced(job: Job) -> None:
    checked = proofs._check(job)
    others = history.write(job.place, batch=BATCHES, positions={}).value
    with pytest.raises(WriteConflictError):
        history.write(job.place, batch=BATCHES + 1, positions={}, read=checked.place)
    assert history.read(job.place) == others
    assert dataclasses.replace(others, written_at="") == history.History(batch=BATCHES)


def test_a_batch_notes_what_it_stands_on_by_two_proofs(job: Job, buckets: MemoryBuckets) -> None:
    positions = proofs.begin(job, BATCHES - 1).value.positions
    bronze = job.place.layout.table("bronze.trips").key
    assert {bronze, job.live.key, job.place.quarantine.key} == set(positions)
    assert positions[bronze].version == BATCHES - 1
    buckets.requests.clear()
    proofs.end(job)
    note = history.read(job.place)
    assert note is not None and note.batch == BATCHES - 1
    written = HISTORY.path(job.place).key
    assert [request for request in buckets.requests if request[0] != "LIST"] == [
        ("GET", f"lake/{written}"),
        ("PUT", f"lake/{written}"),
        ("PUT", f"lake/{LAST_WRITTEN.path(job.place).key}"),
        ("GET", f"lake/{written}"),
    ], "the note of the beginning is read and replaced, and read by this test"


def test_what_is_decided_before_a_write_is_one_reading_and_reads_nothing_twice(
    job: Job, project: SampleProject, buckets: MemoryBuckets
) -> None:
    for table in (job.live, job.place.quarantine):
        # As Spark writes it.
        transactions = {"setTransactions": [{"appId": job.app_id, "version": BATCHES - 1}]}
        (table / "_delta_log" / f"{BATCHES - 1:020d}.crc").put(json.dumps(transactions).encode())
    job = dataclasses.replace(job, kind=load_kind(SILVER))
    buckets.requests.clear()
    prepared, reading = flow._prepare(job)
    assert kind.has_read_tables(reading), "by what it was prepared with"
    assert len(set(buckets.requests)) == len(buckets.requests) <= 22, buckets.requests
    assert {method for method, _ in buckets.requests} == {"LIST", "GET"}

    run(project, BRONZE, BATCHES)
    assert not kind.has_read_tables(prepared.reading())
    project.checkpoint("silver").plan(BATCHES, delta_offset(BATCHES + 1))
    buckets.requests.clear()
    reading = prepared.reading()
    decision = checks.decide(reading, BATCHES)
    begun = proofs.begin(prepared, BATCHES, reading=reading)
    assert checks.follow(prepared, decision, begun, BATCHES) == decision
    assert (decision.quarantined, decision.late, decision.written) == (False, False, False)
    assert len(set(buckets.requests)) == len(buckets.requests) <= 15, buckets.requests
    again = [key for method, key in buckets.requests if method == "GET" and key.endswith((".crc", "v1.json"))]
    assert again == [], "what has its tag is not read again"


def test_a_doubt_in_a_reading_that_began_earlier_is_asked_again(job: Job, project: SampleProject) -> None:
    reading = job.reading()
    assert delta.current_version(reading.live) == BATCHES - 1
    for each in TRIPS.flows:
        run(project, each, BATCHES)
    begun = proofs.begin(job, BATCHES, reading=reading)
    assert begun.value.positions[job.live.key].version == BATCHES


def split_of(batch: int) -> Any:
    """Without refused and late rows."""
    return SimpleNamespace(refused=None, prepared=SimpleNamespace(batch_id=batch, late=0))


def test_a_split_is_recorded_unless_another_attempt_has_begun_the_batch(job: Job) -> None:
    job = dataclasses.replace(job, run=cast(Any, SimpleNamespace(place=SimpleNamespace(attempt="a1"))))
    undecided = Decision(quarantined=False, late=False, written=False)
    begun = proofs.begin(job, BATCHES - 1)
    checks.record_split(job, begun, split_of(BATCHES - 1), undecided)
    recorded = history.recorded_split(job.place, job.app_id)
    assert recorded == history.RecordedSplit(batch_id=BATCHES - 1, attempt="a1", refused=False, late=False)
    begun = proofs.begin(job, BATCHES - 1)
    proofs.begin(job, BATCHES - 1)
    with pytest.raises(WriteConflictError):
        checks.record_split(job, begun, split_of(BATCHES - 1), undecided)


def commit_of(table: Address, app_id: str, attempt: str) -> None:
    """The next batch, as Spark commits it."""
    metadata = {"app_id": app_id, "batch_id": BATCHES, "attempt": attempt}
    info = {"commitInfo": {"operation": "WRITE", "userMetadata": json.dumps(metadata)}}
    (table / "_delta_log" / f"{BATCHES:020d}.json").put(json.dumps(info).encode())


def test_the_commit_of_a_batch_is_read_behind_the_proven_version_and_names_its_attempt(
    job: Job, buckets: MemoryBuckets
) -> None:
    proven = proofs.check(job).tables[job.live]
    txn = Transaction(app_id=job.app_id, batch_id=BATCHES, prepared={}, attempt="a1", stands_on={job.live.key: proven})
    commit_of(job.live, job.app_id, "a1")
    buckets.requests.clear()
    assert writes._committed(job.spark, job.live, txn).version == BATCHES
    assert buckets.requests == [("GET", f"lake/tables/silver/trips/_delta_log/{BATCHES:020d}.json")]
    commit_of(job.live, job.app_id, "a2")
    with pytest.raises(WriteConflictError, match="attempt a2 has written batch"):
        writes._committed(job.spark, job.live, txn)
    commit_of(job.live, "another", "a1")
    transactions = {"setTransactions": [{"appId": job.app_id, "version": BATCHES - 1}]}
    (job.live / "_delta_log" / f"{BATCHES:020d}.crc").put(json.dumps(transactions).encode())
    with pytest.raises(LedgerImbalanceError, match=f"has batch {BATCHES - 1} of"):
        writes._committed(job.spark, job.live, txn)


def test_a_local_lake_needs_no_reading(tmp_path: Path, job: Job) -> None:
    local = SampleProject(tmp_path / "local")
    of_local = dataclasses.replace(job, place=places.current(local.layout, TRIPS, SILVER))
    assert of_local.reading() is of_local


def test_the_last_batch_is_noted_within_the_checkpoint(job: Job) -> None:
    for batch in (1, 2):
        LAST_WRITTEN.write(job.place, LastWritten(batch=batch), read=proofs._check(job).place)
        assert LAST_WRITTEN.read(job.place) == LastWritten(batch=batch)
