"""What is damaged, by each flow's own knowledge, on logs and checkpoints that are written without a JVM."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests import places
from tests.resolved import resolved
from tests.spark_files import add, delta_offset
from tests.status.sample_project import TRIPS, SampleProject
from tidegate.checkpoints import history
from tidegate.lake.place import PipelinePlace
from tidegate.ops import ledger
from tidegate.planning import losses
from tidegate.probes import delta_history, delta_log
from tidegate.reports.impact import accepting_flow
from tidegate.reports.ledger_line import LedgerLine
from tidegate.runs.recover import plan as recovery
from tidegate.spec import ChangeFeed, Flow, Table
from tidegate.status import damage
from tidegate.status.damage import Damage

pytestmark = pytest.mark.slow

TABLES = ("bronze.trips", "silver.trips", "gold.trips")
SOURCES = {"silver": "bronze.trips", "gold": "silver.trips"}


def entry(project: SampleProject, table: str, version: int = 2) -> Path:
    return Path(delta_log.entry(project.layout.table(table), version))


def prepare(project: SampleProject) -> None:
    """Two files in bronze, and all tables at version 2; every flow has read and noted everything."""
    for name in TABLES:
        log = project.table(name)
        for version in range(3):
            log.commit(add(f"{version}", 3))
    project.land("a.csv")
    project.land("b.csv")
    project.read_everything(project.checkpoint("bronze"))
    for flow in SOURCES:
        project.checkpoint(flow).run(0, delta_offset(3))
    for flow, table in zip(("bronze", *SOURCES), TABLES, strict=True):
        paths = [project.layout.table(each) for each in (table, SOURCES.get(flow)) if each is not None]
        positions = {path.key: delta_history.position(path, 2) for path in paths}
        place = places.current(project.layout, TRIPS, TRIPS.flow(flow))
        history.write(place, batch=0, positions=positions)


def damaged(project: SampleProject) -> dict[str, list[tuple[str, str]]]:
    """Kind and what of each damage, by flow."""
    flows = resolved(TRIPS, project.environment.project).flows
    damages = {each.flow.name: damage.of_flow(project.layout, each) for each in flows}
    return {flow: [(each.kind, each.what) for each in own] for flow, own in damages.items() if own}


def planned(project: SampleProject) -> recovery.Recovery:
    return recovery.make(project.environment, {"trips": resolved(TRIPS, project.environment.project)})


def tear(project: SampleProject) -> None:
    entry(project, "silver.trips").write_bytes(entry(project, "silver.trips").read_bytes()[:-9])


def empty(project: SampleProject) -> None:
    entry(project, "silver.trips").write_bytes(b"")


def lose_middle(project: SampleProject) -> None:
    entry(project, "silver.trips", 1).unlink()


def lose_newest(project: SampleProject) -> None:
    entry(project, "silver.trips").unlink()


def leave_checksum(project: SampleProject) -> None:
    entry(project, "silver.trips").with_name(f"{2:020d}.crc").write_text("{}")
    lose_newest(project)


def lose_log(project: SampleProject) -> None:
    shutil.rmtree(project.layout.table("silver.trips") / "_delta_log")


def lose_table(project: SampleProject) -> None:
    shutil.rmtree(project.layout.table("silver.trips"))


def name_lost_checkpoint(project: SampleProject) -> None:
    (project.layout.table("silver.trips") / "_delta_log" / "_last_checkpoint").put(b'{"version": 1}')


def _restore(project: SampleProject, table: str) -> None:
    """RESTORE by another writer, which adds a file of an earlier version again."""
    info = {"commitInfo": {"timestamp": 1795256525089, "operation": "RESTORE", "operationParameters": {}}}
    entry(project, table, 3).write_text(f"{json.dumps(info)}\n{json.dumps(add('0', 3))}\n")


def restore_silver(project: SampleProject) -> None:
    _restore(project, "silver.trips")


def restore_bronze(project: SampleProject) -> None:
    _restore(project, "bronze.trips")


def tear_offsets(project: SampleProject) -> None:
    offsets = project.checkpoint("silver").path / "offsets" / "0"
    offsets.write_bytes(offsets.read_bytes()[:-9])


def lose_files_of_stream(project: SampleProject) -> None:
    shutil.rmtree(project.checkpoint("bronze").path / "sources")


SILVER, GOLD = [("table", "silver.trips")], [("source", "silver.trips")]


@pytest.mark.parametrize(
    ("act", "damages"),
    [
        (tear, {"silver": SILVER, "gold": GOLD}),
        (empty, {"silver": SILVER, "gold": GOLD}),
        (lose_middle, {"silver": SILVER, "gold": GOLD}),
        (lose_newest, {"silver": SILVER, "gold": GOLD}),
        (leave_checksum, {"silver": SILVER, "gold": GOLD}),
        (lose_log, {"silver": SILVER, "gold": GOLD}),
        (lose_table, {"silver": SILVER, "gold": GOLD}),
        (name_lost_checkpoint, {"silver": SILVER}),
        (restore_silver, {"silver": SILVER}),
        (restore_bronze, {"bronze": [("table", "bronze.trips")], "silver": [("source", "bronze.trips")]}),
        (tear_offsets, {"silver": [("checkpoint", "checkpoint v1/0")]}),
        (lose_files_of_stream, {"bronze": [("checkpoint", "checkpoint v1/0")]}),
    ],
)
def test_each_flow_is_damaged_by_what_it_knows_itself(
    project: SampleProject, act: Callable[[SampleProject], None], damages: dict[str, list[tuple[str, str]]]
) -> None:
    prepare(project)
    assert damaged(project) == {}
    act(project)
    assert damaged(project) == damages


def test_the_log_is_usable_again_up_to_its_last_readable_version(project: SampleProject) -> None:
    prepare(project)
    path = project.layout.table("silver.trips")
    lose_middle(project)
    (path / "_delta_log" / f".{2:020d}.json.crc").put(b"")
    assert delta_history.readable_version(path) == 0
    unusable = delta_history.unusable_files(path, 0)
    assert {file.name for file in unusable} == {f"{2:020d}.json", f".{2:020d}.json.crc"}
    for file in unusable:
        file.delete()
    assert damage.cut_off(path) == ""


def test_a_flow_that_has_not_read_what_is_lost_follows_what_comes_instead(project: SampleProject) -> None:
    prepare(project)
    place = places.current(project.layout, TRIPS, TRIPS.flow("gold"))
    path = project.layout.table("silver.trips")
    positions = {path.key: delta_history.position(path, 1)}
    history.write(place, batch=0, positions=positions)
    project.checkpoint("gold").run(0, delta_offset(2))
    lose_newest(project)
    assert set(damaged(project)) == {"silver"}
    assert [each.step.action for each in planned(project).steps] == ["derive again", "follow"]


def test_files_that_bronze_has_lost_and_that_are_not_landed_any_more_are_named(project: SampleProject) -> None:
    prepare(project)
    shutil.rmtree(project.layout.table("bronze.trips"))
    assert planned(project).losses == ()
    (project.landing / "b.csv").delete()
    ((pipeline, loss),) = planned(project).losses
    assert (pipeline, loss.flow, loss.number, loss.acceptance) == ("trips", "bronze", 1, "bronze:lost=1")
    assert loss.what == "1 file of trips, removed or changed since: b.csv"
    assert accepting_flow(loss.acceptance) == "bronze"


def test_the_checkpoint_of_a_landing_flow_alone_loses_nothing(project: SampleProject) -> None:
    prepare(project)
    (project.landing / "b.csv").delete()
    lose_files_of_stream(project)
    assert [each.step.action for each in planned(project).steps] == ["read again", "follow", "follow"]
    assert planned(project).losses == ()


def test_a_plan_says_what_is_damaged_what_is_done_and_what_is_lost_in_this_order(project: SampleProject) -> None:
    prepare(project)
    shutil.rmtree(project.layout.table("bronze.trips"))
    (project.landing / "b.csv").delete()
    lines = planned(project).lines()
    assert [line.partition(":")[0] for line in lines] == [
        *["damaged"] * 2,
        *("1. trips/bronze", "2. trips/silver", "3. trips/gold"),
        "lost",
    ]
    assert lines[0] == "damaged: trips/bronze: bronze.trips: it has no log any more"
    assert "1 of 1 landed file, those that are not in bronze" in lines[2]
    assert lines[4].endswith("an increment (it reads what silver.trips gets); no history to estimate from")


def test_losses_without_damage_are_none(project: SampleProject) -> None:
    prepare(project)
    (project.landing / "b.csv").delete()
    for each in resolved(TRIPS, project.environment.project).flows:
        assert losses.of_flow(project.layout, project.environment.cluster, each, ()) is None


def test_rows_of_earlier_changes_of_a_keyed_table_are_lost_with_the_table_that_had_them(project: SampleProject) -> None:
    import pyarrow
    from deltalake import write_deltalake

    log = Flow(name="log", source=ChangeFeed("silver.trips"), transform="flights:clean", target=Table("silver.log"))
    pipeline = replace(TRIPS, flows=(*TRIPS.flows, log))
    write_deltalake(str(project.layout.table("silver.trips")), pyarrow.table({"id": [1, 2]}))
    line = LedgerLine(flow="log", kind="append", app_id="trips/log/v1/0", batch_id=0, read=5, written=5)
    ledger.record(PipelinePlace(project.layout, "trips"), line, ledger.RunOrigin())
    flow = resolved(pipeline, project.environment.project).flow("log")
    lost = Damage(kind="table", pipeline="trips", flow="log", what="silver.log", cause="is gone")
    loss = losses.of_flow(project.layout, project.environment.cluster, flow, (lost,))
    assert loss is not None
    assert (loss.number, loss.acceptance) == (3, "log:lost=3")
    assert loss.what == "about 3 rows of earlier changes of silver.trips, of which that table has only the newest rows"
