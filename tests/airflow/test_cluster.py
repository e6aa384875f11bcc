"""Pipelines on a real Spark standalone cluster: a master and two workers, all on loopback.

Nightly, because each run needs five JVMs. The settings of a cluster are tested per merge in tests/requests/test_launch.py.
The executors have Java, Spark, and a Python with only what the guide lists: neither this project nor the platform, and no credentials.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from demo import checks, flights_feed, recompute
from devstack.ports import LOOPBACK
from pipelines.flights import pipeline
from tests.canaries import files_containing
from tests.deployment import Deployment
from tests.s3_server import REGION, S3Process
from tests.spark.driver.pythons import of_another_version
from tests.standalone import Cluster, executor_python, standalone_cluster
from tests.store.buckets import upload
from tests.store.identities import IdentityProxy
from tests.store.token_endpoint import TokenEndpoint
from tidegate.errors import MachineUnavailableError, MissingJavaError, SetupError
from tidegate.lake.layout import Layout

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.timeout(1800)]

PROJECT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "tidegate"
MARKED = """

def where(text):
    return f"{VERSION} {__file__}"


_clean = clean


def clean(rows: DataFrame) -> DataFrame:
    return _clean(rows).withColumn("dest", F.udf(where, "string")("dest"))
"""

CHANGES = r"""

VERSION = "old"
if __file__.endswith("/project/spark_jobs/flights.py"):
    with open(__file__) as module:
        text = module.read()
    with open(__file__, "w") as module:
        module.write(text.partition("\nVERSION")[0] + "\nVERSION = 'changed'\n")
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two workers. On the path of their executors is an old version of the project, which they must not import."""
    with standalone_cluster(tmp_path) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Deployment:
    """The flights of one day, and a transform with a function of its module that executors call."""
    local = Deployment.make(tmp_path, PROJECT)
    for name in ("pipelines", "spark_jobs"):
        shutil.copytree(PROJECT / name, tmp_path / "project" / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "project/spark_jobs/flights.py").open("a") as module:
        module.write(MARKED)
    return local


def flights_of(day: int) -> Sequence[flights_feed.Record]:
    """Twenty flights of a day of January."""
    return flights_feed.days()[date(2013, 1, day)][:20]


def land(deployment: Deployment, day: int) -> None:
    """Land `flights_of` a day in a bucket."""
    records = flights_of(day)
    name = f"2013-01-{day:02}.csv"
    upload_folder = deployment.folder / f"day-{day}"
    flights_feed.land(upload_folder / flights_feed.FOLDER, name, flights_feed.as_csv(records), len(records))
    upload(upload_folder, deployment.layout.landing_root)


def run(deployment: Deployment, exit_code: int = 0, **variables: str) -> str:
    """What a run prints."""
    result = subprocess.run(
        [COMMAND, "run", "flights", "--flow", "bronze", "--flow", "silver"],
        env={**os.environ, **deployment.environment.variables(), **variables},
        cwd=deployment.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == exit_code, result.stdout
    return result.stdout


def test_executors_get_code_and_source_of_credentials_from_the_driver_and_a_run_says_what_they_lack(
    cluster: Cluster,
    project: Deployment,
    s3_server: S3Process,
    endpoint: TokenEndpoint,
    identity_proxy: IdentityProxy,
    tmp_path: Path,
    no_settings: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "secret").mkdir()
    variables = {
        "AWS_ENDPOINT_URL_S3": identity_proxy.endpoint,
        "AWS_REGION": REGION,
        **endpoint.variables("container", tmp_path / "secret"),
        "TIDEGATE_S3_CREDENTIALS": "container",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    bucket = f"s3://{s3_server.new_bucket()}"
    deployment = Deployment.of(
        tmp_path,
        PROJECT,
        **variables,
        TIDEGATE_LAKE=f"{bucket}/lake",
        TIDEGATE_LANDING=f"{bucket}/landing",
        TIDEGATE_MASTER=cluster.master,
        TIDEGATE_EXECUTOR_PYTHON=str(executor_python(tmp_path / "executors")),
    )
    land(deployment, day=1)

    other = of_another_version(tmp_path / "other")
    output = run(deployment, exit_code=SetupError.exit_code, TIDEGATE_EXECUTOR_PYTHON=str(other))
    assert "flow 'bronze': the executor on 127.0.0.1 has Python 3.99, and the driver has Python 3." in output

    home = (tmp_path / "java").readlink()
    (tmp_path / "java").unlink()
    output = run(deployment, exit_code=MissingJavaError.exit_code)
    assert f"the worker on 127.0.0.1 cannot run {tmp_path}/java/bin/java" in output
    (tmp_path / "java").symlink_to(home)

    # The driver edits the transform when it imports it: the executors have what it was.
    module = tmp_path / "project/spark_jobs/flights.py"
    module.write_text(module.read_text() + CHANGES)
    output = run(deployment, exit_code=MachineUnavailableError.exit_code)
    assert "bronze: done" in output
    assert "flow 'silver': the code of the project has changed since" in output
    assert module.read_text().endswith("VERSION = 'changed'\n")

    assert "silver: done" in run(deployment)
    rows = deployment.table("silver.flights").select(["flight", "dest"]).to_pylist()
    assert sorted(row["flight"] for row in rows) == sorted(int(each["flight"]) for each in flights_of(day=1))
    for row in rows:
        version, file = row["dest"].split(" ")
        assert version == "changed"
        assert Path(file).is_relative_to(tmp_path / "work"), "executors import the archive of their application"
    agents = {each.agent for each in identity_proxy.signed}
    assert identity_proxy.identities() == {"container"}
    assert any("object_store" in agent for agent in agents) and any("aws-sdk-java" in agent for agent in agents)
    texts = {*endpoint.texts(), "canary-authorization"}
    assert files_containing(tmp_path / "work", texts) == set()
    assert [text for text in texts if text in cluster.log] == []


@pytest.mark.airflow
def test_a_dag_runs_on_both_workers_and_listens_on_loopback_only(
    runs: Any, project_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    from dags.flights import dag

    connection = {"conn_type": "spark", "host": cluster.master, "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    for day in (1, 2):
        flights_feed.land_day(Path(layout.landing_root), date(2013, 1, day))
    run = runs.start(dag)
    assert runs.states(run) == dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
    with contextlib.closing(recompute.flights(Path(layout.landing_root))) as answer:
        compared = [checks.balance(layout, pipeline), *checks.exactly_once(layout, pipeline, answer)]
    assert [check for check in compared if not check.passed] == []
    for name in ("one", "two"):
        (log,) = (tmp_path / "work" / name).glob("app-*/*/stderr")
        assert "Finished task" in log.read_text(), "the worker did some of the work"
    addresses = {
        cast(Any, connection.laddr).ip.removeprefix("::ffff:")
        for connection in psutil.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.pid and _is_of(connection.pid, cluster.master)
    }
    assert addresses == {LOOPBACK}


def _is_of(pid: int, master: str) -> bool:
    """Whether a process is the master, a worker or an executor of the cluster."""
    with contextlib.suppress(psutil.Error):
        words = psutil.Process(pid).cmdline()
        return master in words or master.rpartition(":")[2] in words
    return False
