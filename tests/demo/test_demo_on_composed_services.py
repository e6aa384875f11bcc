"""The demo on the services of `docker-compose.yaml`, as processes, while a broker and a worker are killed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo import clicks_feed
from tests.canaries import contains_any, files_containing
from tests.composed import BROKERS, HISTORY, PROJECT, TEXT, Composed, composed
from tests.postgres import Postgres, postgres
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.environment import Environment

pytestmark = [
    *(pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.chaos),
    pytest.mark.timeout(3600),
]

SECRETS = {
    name: f"canary-{name.lower().replace('_', '-')}-5d27"
    for name in ("POSTGRES_PASSWORD", "AIRFLOW_JWT_SECRET", "KAFKA_PASSWORD", "S3_SECRET_KEY")
}
APPLICATIONS = {"flights": 2, "clickstream": 2, "delays": 2, "payments": 2}
"""How many of them the demo starts of each pipeline; in wave 4 none."""
POLL_SECONDS = 0.5


@dataclass
class Demo:
    """A running demo, and what it and its services have printed."""

    services: Composed
    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def output(self) -> str:
        """What it has printed."""
        return self.services.log("demo").read_text()

    @property
    def log(self) -> str:
        """What Airflow and drivers have printed."""
        return (self.folder / "demo.log").read_text()

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Wait while it runs: it ends this wait, too."""
        while not condition():
            assert self.process.poll() is None, f"it ended before {what}: {self.output}{self.log[-6000:]}"
            time.sleep(POLL_SECONDS)

    def busy(self, worker: str, pipeline: str = "") -> list[Path]:
        """The folders of a worker's executors that have started tasks of an application that still runs."""
        master = self.services.log("spark-master").read_text()
        wanted = {
            application
            for name, application in re.findall(r"Registered app tidegate\W(\w+).* with ID (\S+)", master)
            if pipeline in ("", name) and f"Removing app {application}" not in master
        }
        logs = (self.services.folder / "work" / worker).glob("*/*/stderr")
        return [log.parent for log in logs if log.parts[-3] in wanted and "Running task" in log.read_text()]


@pytest.fixture
def database() -> Iterator[Postgres]:
    """As its image makes it, with the user and the password of the file."""
    with postgres("airflow", SECRETS["POSTGRES_PASSWORD"]) as server:
        yield server


@pytest.fixture
def services(database: Postgres, tmp_path: Path) -> Iterator[Composed]:
    """All but Airflow's own processes, ready."""
    import psycopg

    with psycopg.connect(database.address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE airflow")
    with composed(tmp_path / "services", **SECRETS) as made:
        made.ports["postgres:5432"] = database.port
        made.certify()
        for name in BROKERS:
            made.start_broker(name)
        made.complete("kafka-users")
        made.complete("buckets")
        made.start("object-store")
        made.start_spark()
        made.complete("airflow-init")
        made.complete("airflow-dag-processor", "--num-runs", "1")
        yield made


def test_all_checks_pass_while_a_broker_and_a_worker_are_killed(
    services: Composed, database: Postgres, tmp_path: Path
) -> None:
    demo = start(services, tmp_path / "demo")
    workers = ("spark-worker-1", "spark-worker-2")

    demo.wait_for(lambda: any(demo.busy(each, "clickstream") for each in workers), "clicks are read")
    before = leaders(services)
    assert set(before.values()) == {1, 2, 3} and "Wave 2" not in demo.output
    services.kill("kafka-1")
    wait_until(lambda: set(leaders(services).values()) == {2, 3}, "the partitions have other leaders")

    demo.wait_for(lambda: "Wave 2" in demo.output and demo.busy("spark-worker-1"), "wave 2 is computed")
    (executor, *_) = demo.busy("spark-worker-1")
    services.kill("spark-worker-1")
    demo.wait_for(lambda: "Lost executor" in demo.log, "the driver misses the executor")
    wait_until(lambda: "Removing worker" in services.log("spark-master").read_text(), "the master misses the worker")
    assert "Wave 3" not in demo.output, executor

    demo.process.wait()
    output = demo.output
    assert demo.process.returncode == 0, output + demo.log[-6000:]
    assert output.count("no JVM was started") == 4, "in wave 4 all pipelines end in `plan`"
    assert output.count("✔") >= 20 and "✘" not in output, output
    for name in ("kafka-1", "spark-worker-1"):
        assert services.processes[name].returncode == -9
    assert list((services.folder / "work/spark-worker-2").glob("*/*/stderr"))
    wait_until(lambda: applications(services) == APPLICATIONS, "the history server lists the applications")

    secret_files = [services.folder / "secrets", services.folder / "certificates"]
    assert files_containing(tmp_path, SECRETS.values(), excluding=secret_files) == set()
    assert not contains_any(database.log, SECRETS.values())


def start(services: Composed, folder: Path) -> Demo:
    """Start the demo by the command of the file's header, in a folder."""
    (line,) = re.findall(r"docker compose exec (.+--services environment.*)", TEXT)
    words = shlex.split(line)
    variables = {}
    while words[0] == "--env":
        name, _, value = words[1].partition("=")
        variables[name], words = value, words[2:]
    service, python, *arguments = words
    assert python == "python"
    environment = {**services.environment(service), **variables}
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].startswith("postgresql")
    command = [python, *arguments, "--folder", str(folder)]
    with services.log("demo").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True
        )
    services.processes["demo"] = process
    return Demo(services, process, folder)


def leaders(services: Composed) -> dict[int, int]:
    """The leader of each partition of the clicks, as the brokers name it to a client."""
    from confluent_kafka.admin import AdminClient

    cluster = Environment.read(services.environment("airflow-scheduler")).cluster("default")
    topics = AdminClient({**cluster.librdkafka(), "log_level": 0}).list_topics(timeout=TIMEOUT_SECONDS).topics
    return {number: each.leader for number, each in topics[clicks_feed.TOPIC].partitions.items()}


def applications(services: Composed) -> dict[str, int]:
    """How many applications of each pipeline the history server lists."""
    url = f"http://127.0.0.1:{services.port(HISTORY)}/api/v1/applications"
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        names = [each["name"] for each in json.load(answer)]
    return dict(Counter(re.split(r"\W", name)[1] for name in names))
