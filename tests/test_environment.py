"""Locations and limits come only from environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.environment import Environment
from tidegate.errors import SetupError
from tidegate.lake import read_once
from tidegate.lake.layout import Layout

PROJECT = Path(__file__).parents[1]


def test_without_variables_all_paths_are_in_the_project() -> None:
    read = Environment.read({})
    assert (read.project, read.lake, read.landing) == (PROJECT, PROJECT / ".data/lake", PROJECT / ".data/landing")
    assert (read.kafka, read.master, read.driver_memory) == ("127.0.0.1:9092", "local[2]", "2g")


def test_every_variable_is_read_and_passed_to_a_child_process(tmp_path: Path) -> None:
    variables = {
        "TIDEGATE_PROJECT": str(tmp_path / "p"),
        "TIDEGATE_LAKE": str(tmp_path / "lake"),
        "TIDEGATE_LANDING": "file://" + str(tmp_path / "in"),
        "TIDEGATE_KAFKA": "kafka:9092",
        "TIDEGATE_REGISTRY": "http://registry:8081",
        "TIDEGATE_MASTER": "spark://box:7077",
        "TIDEGATE_DRIVER_MEMORY": "4g",
        "TIDEGATE_CONNECTION": "spark_night",
        "TIDEGATE_POOL": "spark",
        "TIDEGATE_JOB_PYTHON": "/opt/jobs/bin/python",
        "TIDEGATE_SPARK_HISTORY": "http://spark:18080",
    }
    read = Environment.read(variables)
    assert (read.lake, read.landing, read.kafka) == (tmp_path / "lake", tmp_path / "in", "kafka:9092")
    assert set(read.variables()) == set(variables)
    assert Environment.read(read.variables()) == read


def test_an_empty_variable_counts_as_unset() -> None:
    assert Environment.read({"TIDEGATE_KAFKA": "", "TIDEGATE_LAKE": ""}) == Environment.read({})


def test_os_environ_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_KAFKA", "elsewhere:1")
    assert Environment.read().kafka == "elsewhere:1"


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Environment.read({"TIDEGATE_LAKE": "lake"}).lake == tmp_path / "lake"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("hdfs://x/lake", "HDFS"),
        ("abfss://container@account/lake", "Azure"),
        ("gs://bucket/lake", "Google"),
        ("ftp://x/lake", "'ftp'"),
        ("file://relative", "'file'"),
        ("s3://", "lower-case letters"),
        ("s3://Bucket/lake", "lower-case letters"),
        ("s3://bucket/a b", "prefix"),
        ("s3://bucket/a//b", "prefix"),
        ("s3://bucket/../b", "prefix"),
        ("s3://key:secret@bucket/b", "lower-case letters"),
        ("gs://key:a/secret@bucket/b", "Google"),
    ],
)
@pytest.mark.parametrize("name", ["TIDEGATE_LAKE", "TIDEGATE_LANDING"])
def test_a_location_without_a_store_is_refused_with_what_is_missing(name: str, value: str, what: str) -> None:
    with pytest.raises(SetupError, match=what) as raised:
        Environment.read({name: value})
    assert name in raised.value.message
    assert "secret" not in f"{raised.value} {raised.value!r}"


def test_lake_and_landing_zone_are_each_in_a_folder_or_in_a_bucket(tmp_path: Path) -> None:
    locations = [
        (str(tmp_path / "x" / ".." / "lake"), str(tmp_path / "lake")),
        ("s3://bucket/some/lake/", "s3://bucket/some/lake"),
        ("s3a://bucket", "s3://bucket"),
    ]
    for lake, lake_uri in locations:
        for landing, landing_uri in locations:
            environment = Environment.read({"TIDEGATE_LAKE": lake, "TIDEGATE_LANDING": landing})
            for each in (environment, Environment.read(environment.variables()), read_once.once(environment)):
                layout = Layout.of(each)
                assert (str(layout.root), str(layout.landing_root)) == (lake_uri, landing_uri)
                assert str(layout.table("gold.delays")) == f"{lake_uri}/tables/gold/delays"
                assert str(layout.landing("flights")) == f"{landing_uri}/flights"


def test_a_lake_in_a_bucket_has_no_local_folder() -> None:
    environment = Environment.read({"TIDEGATE_LAKE": "s3://bucket/lake"})
    with pytest.raises(TypeError, match="s3://bucket/lake is not in the local file system"):
        _ = environment.lake
    assert environment.landing == PROJECT / ".data/landing"


def test_settings_of_buckets_do_not_matter_to_a_local_lake() -> None:
    variables = {"AWS_ENDPOINT_URL": "nonsense", "TIDEGATE_S3_CREDENTIALS": "nonsense"}
    assert Path(Layout.of(Environment.read(variables)).root) == PROJECT / ".data/lake"
    for name, value in variables.items():
        with pytest.raises(SetupError, match=name):
            Layout.of(Environment.read({"TIDEGATE_LAKE": "s3://bucket/lake", name: value}))


def test_the_history_server_must_be_an_http_url() -> None:
    variables = {"TIDEGATE_SPARK_HISTORY": "http://spark:18080/"}
    environment = Environment.read(variables)
    assert environment.spark_history == "http://spark:18080"
    assert Environment.read(environment.variables()).spark_history == "http://spark:18080"
    assert Environment.read({}).spark_history is None
    for wrong in ("javascript:alert(1)", "spark:18080", "http://"):
        with pytest.raises(SetupError, match="TIDEGATE_SPARK_HISTORY"):
            Environment.read({"TIDEGATE_SPARK_HISTORY": wrong})
