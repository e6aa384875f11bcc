"""How the class data archive is created, with a fake training job and with the real archive of this machine."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tests import fake_spark
from tidegate.runtime import archive, archive_build, jars, java
from tidegate.runtime.java import Java

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without an archive."""
    return fake_spark.make(tmp_path, monkeypatch)


def _fake_submit(monkeypatch: pytest.MonkeyPatch, *, training: int = 0, proof: int = 0) -> list[list[str]]:
    """Replace spark-submit; returns the list of the JVM flags of its calls."""
    calls: list[list[str]] = []

    def submit(
        root: Path,
        jvm: Java,
        flags: list[str],
        arguments: list[str],
        folder: Path,
        seconds: float,
        python: Path | None,
    ) -> tuple[int, str]:
        calls.append(flags)
        for flag in flags:
            if flag.startswith(("-XX:ArchiveClassesAtExit=", "-XX:AOTCacheOutput=")):
                Path(flag.partition("=")[2]).write_bytes(b"classes")
        return (training if arguments[-1].endswith("training.py") else proof), "output of the training job"

    monkeypatch.setattr(archive_build, "_submit", submit)
    return calls


def test_a_built_archive_is_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    assert not archive_build.is_complete(root)
    file = archive_build.build(root)
    assert file is not None
    assert file.read_bytes() == b"classes"
    assert archive.options(root)[:2] == [f"-XX:SharedArchiveFile={file}", "-Xshare:auto"]
    assert archive_build.is_complete(root)


def test_an_archive_is_built_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _fake_submit(monkeypatch)
    assert archive_build.build(root) == archive_build.build(root)
    assert len(calls) == 2  # one training job, one verification


def test_a_truncated_archive_is_built_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    file = archive_build.build(root)
    assert file is not None
    file.write_bytes(b"clas")
    assert not archive_build.is_complete(root)
    archive_build.build(root)
    assert file.read_bytes() == b"classes"


def test_archives_of_other_javas_stay_until_there_are_many(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    for number in range(archive_build.KEPT + 1):
        fake_spark.use_java(monkeypatch, f"21.0.{number}")
        file = archive_build.build(root)
        assert file is not None
        os.utime(file, (number, number))
        if number == archive_build.KEPT - 1:
            # A job uses the oldest.
            fake_spark.use_java(monkeypatch, "21.0.0")
            assert archive.options(root)
    assert len(list(archive.folder().glob("*.jsa"))) == archive_build.KEPT
    fake_spark.use_java(monkeypatch, "21.0.0")
    assert archive.find(root) is not None
    fake_spark.use_java(monkeypatch, "21.0.1")
    assert archive.find(root) is None


def test_what_a_killed_builder_left_is_removed_and_the_archive_of_another_one_is_awaited(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_submit(monkeypatch)
    left = archive.folder() / ".training-killed/driver.jsa"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    with (archive.folder() / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert archive_build.build(root) is None
        assert left.exists(), "it may be that of the other one"
    assert archive_build.build(root) is not None
    assert not left.parent.exists()


def test_the_aot_cache_of_java_25_is_created_and_verified(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_spark.use_java(monkeypatch, "25.0.2")
    calls = _fake_submit(monkeypatch)
    assert archive_build.build(root) is not None
    created, proved = calls
    assert created[0].startswith("-XX:AOTCacheOutput=")
    assert "-XX:AOTMode=on" in proved


@pytest.mark.parametrize(("training", "proof"), [(1, 0), (0, 1)])
def test_a_failed_build_is_recorded_with_its_log_and_is_not_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, training: int, proof: int
) -> None:
    _fake_submit(monkeypatch, training=training, proof=proof)
    if training:
        # The incomplete archive of a failed training job must not be used.
        real = archive_build._train

        def train(project_root: Path, jvm: Java, part: Path, python: Path | None) -> str:
            log_tail = real(project_root, jvm, part, python)
            assert not part.exists()
            return log_tail

        monkeypatch.setattr(archive_build, "_train", train)
    assert archive_build.build(root) is None
    assert archive.options(root) == []
    assert archive_build.is_complete(root)
    (note,) = archive.folder().glob("driver-*")
    assert note.read_text() == "output of the training job\n"


@pytest.mark.jvm
def test_the_driver_that_spark_starts_can_use_the_projects_own_archive(tmp_path: Path) -> None:
    file = archive.find(PROJECT)
    if file is None:
        pytest.skip("this machine has no archive")
    assert archive_build._usable(PROJECT, java.find(), file)
    other = tmp_path / "driver.jsa"
    other.write_bytes(b"no archive")
    assert not archive_build._usable(PROJECT, java.find(), other), "the check above must be able to fail"


def test_the_archive_and_the_jobs_have_the_same_class_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = root / "pyspark/bin/spark-submit"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "conf=$SPARK_CONF_DIR" "home=$SPARK_HOME"\n')
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    code, output = archive_build._submit(root, java.find(), ["-XX:+One", "-XX:+Two"], ["--version"], root, 10)
    assert code == 0
    assert output.splitlines() == [
        *("--driver-class-path", jars.class_path(root, "spark"), "--driver-java-options", "-XX:+One -XX:+Two"),
        *("--version", "conf=", f"home={root}/pyspark"),
    ]
