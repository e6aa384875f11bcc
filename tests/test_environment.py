"""Places and limits come from environment variables alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.environment import Environment
from tidegate.errors import SetupError

PROJECT = Path(__file__).parents[1]


def test_without_variables_everything_lies_in_the_project() -> None:
    read = Environment.read({})
    assert (read.project, read.lake, read.landing) == (PROJECT, PROJECT / ".data/lake", PROJECT / ".data/landing")
    assert (read.kafka, read.master, read.driver_memory) == ("127.0.0.1:9092", "local[2]", "2g")


def test_every_variable_counts_and_a_child_reads_the_same(tmp_path: Path) -> None:
    given = {
        "TIDEGATE_PROJECT": str(tmp_path / "p"),
        "TIDEGATE_LAKE": str(tmp_path / "lake"),
        "TIDEGATE_LANDING": "file://" + str(tmp_path / "in"),
        "TIDEGATE_KAFKA": "kafka:9092",
        "TIDEGATE_REGISTRY": "http://registry:8081",
        "TIDEGATE_MASTER": "spark://box:7077",
        "TIDEGATE_DRIVER_MEMORY": "4g",
        "TIDEGATE_SPARK_HISTORY": "http://spark:18080",
    }
    read = Environment.read(given)
    assert (read.lake, read.landing, read.kafka) == (tmp_path / "lake", tmp_path / "in", "kafka:9092")
    assert set(read.variables()) == set(given)
    assert Environment.read(read.variables()) == read


def test_an_empty_variable_counts_as_none() -> None:
    assert Environment.read({"TIDEGATE_KAFKA": "", "TIDEGATE_LAKE": ""}) == Environment.read({})


def test_the_process_own_variables_are_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_KAFKA", "elsewhere:1")
    assert Environment.read().kafka == "elsewhere:1"


def test_a_relative_place_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Environment.read({"TIDEGATE_LAKE": "lake"}).lake == tmp_path / "lake"


@pytest.mark.parametrize("place", ["s3://bucket/lake", "hdfs://x/lake", "file://relative"])
@pytest.mark.parametrize("name", ["TIDEGATE_LAKE", "TIDEGATE_LANDING"])
def test_a_place_without_file_locks_is_refused(name: str, place: str) -> None:
    with pytest.raises(SetupError, match="local") as raised:
        Environment.read({name: place})
    assert name in raised.value.message
    assert place in raised.value.message


def test_the_history_server_is_the_url_of_a_server() -> None:
    variables = {"TIDEGATE_SPARK_HISTORY": "http://spark:18080/"}
    environment = Environment.read(variables)
    assert environment.spark_history == "http://spark:18080"
    assert Environment.read(environment.variables()).spark_history == "http://spark:18080"
    assert Environment.read({}).spark_history is None
    for wrong in ("javascript:alert(1)", "spark:18080", "http://"):
        with pytest.raises(SetupError, match="TIDEGATE_SPARK_HISTORY"):
            Environment.read({"TIDEGATE_SPARK_HISTORY": wrong})
