"""How many requests it takes to see that nothing is to be done, and that a job which goes on meanwhile is no contradiction."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import deltalake
import pytest

from tests import places
from tests.resolved import resolved
from tests.s3_server import S3Process
from tests.spark_files import add, delta_offset
from tests.status.sample_project import BRONZE, GOLD, SILVER, TRIPS, SampleProject
from tests.store.proxy import S3Proxy
from tidegate.checkpoints import history
from tidegate.probes import delta_history
from tidegate.probes.revisions import KeptByRevision
from tidegate.spec import Flow
from tidegate.status import plan
from tidegate.store import Store
from tidegate.store.instrumented import InstrumentedStore
from tidegate.store.location import Location, Stores

T = TypeVar("T")

BATCHES = 15
"""Each table has a checkpoint with commits behind it, and the log of the landed files was compacted and goes on."""
COMPACTED = 10
SOURCES = {BRONZE: (), SILVER: ("bronze.trips",), GOLD: ("silver.trips",)}


def run(project: SampleProject, flow: Flow, batch: int) -> None:
    """A batch: what a job writes into table, checkpoint and note."""
    made, table = project.checkpoint(flow.name), project.table(flow.target.name)
    table.next = batch
    files = {f"{project.landing.uri}/{batch}.csv": batch}
    if flow is BRONZE:
        made.list_files(batch, files)
    made.plan(batch, {"logOffset": batch} if flow is BRONZE else delta_offset(batch + 1))
    table.commit(add(f"f{batch}", 1))
    made.commit(batch)
    place, sources = places.current(project.layout, TRIPS, flow), map(project.layout.table, SOURCES[flow])
    positions = {source.key: delta_history.position(source, batch) for source in sources}
    own = delta_history.position(table.path, batch)
    positions[table.path.key] = dataclasses.replace(own, app_id=place.app_id, batch_id=batch)
    history.write(place, batch=batch, positions=positions)


def fill(project: SampleProject) -> None:
    """Three flows that have read everything, a file each time."""
    project.layout.open()
    for batch in range(BATCHES):
        for flow in TRIPS.flows:
            run(project, flow, batch)
            if batch == COMPACTED:
                table = project.layout.table(flow.target.name)
                deltalake.DeltaTable(table.uri, storage_options=dict(table.options)).create_checkpoint()
    project.checkpoint("bronze").compact(
        COMPACTED - 1, {batch: {f"{project.landing.uri}/{batch}.csv": batch} for batch in range(COMPACTED)}
    )


def test_an_idle_plan_of_three_flows_in_a_bucket_takes_few_requests(
    tmp_path: Path, s3_server: S3Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"TIDEGATE_LAKE": f"s3://{s3_server.new_bucket()}/lake", "TIDEGATE_LANDING": str(tmp_path / "landing")}
    fill(SampleProject(tmp_path / "run", **s3_server.variables, **where))
    monkeypatch.setattr(delta_history, "_read_entries", KeptByRevision())
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        variables = {**s3_server.variables, "AWS_ENDPOINT_URL_S3": proxy.endpoint}
        planned = SampleProject(tmp_path / "plan", **variables, **where).plan()
    assert (planned.work, planned.errors) == (False, ())
    assert planned.readings[2].reason == "nothing new in silver.trips"
    requests = Counter("LIST" if "list-type=2" in path else method for method, path in proxy.requests)
    assert requests.keys() == {"GET", "LIST"}, "nothing is asked for that is missing, and no status but by a listing"
    # Of each flow: note, newest offsets, newest entry of its table, hint of a checkpoint; of landed files: a compacted log and five others.
    assert requests["GET"] == 18
    assert requests["LIST"] <= 15


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
