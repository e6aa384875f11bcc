"""A skipped file and a flow that is switched off do not stop other files and flows, and no data is lost."""

from __future__ import annotations

import json

import pytest

from tests import places
from tests.deployment import Deployment
from tidegate.checkpoints import overrides
from tidegate.lake.place import FlowPlace
from tidegate.project import registry

pytestmark = pytest.mark.jvm


def test_a_skipped_file_is_quarantined_unread_and_a_flow_that_is_switched_off_is_skipped(
    deployment: Deployment,
) -> None:
    header = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_delay,carrier,flight,origin,dest,time_hour\n"
    deployment.land("good.csv", header)
    poison = deployment.land("poison.csv", header)
    layout, pipeline = deployment.layout, registry.load("flights")
    bronze = pipeline.flow("bronze")
    place = places.current(layout, pipeline, bronze)
    overrides.skip(place, bronze, "poison.csv", by="ada", reason="crashes the driver")
    overrides.switch(FlowPlace(layout, "flights", "silver"), on=False, by="ada", reason="its suite is being fixed")
    # The bytes are not UTF-8: reading the file would be another rule.
    poison.write_bytes(b"\xff" * 10)

    report = deployment.run()

    assert [(flow.flow, flow.state) for flow in report.flows] == [
        ("bronze", "done"),
        ("silver", "skipped"),
        ("gold", "idle"),
    ]
    assert report.flow("silver").notes[-1].endswith("its suite is being fixed")
    (entry,) = deployment.quarantined("bronze").to_pylist()
    source = json.loads(entry["source"])
    assert (entry["level"], entry["rules"]) == ("file", ["skipped_file"])
    assert (source["path"], source["sha256"]) == (str(poison), "")
    overrides.switch(FlowPlace(layout, "flights", "silver"), on=True, by="ada", reason="it is fixed")
    assert deployment.run().flow("silver").state in ("done", "idle")
    assert deployment.quarantined("bronze").num_rows == 1
