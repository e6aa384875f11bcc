"""A pipeline with every kind of flow on a real standalone cluster, of which parts are killed: executors, a worker, the driver, the master.

A master and two workers, all on loopback; lake and landing zone are in a bucket. `tests/airflow/test_cluster.py` has what executors lack.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.kinds import MARKED, PROJECT, Kinds, Note, driver_of, end_of
from tests.slices import of_week
from tests.standalone import Cluster, kill_executor, standalone_cluster
from tests.waiting import wait_until
from tidegate.errors import EX_SOFTWARE, EX_TEMPFAIL
from tidegate.requests import launch
from tidegate.requests.request import fresh_id

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]

DRIVER = Path(__file__).with_name("struck_driver.py")
FLOWS = (*MARKED, "events_files", "names_files", "names", "prices_files", "prices", "messages", "sent")
STEPS = tuple(
    f"{when}:{step}"
    for step in ("split_batch", "write_quarantine", "write_target", "record_batch")
    for when in ("before", "after")
)


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two workers, and a master that remembers applications when it is started again, unless the parameter is ``NONE``."""
    (tmp_path / "cluster").mkdir()
    mode = getattr(request, "param", "FILESYSTEM")
    recovery = f"-Dspark.deploy.recoveryMode={mode} -Dspark.deploy.recoveryDirectory={tmp_path}/cluster/recovery"
    with standalone_cluster(tmp_path / "cluster", SPARK_DAEMON_JAVA_OPTS=recovery) as made:
        yield made


def test_an_executor_is_killed_while_it_works_for_each_flow(kinds: Kinds, cluster: Cluster) -> None:
    kinds.land()
    killed: list[int] = []
    with contextlib.ExitStack() as stack:
        holds = {flow: stack.enter_context(contextlib.ExitStack()) for flow in MARKED}
        for flow, hold in holds.items():
            hold.enter_context(kinds.pausing(flow))
        run = kinds.start()
        while holds:
            wait_until(lambda: run.poll() is not None or _waiting(kinds, holds) is not None, "an executor works")
            note = _waiting(kinds, holds)
            assert note is not None, end_of(run)
            executor = cluster.executor_in(note.cwd)
            kill_executor(executor)
            killed.append(executor.pid)
            holds.pop(note.flow).close()
    end_of(run)
    lost = [line for line in kinds.log().splitlines() if "Lost executor" in line]
    assert len(lost) >= len(set(killed)) == len(MARKED), lost
    assert kinds.differences(["1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")


def _waiting(kinds: Kinds, holds: dict[str, contextlib.ExitStack]) -> Note | None:
    """A process that waits in one of the flows that are held."""
    return next((note for note in kinds.noted() if note.flow in holds), None)


def test_an_executor_is_killed_at_steps_of_every_flow(kinds: Kinds, cluster: Cluster, tmp_path: Path) -> None:
    """Two of the steps a night, all of them within a month."""
    struck = tmp_path / "struck"
    for number, step in enumerate(of_week(STEPS, 2), start=1):
        kinds.land()
        output = run_struck(kinds, [f"{step}:{flow}" for flow in FLOWS], struck)
        assert kinds.differences(["1"] * number) == [], output
        lines = [line.split() for line in struck.read_text().splitlines()]
        assert Counter(flow.rpartition(":")[2] for flow, _ in lines) == Counter(FLOWS), lines
        assert len({pid for _, pid in lines}) == len(FLOWS), lines
        struck.unlink()
    kinds.deployment.expect_a_balanced_ledger("kinds")


def run_struck(kinds: Kinds, strikes: list[str], struck: Path) -> str:
    """Run the pipeline with a kill at each of some steps, and return the log of the driver."""
    environment = kinds.deployment.environment
    request = kinds.request()
    command = launch.command(environment, request, request.write(kinds.deployment.layout), fresh_id("a"))
    command[command.index(str(launch.application()))] = str(DRIVER)
    variables = {**os.environ, **launch.submit_environment(environment)}
    variables["PYTHONPATH"] += f"{os.pathsep}{PROJECT}"
    result = subprocess.run(
        command,
        env={**variables, "STRIKES": " ".join(strikes), "STRUCK": str(struck)},
        cwd=kinds.deployment.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-8000:]
    return result.stdout


def test_a_worker_is_lost_the_driver_is_killed_and_the_master_is_started_again(kinds: Kinds, cluster: Cluster) -> None:
    kinds.land()
    with kinds.pausing("events"):
        run = kinds.start()
        cluster.lose_worker_of(cluster.executor_in(kinds.wait_for("events", run).cwd))
    end_of(run)
    assert "Lost executor" in kinds.log()
    assert kinds.differences(["1"]) == []

    kinds.forget()
    kinds.land()
    with kinds.pausing("history"):
        run = kinds.start()
        kinds.wait_for("history", run)
        driver_of(run).kill()
        assert "the job crashed" in end_of(run, exit_code=EX_SOFTWARE)
    kinds.run()
    assert kinds.differences(["1", "1"]) == []

    kinds.forget()
    kinds.land()
    with kinds.pausing("items"):
        run = kinds.start()
        kinds.wait_for("items", run)
        cluster.restart_master()
    end_of(run)
    assert kinds.differences(["1", "1", "1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")


def test_a_run_without_room_on_the_cluster_ends_as_transient(kinds: Kinds) -> None:
    kinds.land()
    run = kinds.start(TIDEGATE_EXECUTOR_MEMORY="4g", TIDEGATE_EXECUTOR_WAIT="10")
    assert "the cluster has given the run no executor for 10 seconds" in end_of(run, exit_code=EX_TEMPFAIL)
    kinds.run()
    assert kinds.differences(["1"]) == []


@pytest.mark.parametrize("cluster", ["NONE"], indirect=True)
def test_a_run_that_its_master_has_forgotten_ends_as_transient(kinds: Kinds, cluster: Cluster) -> None:
    kinds.land()
    with kinds.pausing("items"):
        run = kinds.start(TIDEGATE_EXECUTOR_WAIT="10")
        kinds.wait_for("items", run)
        cluster.restart_master()
        killed = "finished with state KILLED"
        wait_until(
            lambda: cluster.log.count(killed) == 2, "the workers end the executors, which the master does not know"
        )
    assert "the cluster has given the run no executor for 10 seconds" in end_of(run, exit_code=EX_TEMPFAIL)
    kinds.run()
    assert kinds.differences(["1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")
