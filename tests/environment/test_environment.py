"""Settings of variables, which hold without a file as with one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.environment import Environment
from tidegate.errors import SetupError
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.store.objects import ObjectStore

PROJECT = Path(__file__).parents[2]


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
    child = read.variables()
    assert {name: child[name] for name in variables} == {**variables, "TIDEGATE_LANDING": str(tmp_path / "in")}
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


@pytest.mark.parametrize("memory", ["2 GB", "two", "0g", "-1g", "2gb"])
def test_a_heap_has_a_size(memory: str) -> None:
    with pytest.raises(SetupError, match=r"TIDEGATE_DRIVER_MEMORY='.*' is no size of a heap; set one such as 2g"):
        Environment.read({"TIDEGATE_DRIVER_MEMORY": memory})


def test_a_child_reads_no_file_and_gets_nothing_empty_of_variables_that_other_programs_read(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text('project = "shop"\n[common]\nlake = "from-file"\ns3.region = "eu-west-1"\n')
    variables = Environment.read({"TIDEGATE_PROJECT": str(tmp_path)}).variables()
    assert (variables["AWS_REGION"], "AWS_ENDPOINT_URL_S3" in variables) == ("eu-west-1", False)
    (tmp_path / "tidegate.toml").write_text("not TOML")
    assert Environment.read(variables).lake == tmp_path / "from-file"


def test_server_and_region_of_buckets_come_from_the_file_unless_a_variable_has_them(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text(
        'project = "shop"\n[common]\nlake = "s3://bucket/lake"\ns3.endpoint = "https://one:9000"\ns3.region = "eu-west-1"\n'
        's3.credentials = "environment"\n'
    )
    own = {"TIDEGATE_PROJECT": str(tmp_path), "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    for variables, server in ((own, "one:9000"), ({**own, "AWS_ENDPOINT_URL": "https://two:9000"}, "two:9000")):
        environment = Environment.read(variables)
        for each in (environment, Environment.read({**variables, **environment.variables()})):
            store = each.store_of(each.lake_at)
            assert isinstance(store, ObjectStore)
            assert (store.server.name, store.server.region) == (server, "eu-west-1")


def test_settings_are_read_without_modules_for_the_file_where_there_is_none(tmp_path: Path) -> None:
    code = "import sys; from tidegate.environment import Environment; Environment.read(); print(*sys.modules)"
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "TIDEGATE_COMPLETE": "yes"}
    (tmp_path / "tidegate.toml").write_text("not TOML")
    loaded = subprocess.check_output([sys.executable, "-c", code], env=variables, cwd=tmp_path, text=True).split()
    assert not {"tomllib", "difflib", "tidegate.environment.project_file", "tidegate.environment.references"} & set(
        loaded
    )
