"""A run without new data reads almost nothing, also if the lake has many batches with small files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from deltalake import DeltaTable

from tests.airflow.in_process import EventsByAsset, InProcessRun
from tests.airflow.lake import Lake
from tests.cli.project import Checkpoint, append
from tests.spark_files import delta_offset
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace, Place

pytestmark = pytest.mark.airflow

BATCHES = 34
"""Per flow; with three flows, a hundred ledger lines, each in its own file."""


@pytest.fixture
def long_lake(project_dir: Path) -> Lake:
    """A lake whose flows are up to date after many batches."""
    (project_dir / ".data/landing/flights").mkdir(parents=True)
    lake = Lake(Layout.local(project_dir / ".data/lake", project_dir / ".data/landing"))
    lake.layout.open()
    lake.begin("flights")
    for flow in ("bronze", "silver"):
        lake.batch("flights", flow, 0, read=10, written=10, target_version=0)
    lake.batch("flights", "gold", 0, read=10, groups=4, upserted=4, target_version=0)
    _lengthen(Path(PipelinePlace(lake.layout, "flights").ops("ledger")))
    bronze, silver, gold = (
        Checkpoint(Path(Place(lake.layout, "flights", flow, 1, 0).checkpoint)) for flow in ("bronze", "silver", "gold")
    )
    ids = {name: append(lake.layout.table(name), [{"id": 1}]) for name in ("bronze.flights", "silver.flights")}
    for number in range(BATCHES):
        bronze.listed(number, lake.land(f"flights/{number}.csv", "year,month,day\n2013,1,1\n"))
        bronze.plan(number, {"logOffset": number}).commit(number)
        silver.plan(number, delta_offset(1, table_id=ids["bronze.flights"])).commit(number)
        gold.plan(number, delta_offset(1, table_id=ids["silver.flights"])).commit(number)
    for each in (bronze, silver, gold):
        (each.folder / "metadata").write_text('{"id":"0b7e6f0e-6d5a-4a55-9a35-0d8a9b5b6c11"}')
    return lake


def _lengthen(ledger: Path) -> None:
    """Add the lines of all later batches, one commit and one file each, as jobs do, but faster."""
    first = DeltaTable(str(ledger))
    version = first.version()
    lines = [pyarrow.parquet.read_table(path) for path in sorted(ledger.glob("*.parquet"))]
    for number in range(1, BATCHES):
        for line in lines:
            version += 1
            changed = line
            for name in ("batch_id", "target_version"):
                value = pyarrow.array([number], line.schema.field(name).type)
                changed = changed.set_column(line.schema.get_field_index(name), line.schema.field(name), value)
            path = ledger / f"{version}.parquet"
            pyarrow.parquet.write_table(changed, path)
            bounds = {"flow": line["flow"][0].as_py(), "target_version": number}
            added = {
                "path": path.name,
                "partitionValues": {},
                "size": path.stat().st_size,
                "modificationTime": number,
                "dataChange": True,
                "stats": json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {}}),
            }
            (ledger / f"_delta_log/{version:020d}.json").write_text(json.dumps({"add": added}) + "\n")
    # Writers create a checkpoint after every hundred commits.
    DeltaTable(str(ledger)).create_checkpoint()


def test_a_run_without_new_data_opens_no_file_of_a_long_ledger(
    long_lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    from dags.flights import dag

    ledger = PipelinePlace(long_lake.layout, "flights").ops("ledger")
    assert len(DeltaTable(str(ledger)).file_uris()) == 3 * BATCHES
    events: EventsByAsset = {}
    assert InProcessRun(dag, events=events).execute("plan") == "short circuit"
    assert "Sent the missing Asset event for new rows in silver.flights" in capsys.readouterr().out
    (event,) = events["silver.flights"]
    assert event["rows"] == 10 * BATCHES

    # Files that the last event covers are skipped by the statistics in the Delta log.
    for path in Path(ledger).glob("*.parquet"):
        path.unlink()
    run = InProcessRun(dag, events=events)
    assert run.execute("plan") == "short circuit"
    assert "nothing new in flights" in run.xcom("plan", "reason")
    assert len(events["silver.flights"]) == 1
