"""The pinned jars, with small files in place of jars and a fake downloader."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from devstack import fetch_jars, ivy
from tidegate.errors import SetupError
from tidegate.runtime import jars

PROJECT = Path(__file__).parents[2]
DELTA, POOL, KAFKA = "io.delta:delta:4.4.0", "org.apache.commons:pool:2.1", "org.apache.kafka:kafka_2.13:4.1.1"


@dataclass
class Central:
    """A fake Maven Central: its jars, and the downloads that were requested."""

    content: dict[str, bytes]
    requests: list[list[str]] = field(default_factory=list)

    def retrieve(
        self, coordinates: Sequence[str], scratch: Path, on_download: Callable[[str], None]
    ) -> dict[str, Path]:
        """In place of `ivy.retrieve`."""
        self.requests.append(sorted(coordinates))
        files = {}
        for number, coordinate in enumerate(coordinates):
            if coordinate in self.content:
                files[coordinate] = scratch / str(number)
                files[coordinate].write_bytes(self.content[coordinate])
                on_download(coordinate)
        return files


@pytest.fixture
def central(monkeypatch: pytest.MonkeyPatch) -> Central:
    fake = Central({DELTA: b"delta " * 50, POOL: b"pool " * 40, KAFKA: b"kafka " * 30})
    monkeypatch.setattr(ivy, "retrieve", fake.retrieve)
    return fake


@pytest.fixture
def root(tmp_path: Path, central: Central, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that pins the jars of the fake Central, and an empty cache."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "project"
    root.mkdir()
    _pin(root, central, spark=[POOL, DELTA], broker=[KAFKA])
    return root


def _pin(root: Path, central: Central, **sets: list[str]) -> None:
    def entry(coordinate: str) -> dict[str, object]:
        content = central.content[coordinate]
        return {"coordinate": coordinate, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}

    lock = {name: {"for": "", "jars": [entry(jar) for jar in wanted]} for name, wanted in sets.items()}
    (root / "jars.lock.json").write_text(json.dumps({"about": "", **lock}))


def _present(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root / "jars")) for path in root.glob("jars/*/*"))


def test_fetching_fills_the_folder_of_each_set(root: Path, central: Central) -> None:
    assert fetch_jars.fetch(root) == 3
    assert _present(root) == ["broker/kafka_2.13-4.1.1.jar", "spark/delta-4.4.0.jar", "spark/pool-2.1.jar"]
    assert (root / "jars/spark/delta-4.4.0.jar").read_bytes() == central.content[DELTA]


def test_existing_jars_are_not_fetched_again(root: Path, central: Central) -> None:
    fetch_jars.fetch(root)
    assert fetch_jars.fetch(root) == 0
    assert len(central.requests) == 1


def test_another_clone_uses_the_cache(root: Path, central: Central, tmp_path: Path) -> None:
    fetch_jars.fetch(root)
    other = tmp_path / "other"
    other.mkdir()
    (other / "jars.lock.json").write_bytes((root / "jars.lock.json").read_bytes())
    assert fetch_jars.fetch(other) == 3
    assert len(central.requests) == 1


def test_a_jar_that_was_copied_into_the_cache_is_not_downloaded(root: Path, central: Central, tmp_path: Path) -> None:
    by_hand = tmp_path / "cache/jars/io.delta/delta-4.4.0.jar"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_bytes(central.content[DELTA])
    fetch_jars.fetch(root)
    assert central.requests == [[POOL, KAFKA]]


def test_the_error_for_a_wrong_checksum_names_the_jar_and_no_jar_is_installed(
    root: Path, central: Central, tmp_path: Path
) -> None:
    central.content[DELTA] = b"something else"
    with pytest.raises(SetupError, match=rf"{DELTA} has sha256 {hashlib.sha256(b'something else').hexdigest()}"):
        fetch_jars.fetch(root)
    assert _present(root) == []
    cached = [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert sorted(cached) == ["kafka_2.13-4.1.1.jar", "pool-2.1.jar"]


def test_the_error_for_a_failed_download_names_the_jar_and_the_others_are_cached(root: Path, central: Central) -> None:
    content = central.content.pop(DELTA)
    with pytest.raises(SetupError, match=f"{DELTA} could not be downloaded"):
        fetch_jars.fetch(root)
    assert _present(root) == []
    central.content[DELTA] = content
    assert fetch_jars.fetch(root) == 3
    assert central.requests[1] == [DELTA]


def test_a_changed_jar_of_the_same_size_is_replaced(root: Path, central: Central) -> None:
    fetch_jars.fetch(root)
    target = root / "jars/spark/pool-2.1.jar"
    content = target.read_bytes()
    target.unlink()
    target.write_bytes(content[::-1])
    assert jars.missing(root) == []
    assert fetch_jars.fetch(root) == 1
    assert target.read_bytes() == content


def test_a_changed_jar_in_the_cache_is_downloaded_again(root: Path, central: Central, tmp_path: Path) -> None:
    cached = tmp_path / "cache/jars/io.delta/delta-4.4.0.jar"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"rotten")
    fetch_jars.fetch(root)
    assert cached.read_bytes() == central.content[DELTA]


def test_jars_of_an_earlier_version_are_removed(root: Path, central: Central) -> None:
    fetch_jars.fetch(root)
    _pin(root, central, spark=[DELTA], broker=[KAFKA])
    fetch_jars.fetch(root)
    assert _present(root) == ["broker/kafka_2.13-4.1.1.jar", "spark/delta-4.4.0.jar"]


def test_progress_reports_every_jar_and_its_size(root: Path, central: Central) -> None:
    reports: list[tuple[object, ...]] = []

    class Recorder(ivy.Progress):
        def start(self, jars: int, size: int) -> None:
            reports.append((jars, size))

        def downloaded(self, coordinate: str, size: int) -> None:
            reports.append((coordinate, size))

    fetch_jars.fetch(root, Recorder())
    sizes = {coordinate: len(content) for coordinate, content in central.content.items()}
    assert reports[0] == (3, sum(sizes.values()))
    assert dict(reports[1:]) == sizes  # type: ignore[arg-type]


def test_the_command_prints_nothing_when_no_jar_is_missing(root: Path) -> None:
    fetch_jars.fetch(root)
    command = [sys.executable, "-m", "devstack.fetch_jars"]
    process = subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
