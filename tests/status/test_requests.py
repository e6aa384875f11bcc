"""How many requests it takes to see that nothing is to be done, and that a job which goes on meanwhile is no contradiction."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pendulum
import pytest

from tests import places
from tests.resolved import resolved, resolved_flow
from tests.s3_server import S3Process
from tests.spark_files import DeltaLog, add, delta_offset
from tests.status.sample_project import BRONZE, GOLD, SILVER, TRIPS, SampleProject
from tests.store.memory_buckets import MemoryBuckets
from tests.store.proxy import S3Proxy
from tidegate.checkpoints import checkpoint, history
from tidegate.errors import TidegateError
from tidegate.lake import read_once
from tidegate.lake.place import PipelinePlace, Place
from tidegate.ops import contents, ledger, metrics, store
from tidegate.probes import delta_history
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import Flow
from tidegate.status import evaluation, flow_status, plan
from tidegate.store import Address, Store
from tidegate.store.address import KeptByRevision
from tidegate.store.instrumented import InstrumentedStore
from tidegate.store.location import Location, Stores

pytestmark = pytest.mark.slow

T = TypeVar("T")

BATCHES = 15
"""Each table has a checkpoint with commits behind it, and the log of the landed files was compacted and goes on."""
COMPACTED = 10
NOW = pendulum.now("UTC")
PATIENCE = 60.0
SOURCES = {BRONZE: (), SILVER: ("bronze.trips",), GOLD: ("silver.trips",)}


RECORDED = 4
"""How many of these batches are in tables of the platform that delta-rs can read; more would be compacted."""


def run(project: SampleProject, flow: Flow, batch: int, *, readable: bool = False) -> None:
    """A batch: what a job writes into tables, checkpoint and notes.

    Args:
        readable: Whether delta-rs can read the tables of the platform.
    """
    made, place = project.checkpoint(flow.name), places.current(project.layout, TRIPS, flow)
    if batch == 0:
        of_flow = places.of(project.layout, TRIPS, flow)
        checkpoint.write_sidecar(of_flow, flow)
        checkpoint.write_schema(project.layout, resolved_flow(flow, TRIPS, project.environment.project))
    if flow is BRONZE:
        made.list_files(batch, landed(project, batch))
    made.plan(batch, {"logOffset": batch} if flow is BRONZE else delta_offset(batch + 1))
    sources = map(project.layout.table, SOURCES[flow])
    positions = {source.key: delta_history.position(source, batch) for source in sources}
    for written in (project.layout.table(flow.target.name), place.quarantine):
        if readable and written == place.quarantine:
            refuse_row(written, batch)
        else:
            _log(written, batch).commit(add(f"f{batch}", 1))
        positions[written.key] = dataclasses.replace(
            delta_history.position(written, batch), app_id=place.app_id, batch_id=batch
        )
    made.commit(batch)
    if readable and batch < RECORDED:
        record(place, batch)
    for name in () if readable else ("ledger", "verdicts"):
        _log(place.of_pipeline.ops(name), batch).commit(add(f"f{batch}", 1))
    history.write(place, batch=batch, positions=positions)


def refuse_row(quarantine: Address, batch: int) -> None:
    """An open entry."""
    columns = {"_row_id": "VARCHAR", "state": "VARCHAR", "_in_hand": "VARCHAR", "quarantined_at": "TIMESTAMPTZ"}
    entry = {"_row_id": str(batch), "state": "open", "_in_hand": None, "quarantined_at": NOW}
    store.append(quarantine, columns, [entry])


def record(place: Place, batch: int) -> None:
    """The line of a batch in the ledger, and Spark's progress."""
    line = LedgerLine(flow=place.flow, batch_id=batch, app_id=place.app_id, kind="append", read=10, written=9)
    of_run: dict[str, Any] = {"run_key": f"r{batch}", "attempt": "a", "mode": "incremental"}
    ledger.record(place.of_pipeline, line, ledger.RunOrigin(**of_run))
    reported = {"batchId": batch, "timestamp": "2026-11-01T12:00:00.000Z", "durationMs": {"triggerExecution": 2000}}
    progress = metrics.QueryProgress.from_spark(
        reported, place.checkpoint, flow=place.flow, app_id=place.app_id, recorded_at=metrics.now(), **of_run
    )
    metrics.append(place.of_pipeline.ops("progress"), [progress])


def landed(project: SampleProject, batch: int) -> dict[str, int]:
    """The file of a batch, which lands unless it is there."""
    file = project.landing / f"{batch}.csv"
    if not file.exists():
        file.put(b"a\n1\n")
    return {file.uri: file.stat().modified_ns // 1_000_000}


def _log(table: Address, version: int) -> DeltaLog:
    log = DeltaLog(table)
    log.next = version
    return log


def fill(project: SampleProject, *, readable: bool = False) -> None:
    """Three flows that have read everything, a file each time."""
    project.layout.open()
    for batch in range(BATCHES):
        for flow in TRIPS.flows:
            run(project, flow, batch, readable=readable)
            if batch == COMPACTED:
                log = project.layout.table(flow.target.name) / "_delta_log"
                (log / f"{batch:020d}.checkpoint.parquet").put(b"PAR1" + bytes(4) + (0).to_bytes(4, "little") + b"PAR1")
                (log / "_last_checkpoint").put(b'{"version": %d}' % batch)
    project.checkpoint("bronze").compact(COMPACTED - 1, {batch: landed(project, batch) for batch in range(COMPACTED)})


def decided(project: SampleProject, *, record: bool = False) -> plan.Plan:
    """A plan as of a new process, of a command or, with ``record``, before a run."""
    delta_history._read_entries = KeptByRevision()
    environment = read_once.once(project.environment)
    result = plan.check_and_decide(environment, resolved(TRIPS, environment.project), TRIPS.flows)
    if record:
        plan.record(environment, TRIPS.name, result)
    return result


def filled_in_memory(folder: Path, buckets: MemoryBuckets) -> SampleProject:
    """A project as `fill` leaves it, in a bucket in memory with its landing zone."""

    class InMemory(SampleProject):
        stores = buckets

    project = InMemory(folder, TIDEGATE_LAKE="s3://bucket/lake", TIDEGATE_LANDING="s3://bucket/landing")
    fill(project)
    return project


def expect_idle(planned: plan.Plan) -> None:
    assert (planned.work, planned.errors) == (False, ())
    assert planned.readings[2].reason == "nothing new in silver.trips"


@pytest.fixture
def buckets() -> MemoryBuckets:
    return MemoryBuckets()


@pytest.fixture
def filled(tmp_path: Path, buckets: MemoryBuckets) -> SampleProject:
    project = filled_in_memory(tmp_path, buckets)
    buckets.requests.clear()
    return project


def test_an_idle_plan_of_three_flows_in_a_bucket_takes_few_requests(
    filled: SampleProject, buckets: MemoryBuckets
) -> None:
    expect_idle(decided(filled, record=True))
    buckets.requests.clear()
    expect_idle(decided(filled))
    first, rest = buckets.requests[:2], buckets.requests[2:]
    assert first == [("GET", "lake/_ops/trips/contents.json"), ("GET", "lake/lake.json")]
    assert {kind for kind, _ in rest} == {"LIST"}, (
        "nothing is read again that has its tag, and nothing is asked for that is missing"
    )
    # Of each flow: notes, checkpoint, log of its table and of its quarantine. Then ledger, verdicts, three folders of tables, landed files.
    assert len(rest) == len(set(rest)) == 3 * 4 + 2 + 3 + 1


def test_an_idle_plan_of_a_server_takes_few_requests(tmp_path: Path, s3_server: S3Process) -> None:
    bucket = s3_server.new_bucket()
    where = {"TIDEGATE_LAKE": f"s3://{bucket}/lake", "TIDEGATE_LANDING": f"s3://{bucket}/landing"}
    fill(SampleProject(tmp_path / "job", **s3_server.variables, **where))
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        variables = {**s3_server.variables, "AWS_ENDPOINT_URL_S3": proxy.endpoint}
        project = SampleProject(tmp_path / "plan", **variables, **where)
        expect_idle(decided(project, record=True))
        proxy.requests.clear()
        expect_idle(decided(project))
    assert len(proxy.requests) <= 20
    assert {method for method, _ in proxy.requests} == {"GET"}


def test_status_and_alerts_of_a_server_take_few_requests(tmp_path: Path, s3_server: S3Process) -> None:
    bucket = s3_server.new_bucket()
    where = {"TIDEGATE_LAKE": f"s3://{bucket}/lake", "TIDEGATE_LANDING": f"s3://{bucket}/landing"}
    job = SampleProject(tmp_path / "job", **s3_server.variables, **where)
    fill(job, readable=True)
    pipelines = [(TRIPS.name, resolved(TRIPS, job.environment.project))]
    expect_idle(decided(job, record=True))
    # As a run does at its end.
    contents.keep_more(contents.known(job.environment, TRIPS.name), pipelines[0][1])
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        variables = {**s3_server.variables, "AWS_ENDPOINT_URL_S3": proxy.endpoint}
        project = SampleProject(tmp_path / "status", **variables, **where)
        readings = flow_status.gather(project.environment, pipelines, PATIENCE, NOW)
        of_status = len(proxy.requests)
        alerts = evaluation.evaluate_pipelines(project.environment, pipelines, NOW, PATIENCE)
    assert [each.quarantine.open for each in readings] == [BATCHES] * 3
    assert of_status <= 3 * 15, proxy.requests
    assert [len(each.runs) for each in alerts[0].readings] == [RECORDED] * 3
    assert {run.seconds for each in alerts[0].readings for run in each.runs} == {2.0}
    assert len(proxy.requests) - of_status <= 3 * 15, proxy.requests[of_status:]


def test_an_idle_plan_writes_nothing_but_that_it_was_made(filled: SampleProject, buckets: MemoryBuckets) -> None:
    decided(filled, record=True)
    buckets.requests.clear()
    decided(filled, record=True)
    assert [key for kind, key in buckets.requests if kind == "PUT"] == ["lake/_ops/trips/plans.jsonl"]


def test_what_has_another_tag_is_read_again(filled: SampleProject, buckets: MemoryBuckets) -> None:
    decided(filled, record=True)
    kept = PipelinePlace(filled.layout, TRIPS.name).contents
    contents, outcomes = kept.read().data, Counter[str]()
    for key in json.loads(contents):
        # Without it, delta-rs is to read the table, which waits for the server that these buckets do not have.
        if key.endswith("history.json"):
            continue
        content = filled.layout.root / key
        before = content.read().data
        content.put(b"torn")
        kept.put(contents)
        with_contents = outcome(filled)
        kept.delete()
        assert with_contents == outcome(filled), key
        outcomes[with_contents] += 1
        content.put(before)
    assert len(outcomes) > 10, "most of what is kept matters to the plan"


def outcome(project: SampleProject) -> str:
    """What a plan says, or why there is none."""
    try:
        planned = decided(project)
    except TidegateError as error:
        return error.message
    return repr((planned.work, planned.reasons, planned.errors))


def test_contents_that_cannot_be_read_are_read_from_their_keys(filled: SampleProject) -> None:
    for damage in (b"", b"{", b"[]", b'{"lake.json": 1}', b"\xff"):
        PipelinePlace(filled.layout, TRIPS.name).contents.put(damage)
        expect_idle(decided(filled))


class Meanwhile(InstrumentedStore):
    """Does something after a folder was listed for the first time."""

    def __init__(self, store: Store, folder: str, act: Callable[[], None]) -> None:
        super().__init__(store)
        self.folder, self.act, self.has_acted = folder, act, False

    def _request(self, operation: str, key: str, act: Callable[[], T]) -> T:
        result = super()._request(operation, key, act)
        if operation in ("list", "list_tree") and key == self.folder and not self.has_acted:
            self.has_acted = True
            self.act()
        return result


FOLDERS = [
    *(f"tables/{layer}/trips/_delta_log" for layer in ("bronze", "silver", "gold")),
    *(f"checkpoints/trips/{flow.name}{below}" for flow in TRIPS.flows for below in ("", "/v1", "/v1/0/commits")),
]


@pytest.mark.parametrize("folder", FOLDERS)
def test_batches_that_are_written_during_a_plan_are_no_contradiction(tmp_path: Path, folder: str) -> None:
    project = SampleProject(tmp_path)
    fill(project)

    def go_on() -> None:
        for batch in range(BATCHES, BATCHES + 3):
            for flow in TRIPS.flows:
                run(project, flow, batch)

    stores: dict[Location, Meanwhile] = {}

    def store_of(root: Location) -> Store:
        return stores.setdefault(root, Meanwhile(Stores()(root), folder, go_on))

    environment = dataclasses.replace(project.environment, store_of=store_of)
    planned = plan.decide(environment, resolved(TRIPS, environment.project), TRIPS.flows)
    assert stores[environment.lake_at].has_acted
    assert planned.errors == ()
