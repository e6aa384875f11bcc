"""A poison file and a flow that is switched off stop nobody else, and nothing is lost."""

from __future__ import annotations

import json

import pytest

from tests.deployment import Deployment
from tidegate import registry
from tidegate.checkpoints import checkpoint, intervention

pytestmark = pytest.mark.jvm


def test_a_skipped_file_is_set_aside_unopened_and_a_flow_that_is_off_waits(deployment: Deployment) -> None:
    header = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_delay,carrier,flight,origin,dest,time_hour\n"
    deployment.land("good.csv", header)
    poison = deployment.land("poison.csv", header)
    layout, pipeline = deployment.layout, registry.load("flights")
    bronze = pipeline.flow("bronze")
    ref = checkpoint.current(layout, pipeline, bronze)
    intervention.skip(layout, bronze, ref, "poison.csv", by="ada", reason="brings the driver down")
    intervention.switch(layout, "flights", "silver", on=False, by="ada", reason="its suite is being mended")
    # Nobody may read it: not even its bytes.
    poison.write_bytes(b"\xff" * 10)

    report = deployment.run()

    assert [(flow.flow, flow.state) for flow in report.flows] == [
        ("bronze", "done"),
        ("silver", "skipped"),
        ("gold", "idle"),
    ]
    assert report.flow("silver").notes[-1].endswith("its suite is being mended")
    (entry,) = deployment.quarantined("bronze").to_pylist()
    source = json.loads(entry["source"])
    assert (entry["level"], entry["rules"]) == ("file", ["skipped_file"])
    assert (source["path"], source["sha256"]) == (str(poison), "")
    intervention.switch(layout, "flights", "silver", on=True, by="ada", reason="it is mended")
    assert deployment.run().flow("silver").state in ("done", "idle")
    assert deployment.quarantined("bronze").num_rows == 1
