"""How much of the platform a job loads: its own process imports what its flows need, and nothing of other kinds and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.deployment import Deployment
from tests.waiting import TIMEOUT_SECONDS
from tidegate.processes import end_group
from tidegate.requests import launch

COUNTED = """\
    code = main()
    import json, pathlib
    names = sorted(name for name in sys.modules if name.partition(".")[0] == "tidegate")
    pathlib.Path({path!r}).write_text(json.dumps(names))
    exit_now(code)
"""
MOST = 150
"""Of these about 45 declare what the pipelines of the project have: kinds of flow and of source, settings, errors."""
FLIGHT = """\
year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance,\
hour,minute,time_hour,published_on
2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z,2013-01-02T00:00:00Z
"""


@pytest.mark.live
@pytest.mark.jvm
def test_an_increment_of_one_csv_file_loads_what_it_needs(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application, loaded = tmp_path / "run_pipeline.py", tmp_path / "modules.json"
    source = launch.application().read_text()
    monkeypatch.setattr(launch, "application", lambda: application)
    assert "    exit_now(main())\n" in source
    application.write_text(source.replace("    exit_now(main())\n", COUNTED.format(path=str(loaded))))
    deployment.land("2013-01-01.csv", FLIGHT)
    request, log = deployment.request(flows=["bronze"]), tmp_path / "driver.log"
    driver = launch.start(deployment.environment, request, request.write(deployment.layout), "a1", log)
    try:
        assert driver.wait(TIMEOUT_SECONDS) == 0, log.read_text()[-3000:]
    finally:
        end_group(driver.pid, grace=0)

    names = json.loads(loaded.read_text())
    assert len(deployment.rows(deployment.layout.table("bronze.flights"))) == 1
    unneeded = (
        "kinds.messages.run",
        "sources.topics.measure",
        "probes.kafka",
        "spark.gate",
        "spark.derivation",
        "spark.batch.groups",
    )
    assert set(names).isdisjoint(f"tidegate.{name}" for name in unneeded)
    assert len(names) <= MOST, " ".join(names)
