"""The pinned jars and their class paths, with small files in place of jars."""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path

import pytest

from tidegate.errors import SetupError
from tidegate.runtime import jars

PROJECT = Path(__file__).parents[2]
JARS = {
    "spark/delta-4.4.0.jar": "io.delta:delta:4.4.0",
    "spark/pool-2.1.jar": "org.apache.commons:pool:2.1",
    "broker/kafka_2.13-4.1.1.jar": "org.apache.kafka:kafka_2.13:4.1.1",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with all its jars; the lock file does not list them in the order of their names."""
    lock: dict[str, dict[str, list[dict[str, object]]]] = {"spark": {"jars": []}, "broker": {"jars": []}}
    for path, coordinate in reversed(JARS.items()):
        jar = tmp_path / "jars" / path
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.write_text(coordinate)
        sha256 = hashlib.sha256(coordinate.encode()).hexdigest()
        entry = {"coordinate": coordinate, "sha256": sha256, "bytes": len(coordinate)}
        lock[jar.parent.name]["jars"].append(entry)
    (tmp_path / "jars.lock.json").write_text(json.dumps({"about": "", **lock}))
    return tmp_path


def test_missing_lists_absent_and_truncated_jars(root: Path) -> None:
    assert jars.missing(root) == []
    (root / "jars/spark/delta-4.4.0.jar").write_text("half")
    (root / "jars/broker/kafka_2.13-4.1.1.jar").unlink()
    assert jars.missing(root) == ["spark/delta-4.4.0.jar", "broker/kafka_2.13-4.1.1.jar"]


def test_a_class_path_is_absolute_and_sorted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = os.pathsep.join(str(root / "jars/spark" / name) for name in ("delta-4.4.0.jar", "pool-2.1.jar"))
    assert jars.class_path(root, "spark") == expected
    monkeypatch.chdir(root)
    assert jars.class_path(Path(), "spark") == expected


def test_a_project_that_links_to_the_jars_of_another_has_the_same_class_path(root: Path) -> None:
    linked = root / "linked"
    linked.mkdir()
    for name in ("jars", "jars.lock.json"):
        (linked / name).symlink_to(root / name)
    assert jars.class_path(linked, "spark") == jars.class_path(root, "spark")


def test_the_error_for_a_missing_jar_names_the_command(root: Path) -> None:
    for path in (root / "jars/spark").iterdir():
        path.unlink()
    with pytest.raises(SetupError, match=r"2 jars are missing, for example spark/delta-4\.4\.0\.jar; run `make setup`"):
        jars.class_path(root, "spark")


def test_the_error_for_an_unknown_set_lists_the_existing_ones(root: Path) -> None:
    with pytest.raises(SetupError, match="no set 'flink'; it has: broker, spark"):
        jars.class_path(root, "flink")


@pytest.mark.parametrize(
    "content", ["", "{", '{"spark": {}}', '{"spark": {"jars": [{"coordinate": "a:b", "sha256": "", "bytes": 1}]}}']
)
def test_an_invalid_lock_file_is_an_error(root: Path, content: str) -> None:
    (root / "jars.lock.json").write_text(content)
    with pytest.raises(SetupError, match="cannot be read"):
        jars.pinned(root)


def test_a_project_without_a_lock_file_has_the_jars_of_the_platform(tmp_path: Path) -> None:
    assert jars.pinned(tmp_path) == jars.pinned(PROJECT)
    assert not (PROJECT / "jars.lock.json").exists()


def test_the_lock_file_of_the_platform_matches_the_installed_python_packages() -> None:
    pinned = {jar.file_name for jar in jars.pinned(PROJECT)["spark"]}
    assert f"delta-spark_4.2_2.13-{version('delta-spark')}.jar" in pinned
    assert f"delta-storage-{version('delta-spark')}.jar" in pinned
    assert f"spark-sql-kafka-0-10_2.13-{version('pyspark')}.jar" in pinned
    assert version("pyspark") == version("pyspark-client")


@pytest.mark.parametrize("set_name", ["spark", "s3", "broker"])
def test_the_lock_file_of_the_platform_lists_each_jar_once_with_a_complete_checksum(set_name: str) -> None:
    pinned = jars.pinned(PROJECT)[set_name]
    artifacts = [jar.coordinate.rsplit(":", 1)[0] for jar in pinned]
    assert len(artifacts) == len(set(artifacts))
    assert {len(bytes.fromhex(jar.sha256)) for jar in pinned} == {32}
