"""The class data archive: when it is used, and that an unusable one causes no error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tidegate.embedded import archive, jars, java, paths
from tidegate.embedded.java import Java

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one jar, a Spark with one jar, and a Java, all fake."""
    (tmp_path / "jars/spark").mkdir(parents=True)
    (tmp_path / "jars/spark/delta-4.4.0.jar").write_text("delta")
    lock = '{"spark": {"jars": [{"coordinate": "io.delta:delta:4.4.0", "sha256": "00", "bytes": 5}]}}'
    (tmp_path / "jars.lock.json").write_text(lock)
    (tmp_path / "pyspark/jars").mkdir(parents=True)
    (tmp_path / "pyspark/jars/spark-core.jar").write_text("spark")
    monkeypatch.setattr(paths, "spark_home", lambda: tmp_path / "pyspark")
    _java(monkeypatch, "17.0.1")
    return tmp_path


def _java(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(java, "find", lambda: Java(executable=Path("/opt/java/bin/java"), version=version))


def _fake_submit(monkeypatch: pytest.MonkeyPatch, *, training: int = 0, proof: int = 0) -> list[list[str]]:
    """Replace spark-submit; returns the list of the JVM flags of its calls."""
    calls: list[list[str]] = []

    def submit(root: Path, flags: list[str], arguments: list[str], folder: Path, seconds: float) -> tuple[int, str]:
        calls.append(flags)
        for flag in flags:
            if flag.startswith("-XX:ArchiveClassesAtExit="):
                Path(flag.partition("=")[2]).write_bytes(b"classes")
        return (training if arguments[-1].endswith("training.py") else proof), "output of the training job"

    monkeypatch.setattr(archive, "_submit", submit)
    return calls


def test_without_an_archive_there_are_no_flags(root: Path) -> None:
    assert archive.options(root) == []
    assert not archive.is_complete(root)


def test_missing_jars_mean_no_flags_and_no_error(root: Path) -> None:
    (root / "jars/spark/delta-4.4.0.jar").unlink()
    assert archive.options(root) == []


def test_a_built_archive_is_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    file = archive.build(root)
    assert file is not None
    assert file.read_bytes() == b"classes"
    assert archive.options(root)[:2] == [f"-XX:SharedArchiveFile={file}", "-Xshare:auto"]
    assert archive.is_complete(root)


def test_an_archive_is_built_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _fake_submit(monkeypatch)
    assert archive.build(root) == archive.build(root)
    assert len(calls) == 2  # one training job, one verification


@pytest.mark.parametrize("changed", ["jars/spark/delta-4.4.0.jar", "pyspark/jars/spark-core.jar"])
def test_a_jar_with_another_time_invalidates_the_archive(
    root: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    _fake_submit(monkeypatch)
    archive.build(root)
    os.utime(root / changed, (1, 1))
    assert archive.options(root) == []


def test_another_java_invalidates_the_archive(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    archive.build(root)
    _java(monkeypatch, "17.0.2")
    assert archive.options(root) == []


def test_an_additional_jar_in_spark_invalidates_the_archive(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    archive.build(root)
    (root / "pyspark/jars/added.jar").write_text("")
    assert archive.options(root) == []


def test_a_truncated_archive_is_not_used_because_the_jvm_would_crash(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_submit(monkeypatch)
    file = archive.build(root)
    assert file is not None
    file.write_bytes(b"clas")
    assert archive.options(root) == []
    assert not archive.is_complete(root)


def test_a_new_archive_replaces_the_outdated_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_submit(monkeypatch)
    archive.build(root)
    _java(monkeypatch, "21.0.2")
    file = archive.build(root)
    assert list((root / "jars/archive").iterdir()) == [file]


@pytest.mark.parametrize(("training", "proof"), [(1, 0), (0, 1)])
def test_a_failed_build_is_recorded_with_its_log_and_is_not_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, training: int, proof: int
) -> None:
    _fake_submit(monkeypatch, training=training, proof=proof)
    if training:
        # The incomplete archive of a failed training job must not be used.
        real = archive._train

        def train(project_root: Path, part: Path) -> str:
            log_tail = real(project_root, part)
            assert not part.exists()
            return log_tail

        monkeypatch.setattr(archive, "_train", train)
    assert archive.build(root) is None
    assert archive.options(root) == []
    assert archive.is_complete(root)
    (note,) = (root / "jars/archive").iterdir()
    assert note.read_text() == "output of the training job\n"


def test_a_project_that_links_to_the_jars_of_another_uses_its_archive(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_submit(monkeypatch)
    archive.build(root)
    linked = root / "linked"
    linked.mkdir()
    for name in ("jars", "jars.lock.json"):
        (linked / name).symlink_to(root / name)
    assert archive.options(linked) == archive.options(root) != []


def test_a_path_with_a_blank_is_quoted_for_spark(tmp_path: Path) -> None:
    assert archive._flags(Path("/a b/c.jsa"))[0] == '"-XX:SharedArchiveFile=/a b/c.jsa"'


@pytest.mark.jvm
@pytest.mark.parametrize("content", [None, b"", b"no archive " * 100])
def test_a_jvm_with_an_unusable_archive_runs_without_warnings(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "driver.jsa"
    if content is not None:
        path.write_bytes(content)
    process = _ivy_version(archive._flags(path), _ivy_jar())
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("Apache Ivy")
    assert process.stdout.count("\n") == 1


@pytest.mark.jvm
def test_a_jvm_with_another_class_path_than_its_archive_runs_without_warnings(tmp_path: Path) -> None:
    path, other = tmp_path / "driver.jsa", tmp_path / "other.jar"
    other.write_bytes(_ivy_jar().read_bytes())
    _ivy_version([f"-XX:ArchiveClassesAtExit={path}"], _ivy_jar())
    with_warning = _ivy_version([f"-XX:SharedArchiveFile={path}"], other)
    assert "Unable to use shared archive" in with_warning.stdout, "the flags below would have no effect"
    process = _ivy_version(archive._flags(path), other)
    assert (process.returncode, process.stderr, process.stdout.count("\n")) == (0, "", 1)


@pytest.mark.jvm
def test_the_driver_that_spark_starts_can_use_the_projects_own_archive() -> None:
    file = archive.find(PROJECT)
    if file is None:
        pytest.skip("this machine has no archive")
    assert archive._usable(PROJECT, file)
    # Shows that the check above can fail: with another class path the same JVM does not start.
    flags = [f"-XX:SharedArchiveFile={file}", "-Xshare:on"]
    assert _ivy_version(flags, _ivy_jar()).returncode != 0


def _ivy_jar() -> Path:
    (jar,) = (paths.spark_home() / "jars").glob("ivy-*.jar")
    return jar


def _ivy_version(flags: list[str], class_path: Path) -> subprocess.CompletedProcess[str]:
    command = [java.find().executable, *flags, "-cp", str(class_path), "org.apache.ivy.Main", "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_archive_and_the_jobs_have_the_same_class_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = root / "pyspark/bin/spark-submit"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "conf=$SPARK_CONF_DIR" "home=$SPARK_HOME"\n')
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    code, output = archive._submit(root, ["-XX:+One", "-XX:+Two"], ["--version"], root, 10)
    assert code == 0
    assert output.splitlines() == [
        *("--driver-class-path", jars.class_path(root, "spark"), "--driver-java-options", "-XX:+One -XX:+Two"),
        *("--version", "conf=", f"home={root}/pyspark"),
    ]
