"""A run whose driver is on a cluster holds no slot of a worker, and is waited for by whichever scheduler and triggerer there are.

Where `make cluster-servers` has put no servers of YARN into the cache, nothing is run.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live_airflow import Live
from tests.waiting import wait_until
from tests.yarn import yarn

pytestmark = [
    pytest.mark.live,
    pytest.mark.jvm,
    pytest.mark.kafka,
    pytest.mark.airflow,
    pytest.mark.nightly,
    pytest.mark.timeout(2400),
]


def test_a_run_on_yarn_holds_no_slot_while_scheduler_and_triggerer_are_killed(tmp_path: Path) -> None:
    with yarn(tmp_path / "cluster") as cluster:
        connection = {
            "conn_type": "spark",
            "host": "yarn",
            "extra": {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": cluster.web},
        }
        # A node has little memory.
        own = {"TIDEGATE_DRIVER_MEMORY": "1g", "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}
        live = Live(tmp_path / "project", refusing=False, variables={**cluster.variables, **own})
        try:
            live.up()
            with live.silver_paused():
                run = live.trigger()
                live.wait_for_silver(run)
                assert live.states(run)["run"] == "deferred"
                # Other DAGs have tasks now and then.
                wait_until(lambda: live.slots() == (0, 1), "no task holds a slot, and one is deferred")
                assert live.applications() == []
                for name in ("scheduler", "triggerer"):
                    live.console.kill(name)
                for name in ("scheduler", "triggerer"):
                    wait_until(lambda name=name: live.console.is_running(name), f"the watch starts {name} again")  # type: ignore[misc]
                wait_until(live.server.healthy, "all components are healthy")
                assert live.states(run)["run"] == "deferred"
            states = live.end(run)
            assert states == dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
            assert live.tasks(run)["run"].try_number == 1
            assert list(cluster.applications().values()) == ["FINISHED"]
        finally:
            live.console.remove()
