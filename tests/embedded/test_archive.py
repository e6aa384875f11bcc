"""The class data archive: when it is used, when it is not, and that the JVM never minds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tidegate.embedded import archive, jars, java, places
from tidegate.embedded.java import Java

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one jar, a Spark with one jar, and a Java; none of them runs."""
    (tmp_path / "jars/spark").mkdir(parents=True)
    (tmp_path / "jars/spark/delta-4.4.0.jar").write_text("delta")
    lock = '{"spark": {"jars": [{"coordinate": "io.delta:delta:4.4.0", "sha256": "00", "bytes": 5}]}}'
    (tmp_path / "jars.lock.json").write_text(lock)
    (tmp_path / "pyspark/jars").mkdir(parents=True)
    (tmp_path / "pyspark/jars/spark-core.jar").write_text("spark")
    monkeypatch.setattr(places, "spark_home", lambda: tmp_path / "pyspark")
    _java(monkeypatch, "17.0.1")
    return tmp_path


def _java(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(java, "find", lambda: Java(executable=Path("/opt/java/bin/java"), version=version))


def _playing(monkeypatch: pytest.MonkeyPatch, *, training: int = 0, proof: int = 0) -> list[list[str]]:
    """Puts something quick in the place of spark-submit; returns the JVM flags that it was given."""
    given: list[list[str]] = []

    def submit(root: Path, flags: list[str], arguments: list[str], folder: Path, seconds: float) -> tuple[int, str]:
        given.append(flags)
        for flag in flags:
            if flag.startswith("-XX:ArchiveClassesAtExit="):
                Path(flag.partition("=")[2]).write_bytes(b"classes")
        return (training if arguments[-1].endswith("training.py") else proof), "what the training said"

    monkeypatch.setattr(archive, "_submit", submit)
    return given


def test_without_an_archive_there_are_no_flags(root: Path) -> None:
    assert archive.options(root) == []
    assert not archive.is_settled(root)


def test_where_java_or_jars_are_missing_there_are_no_flags_and_no_error(root: Path) -> None:
    (root / "jars/spark/delta-4.4.0.jar").unlink()
    assert archive.options(root) == []


def test_a_built_archive_is_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _playing(monkeypatch)
    made = archive.build(root)
    assert made is not None
    assert made.read_bytes() == b"classes"
    assert archive.options(root)[:2] == [f"-XX:SharedArchiveFile={made}", "-Xshare:auto"]
    assert archive.is_settled(root)


def test_it_is_built_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = _playing(monkeypatch)
    assert archive.build(root) == archive.build(root)
    assert len(given) == 2  # one training, one proof


@pytest.mark.parametrize("changed", ["jars/spark/delta-4.4.0.jar", "pyspark/jars/spark-core.jar"])
def test_a_jar_copied_anew_makes_it_stale(root: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    _playing(monkeypatch)
    archive.build(root)
    os.utime(root / changed, (1, 1))
    assert archive.options(root) == []


def test_another_java_makes_it_stale(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _playing(monkeypatch)
    archive.build(root)
    _java(monkeypatch, "17.0.2")
    assert archive.options(root) == []


def test_a_jar_more_in_spark_makes_it_stale(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _playing(monkeypatch)
    archive.build(root)
    (root / "pyspark/jars/added.jar").write_text("")
    assert archive.options(root) == []


def test_a_truncated_archive_is_not_used_because_the_jvm_would_crash(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _playing(monkeypatch)
    made = archive.build(root)
    assert made is not None
    made.write_bytes(b"clas")
    assert archive.options(root) == []
    assert not archive.is_settled(root)


def test_a_new_archive_replaces_the_stale_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _playing(monkeypatch)
    archive.build(root)
    _java(monkeypatch, "21.0.2")
    made = archive.build(root)
    assert list((root / "jars/archive").iterdir()) == [made]


@pytest.mark.parametrize(("training", "proof"), [(1, 0), (0, 1)])
def test_a_jvm_that_cannot_make_one_is_remembered_with_the_reason_and_is_no_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, training: int, proof: int
) -> None:
    _playing(monkeypatch, training=training, proof=proof)
    if training:
        # As a training that breaks off: what it left must not be taken.
        real = archive._train

        def train(project_root: Path, part: Path) -> str:
            told = real(project_root, part)
            assert not part.exists()
            return told

        monkeypatch.setattr(archive, "_train", train)
    assert archive.build(root) is None
    assert archive.options(root) == []
    assert archive.is_settled(root)
    (note,) = (root / "jars/archive").iterdir()
    assert note.read_text() == "what the training said\n"


def test_a_project_that_links_to_the_jars_of_another_starts_from_its_archive(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _playing(monkeypatch)
    archive.build(root)
    linked = root / "linked"
    linked.mkdir()
    for name in ("jars", "jars.lock.json"):
        (linked / name).symlink_to(root / name)
    assert archive.options(linked) == archive.options(root) != []


def test_a_path_with_a_blank_is_quoted_as_spark_reads_it(tmp_path: Path) -> None:
    assert archive._flags(Path("/a b/c.jsa"))[0] == '"-XX:SharedArchiveFile=/a b/c.jsa"'


@pytest.mark.jvm
@pytest.mark.parametrize("content", [None, b"", b"no archive " * 100])
def test_a_jvm_that_finds_its_archive_unusable_says_nothing_and_runs(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "driver.jsa"
    if content is not None:
        path.write_bytes(content)
    done = _ivy_version(archive._flags(path), _ivy_jar())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Apache Ivy")
    assert done.stdout.count("\n") == 1


@pytest.mark.jvm
def test_a_jvm_with_another_class_path_than_its_archive_says_nothing_and_runs(tmp_path: Path) -> None:
    path, other = tmp_path / "driver.jsa", tmp_path / "other.jar"
    other.write_bytes(_ivy_jar().read_bytes())
    _ivy_version([f"-XX:ArchiveClassesAtExit={path}"], _ivy_jar())
    loud = _ivy_version([f"-XX:SharedArchiveFile={path}"], other)
    assert "Unable to use shared archive" in loud.stdout, "or this test shows nothing"
    done = _ivy_version(archive._flags(path), other)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


@pytest.mark.jvm
def test_the_projects_own_archive_fits_the_driver_that_spark_starts() -> None:
    made = archive.find(PROJECT)
    if made is None:
        pytest.skip("set-up made none on this machine")
    assert archive._fits(PROJECT, made)
    # With another class path the same JVM may not start at all: the check above can fail.
    flags = [f"-XX:SharedArchiveFile={made}", "-Xshare:on"]
    assert _ivy_version(flags, _ivy_jar()).returncode != 0


def _ivy_jar() -> Path:
    (found,) = (places.spark_home() / "jars").glob("ivy-*.jar")
    return found


def _ivy_version(flags: list[str], class_path: Path) -> subprocess.CompletedProcess[str]:
    command = [java.find().executable, *flags, "-cp", str(class_path), "org.apache.ivy.Main", "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_class_path_of_the_archive_is_the_one_of_the_jobs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = root / "pyspark/bin/spark-submit"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "conf=$SPARK_CONF_DIR" "home=$SPARK_HOME"\n')
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    code, said = archive._submit(root, ["-XX:+One", "-XX:+Two"], ["--version"], root, 10)
    assert code == 0
    assert said.splitlines() == [
        *("--driver-class-path", jars.class_path(root, "spark"), "--driver-java-options", "-XX:+One -XX:+Two"),
        *("--version", "conf=", f"home={root}/pyspark"),
    ]
