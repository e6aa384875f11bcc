"""Set-up creates the class data archive, with a fake training job and with the real archive of this clone."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack import build_archive
from tests import fake_spark
from tidegate.runtime import archive, jars

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without an archive."""
    return fake_spark.make(tmp_path, monkeypatch)


def _fake_submit(monkeypatch: pytest.MonkeyPatch, *, training: int = 0, proof: int = 0) -> list[list[str]]:
    """Replace spark-submit; returns the list of the JVM flags of its calls."""
    calls: list[list[str]] = []

    def submit(root: Path, flags: list[str], arguments: list[str], folder: Path, seconds: float) -> tuple[int, str]:
        calls.append(flags)
        for flag in flags:
            if flag.startswith("-XX:ArchiveClassesAtExit="):
                Path(flag.partition("=")[2]).write_bytes(b"classes")
        return (training if arguments[-1].endswith("training.py") else proof), "output of the training job"

    monkeypatch.setattr(build_archive, "_submit", submit)
    return calls


def test_a_built_archive_is_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    assert not build_archive.is_complete(root)
    file = build_archive.build(root)
    assert file is not None
    assert file.read_bytes() == b"classes"
    assert archive.options(root)[:2] == [f"-XX:SharedArchiveFile={file}", "-Xshare:auto"]
    assert build_archive.is_complete(root)


def test_an_archive_is_built_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _fake_submit(monkeypatch)
    assert build_archive.build(root) == build_archive.build(root)
    assert len(calls) == 2  # one training job, one verification


def test_a_truncated_archive_is_built_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    file = build_archive.build(root)
    assert file is not None
    file.write_bytes(b"clas")
    assert not build_archive.is_complete(root)
    build_archive.build(root)
    assert file.read_bytes() == b"classes"


def test_a_new_archive_replaces_the_outdated_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    build_archive.build(root)
    fake_spark.use_java(monkeypatch, "21.0.2")
    file = build_archive.build(root)
    assert list((root / "jars/archive").iterdir()) == [file]


@pytest.mark.parametrize(("training", "proof"), [(1, 0), (0, 1)])
def test_a_failed_build_is_recorded_with_its_log_and_is_not_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, training: int, proof: int
) -> None:
    _fake_submit(monkeypatch, training=training, proof=proof)
    if training:
        # The incomplete archive of a failed training job must not be used.
        real = build_archive._train

        def train(project_root: Path, part: Path) -> str:
            log_tail = real(project_root, part)
            assert not part.exists()
            return log_tail

        monkeypatch.setattr(build_archive, "_train", train)
    assert build_archive.build(root) is None
    assert archive.options(root) == []
    assert build_archive.is_complete(root)
    (note,) = (root / "jars/archive").iterdir()
    assert note.read_text() == "output of the training job\n"


@pytest.mark.jvm
def test_the_driver_that_spark_starts_can_use_the_projects_own_archive(tmp_path: Path) -> None:
    file = archive.find(PROJECT)
    if file is None:
        pytest.skip("this machine has no archive")
    assert build_archive._usable(PROJECT, file)
    other = tmp_path / "driver.jsa"
    other.write_bytes(b"no archive")
    assert not build_archive._usable(PROJECT, other), "the check above must be able to fail"


def test_the_archive_and_the_jobs_have_the_same_class_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = root / "pyspark/bin/spark-submit"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "conf=$SPARK_CONF_DIR" "home=$SPARK_HOME"\n')
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    code, output = build_archive._submit(root, ["-XX:+One", "-XX:+Two"], ["--version"], root, 10)
    assert code == 0
    assert output.splitlines() == [
        *("--driver-class-path", jars.class_path(root, "spark"), "--driver-java-options", "-XX:+One -XX:+Two"),
        *("--version", "conf=", f"home={root}/pyspark"),
    ]
