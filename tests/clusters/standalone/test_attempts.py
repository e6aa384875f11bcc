"""Tasks of which Spark starts a second attempt, and executors that come and go with the tasks, on a real standalone cluster."""

from __future__ import annotations

import contextlib
import functools
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clusters.kinds import Kinds, end_of
from tests.standalone import Cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]

OF_ONE_TASK = ("events", "history", "items", "log")
"""Flows that evaluate the rows of one file: the other executor is free for a second attempt."""


def conf(folder: Path, settings: Mapping[str, str]) -> str:
    """A folder with these settings of Spark."""
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return str(folder)


def both_attempt(kinds: Kinds, flow: str, run: subprocess.Popen[str]) -> bool:
    """Whether both executors work for a flow, or the run has ended."""
    return run.poll() is not None or len({note.cwd for note in kinds.noted(flow)}) > 1


def test_a_row_is_there_once_if_both_attempts_at_a_task_end(kinds: Kinds, tmp_path: Path) -> None:
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.task.duration.threshold": "2s",
    }
    kinds.land(parts=1)
    with contextlib.ExitStack() as stack:
        holds = {flow: stack.enter_context(contextlib.ExitStack()) for flow in OF_ONE_TASK}
        for flow, hold in holds.items():
            hold.enter_context(kinds.pausing(flow))
        run = kinds.start(SPARK_CONF_DIR=conf(tmp_path / "conf", speculation))
        for flow, hold in holds.items():
            wait_until(
                functools.partial(both_attempt, kinds, flow, run), f"both executors attempt the task of the flow {flow}"
            )
            assert run.poll() is None, end_of(run)
            hold.close()
    end_of(run)
    assert kinds.differences(["1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")


def test_no_row_is_lost_if_executors_come_and_go_with_the_tasks(kinds: Kinds, cluster: Cluster, tmp_path: Path) -> None:
    short = {
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.cachedExecutorIdleTimeout": "1s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    }
    kinds.land()
    variables = {"TIDEGATE_DYNAMIC": "true", "SPARK_CONF_DIR": conf(tmp_path / "conf", short)}
    end_of(kinds.start("events_files", "events", "log", "running", **variables))
    started = cluster.log.count("Launching executor")
    assert started > 3, f"{started} executors of a run: none came and went"
    assert kinds.differences(["1"], "bronze.events", "silver.events", "silver.log", "gold.running") == []
