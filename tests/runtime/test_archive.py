"""The class data archive: when it is used, and that an unusable one causes no error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import fake_spark
from tidegate.runtime import archive, java, job_environment
from tidegate.runtime.java import Java


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without an archive."""
    return fake_spark.make(tmp_path, monkeypatch)


def _create(root: Path) -> Path:
    """An archive as set-up leaves it."""
    file = archive.folder() / f"{archive.file_stem(root, java.find())}-7.jsa"
    file.parent.mkdir()
    file.write_bytes(b"classes")
    return file


def test_without_an_archive_there_are_no_flags(root: Path) -> None:
    assert archive.options(root) == []


def test_missing_jars_mean_no_flags_and_no_error(root: Path) -> None:
    _create(root)
    (root / fake_spark.JAR).unlink()
    assert archive.options(root) == []


def test_an_existing_archive_is_used(root: Path) -> None:
    file = _create(root)
    assert archive.options(root)[:2] == [f"-XX:SharedArchiveFile={file}", "-Xshare:auto"]


@pytest.mark.parametrize("changed", [fake_spark.JAR, "pyspark/jars/spark-core.jar"])
def test_a_jar_with_another_time_invalidates_the_archive(root: Path, changed: str) -> None:
    _create(root)
    assert archive.options(root)
    os.utime(root / changed, (1, 1))
    assert archive.options(root) == []


def test_another_java_invalidates_the_archive(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _create(root)
    assert archive.options(root)
    fake_spark.use_java(monkeypatch, "17.0.2")
    assert archive.options(root) == []


def test_an_additional_jar_in_spark_invalidates_the_archive(root: Path) -> None:
    _create(root)
    assert archive.options(root)
    (root / "pyspark/jars/added.jar").write_text("")
    assert archive.options(root) == []


def test_a_truncated_archive_is_not_used_because_the_jvm_would_crash(root: Path) -> None:
    _create(root).write_bytes(b"clas")
    assert archive.options(root) == []


def test_a_cache_behind_a_link_has_the_same_archive(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _create(root)
    (root / "linked").symlink_to(root / "cache")
    expected = archive.options(root)
    monkeypatch.setenv("TIDEGATE_CACHE", str(root / "linked"))
    assert archive.options(root) == expected != []


def test_from_java_25_on_the_archive_is_an_aot_cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_spark.use_java(monkeypatch, "25.0.2")
    file = _create(root)
    assert archive.options(root)[0] == f"-XX:AOTCache={file}"


def test_the_use_of_an_archive_is_noted_for_the_builder_which_removes_others(root: Path) -> None:
    file = _create(root)
    os.utime(file, (1, 1))
    archive.options(root)
    assert file.stat().st_mtime > 1


def test_a_path_with_a_blank_is_quoted_for_spark() -> None:
    assert (
        archive.flags(Path("/a b/c.jsa"), Java(executable=Path("java"), version="17"))[0]
        == '"-XX:SharedArchiveFile=/a b/c.jsa"'
    )


@pytest.mark.jvm
@pytest.mark.parametrize("content", [None, b"", b"no archive " * 100])
def test_a_jvm_with_an_unusable_archive_runs_without_warnings(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "driver.jsa"
    if content is not None:
        path.write_bytes(content)
    process = _ivy_version(archive.flags(path, java.find()), _ivy_jar())
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("Apache Ivy")
    assert process.stdout.count("\n") == 1


@pytest.mark.jvm
def test_a_jvm_with_another_class_path_than_its_archive_runs_without_warnings(tmp_path: Path) -> None:
    path, other = tmp_path / "driver.jsa", tmp_path / "other.jar"
    other.write_bytes(_ivy_jar().read_bytes())
    _ivy_version(archive.creating(path, java.find()), _ivy_jar())
    loud = [flag for flag in archive.flags(path, java.find()) if not flag.startswith("-Xlog")]
    assert _ivy_version(loud, other).stdout.count("\n") > 1, "the flags below would have no effect"
    process = _ivy_version(archive.flags(path, java.find()), other)
    assert (process.returncode, process.stderr, process.stdout.count("\n")) == (0, "", 1)


def _ivy_jar() -> Path:
    (jar,) = (job_environment.spark_home() / "jars").glob("ivy-*.jar")
    return jar


def _ivy_version(flags: list[str], class_path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(java.find().executable), *flags, "-cp", str(class_path), "org.apache.ivy.Main", "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=False)
