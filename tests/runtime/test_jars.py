"""The pinned jars and their class paths, with small files in place of jars."""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path

import pytest

from tidegate.errors import SetupError
from tidegate.runtime import jars, paths

PROJECT = Path(__file__).parents[2]
DELTA, POOL, KAFKA = "io.delta:delta:4.4.0", "org.apache.commons:pool:2.1", "org.apache.kafka:kafka_2.13:4.1.1"
CACHED = {
    DELTA: "cache/jars/io.delta/delta-4.4.0.jar",
    POOL: "cache/jars/org.apache.commons/pool-2.1.jar",
    KAFKA: "cache/jars/org.apache.kafka/kafka_2.13-4.1.1.jar",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project and a cache with all its jars; the lock file does not list them in the order of their names."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    lock: dict[str, dict[str, list[dict[str, object]]]] = {"spark": {"jars": []}, "broker": {"jars": []}}
    for coordinate, path in reversed(CACHED.items()):
        jar = tmp_path / path
        jar.parent.mkdir(parents=True)
        jar.write_text(coordinate)
        sha256 = hashlib.sha256(coordinate.encode()).hexdigest()
        entry = {"coordinate": coordinate, "sha256": sha256, "bytes": len(coordinate)}
        lock["broker" if coordinate == KAFKA else "spark"]["jars"].append(entry)
    (tmp_path / "jars.lock.json").write_text(json.dumps({"about": "", **lock}))
    return tmp_path


def _missing(root: Path, **how: bool) -> list[str]:
    return [jar.coordinate for jar in jars.missing(jars.of_set(root, "spark", "broker"), **how)]


def test_missing_lists_absent_and_truncated_jars(root: Path) -> None:
    assert _missing(root) == []
    (root / CACHED[DELTA]).write_text("half")
    (root / CACHED[KAFKA]).unlink()
    assert _missing(root) == [DELTA, KAFKA]


def test_a_changed_jar_of_the_same_size_is_missing_where_checksums_are_compared(root: Path) -> None:
    (root / CACHED[POOL]).write_text(POOL[::-1])
    assert _missing(root) == []
    assert _missing(root, verify=True) == [POOL]


def test_a_folder_in_place_of_a_jar_is_a_missing_jar(root: Path) -> None:
    (root / CACHED[POOL]).unlink()
    (root / CACHED[POOL]).mkdir()
    assert _missing(root) == _missing(root, verify=True) == [POOL]


def test_a_class_path_is_absolute_and_sorted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = os.pathsep.join(str(root / CACHED[each]) for each in (DELTA, POOL))
    assert jars.class_path(root, "spark") == expected
    monkeypatch.chdir(root)
    monkeypatch.setenv("TIDEGATE_CACHE", "cache")
    assert jars.class_path(Path(), "spark") == expected


def test_projects_share_the_cache(root: Path) -> None:
    other = root / "other"
    other.mkdir()
    (other / "jars.lock.json").symlink_to(root / "jars.lock.json")
    assert jars.class_path(other, "spark") == jars.class_path(root, "spark")


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"TIDEGATE_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ({"TIDEGATE_CACHE": "~/c"}, "/home/ada/c"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/tidegate"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/ada/.cache/tidegate"),
        ({}, "/home/ada/.cache/tidegate"),
    ],
)
def test_the_cache_is_that_of_the_setting_else_that_of_the_user(
    variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TIDEGATE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/ada", **variables}.items():
        monkeypatch.setenv(name, value)
    assert str(paths.cache_dir()) == folder


def test_a_user_without_a_home_needs_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEGATE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    with pytest.raises(SetupError, match="no home folder for a cache; set TIDEGATE_CACHE"):
        paths.cache_dir()


def test_the_error_for_a_missing_jar_names_the_command(root: Path) -> None:
    for name in (DELTA, POOL):
        (root / CACHED[name]).unlink()
    with pytest.raises(
        SetupError, match=r"2 jars of 2 missing .*, for example delta-4\.4\.0\.jar; run `tidegate setup`"
    ):
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


@pytest.mark.parametrize("set_name", ["spark", "s3", "broker", "msk"])
def test_the_lock_file_of_the_platform_lists_each_jar_once_with_a_complete_checksum(set_name: str) -> None:
    pinned = jars.pinned(PROJECT)[set_name]
    artifacts = [jar.coordinate.rsplit(":", 1)[0] for jar in pinned]
    assert len(artifacts) == len(set(artifacts))
    assert {len(bytes.fromhex(jar.sha256)) for jar in pinned} == {32}
