"""Set-up fetches the pinned jars from a Maven repository: a small HTTP server with small files in place of jars."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from devstack import fetch_jars
from devstack.ports import LOOPBACK, free_port
from tests.serving import serving
from tidegate.errors import SetupError
from tidegate.runtime import jars

PROJECT = Path(__file__).parents[2]
DELTA, POOL, KAFKA = "io.delta:delta:4.4.0", "org.apache.commons:pool:2.1", "org.apache.kafka:kafka_2.13:4.1.1"


class Repository:
    """A Maven repository on loopback: its jars, and the jars that were requested from it."""

    def __init__(self) -> None:
        self.content = {DELTA: b"delta " * 50, POOL: b"pool " * 40, KAFKA: b"kafka " * 30}
        self.requests: list[str] = []
        self.cut: dict[str, int] = {}
        """How many more responses with a jar end in the middle of it."""
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                coordinate = next((name for name in repository.content if self.path == repository.path(name)), None)
                if coordinate is None:
                    self.send_error(404)
                    return
                repository.requests.append(coordinate)
                content = repository.content[coordinate]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                cut = repository.cut.get(coordinate, 0)
                repository.cut[coordinate] = cut - 1
                self.wfile.write(content[: len(content) // 2] if cut > 0 else content)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)

    @staticmethod
    def path(coordinate: str) -> str:
        group, artifact, version = coordinate.split(":")
        return f"/maven/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository()
    monkeypatch.setenv("NO_PROXY", LOOPBACK)
    monkeypatch.setenv("TIDEGATE_MAVEN_REPOSITORY", f"http://{LOOPBACK}:{repository.server.server_port}/maven/")
    monkeypatch.setattr("devstack.fetch_jars.time.sleep", lambda seconds: None)
    with serving(repository.server):
        yield repository


@pytest.fixture
def root(tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that pins the jars of the repository, and an empty cache."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "project"
    root.mkdir()
    _pin(root, repository, spark=[POOL, DELTA], broker=[KAFKA])
    return root


def _pin(root: Path, repository: Repository, **sets: list[str]) -> None:
    def entry(coordinate: str) -> dict[str, object]:
        content = repository.content[coordinate]
        return {"coordinate": coordinate, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}

    lock = {name: {"for": "", "jars": [entry(jar) for jar in wanted]} for name, wanted in sets.items()}
    (root / "jars.lock.json").write_text(json.dumps({"about": "", **lock}))


def _present(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root / "jars")) for path in root.glob("jars/*/*"))


def _cached(root: Path) -> list[str]:
    return sorted(path.name for path in (root.parent / "cache").rglob("*") if path.is_file())


def test_fetching_fills_the_folder_of_each_set(root: Path, repository: Repository) -> None:
    assert fetch_jars.fetch(root) == 3
    assert _present(root) == ["broker/kafka_2.13-4.1.1.jar", "spark/delta-4.4.0.jar", "spark/pool-2.1.jar"]
    assert (root / "jars/spark/delta-4.4.0.jar").read_bytes() == repository.content[DELTA]
    assert jars.missing(root) == []


def test_existing_jars_are_not_fetched_again(root: Path, repository: Repository) -> None:
    fetch_jars.fetch(root)
    assert fetch_jars.fetch(root) == 0
    assert sorted(repository.requests) == [DELTA, POOL, KAFKA]


def test_another_clone_uses_the_cache(root: Path, repository: Repository, tmp_path: Path) -> None:
    fetch_jars.fetch(root)
    other = tmp_path / "other"
    other.mkdir()
    (other / "jars.lock.json").write_bytes((root / "jars.lock.json").read_bytes())
    assert fetch_jars.fetch(other) == 3
    assert sorted(repository.requests) == [DELTA, POOL, KAFKA]


def test_a_jar_that_was_copied_into_the_cache_is_not_downloaded(
    root: Path, repository: Repository, tmp_path: Path
) -> None:
    by_hand = tmp_path / "cache/jars/io.delta/delta-4.4.0.jar"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_bytes(repository.content[DELTA])
    fetch_jars.fetch(root)
    assert sorted(repository.requests) == [POOL, KAFKA]


def test_the_error_for_a_wrong_checksum_names_the_jar_and_no_jar_is_installed(
    root: Path, repository: Repository
) -> None:
    repository.content[DELTA] = b"something else"
    with pytest.raises(SetupError, match=rf"{DELTA} has sha256 {hashlib.sha256(b'something else').hexdigest()}"):
        fetch_jars.fetch(root)
    assert _present(root) == []
    assert _cached(root) == ["kafka_2.13-4.1.1.jar", "pool-2.1.jar"]


def test_the_error_for_a_jar_that_the_repository_does_not_have_names_it_and_the_others_are_cached(
    root: Path, repository: Repository
) -> None:
    content = repository.content.pop(DELTA)
    with pytest.raises(SetupError, match=f"{DELTA} could not be downloaded: the repository does not deliver it"):
        fetch_jars.fetch(root)
    assert _present(root) == []
    repository.content[DELTA] = content
    repository.requests.clear()
    assert fetch_jars.fetch(root) == 3
    assert repository.requests == [DELTA]


def test_an_interrupted_download_is_tried_again(root: Path, repository: Repository) -> None:
    repository.cut[DELTA] = 2
    assert fetch_jars.fetch(root) == 3
    assert repository.requests.count(DELTA) == 3
    assert (root / "jars/spark/delta-4.4.0.jar").read_bytes() == repository.content[DELTA]


def test_a_jar_whose_download_is_always_interrupted_is_not_installed_and_leaves_no_file(
    root: Path, repository: Repository
) -> None:
    repository.cut[DELTA] = 3
    with pytest.raises(SetupError, match=f"{DELTA} could not be downloaded"):
        fetch_jars.fetch(root)
    assert _present(root) == []
    assert "delta-4.4.0.jar" not in _cached(root)
    assert fetch_jars.fetch(root) == 3


def test_the_error_for_a_repository_that_does_not_answer_says_what_to_do_and_ends_the_set_up(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIDEGATE_MAVEN_REPOSITORY", f"http://ada:secret@{LOOPBACK}:{free_port()}/maven")
    with pytest.raises(SetupError) as raised:
        fetch_jars.fetch(root)
    assert "Connection refused" in raised.value.message
    assert "HTTPS_PROXY" in raised.value.message
    assert raised.value.message.count("could not be downloaded") == 1, "the other jars would wait for time-outs too"
    assert "secret" not in raised.value.message + caplog.text
    assert _present(root) == _cached(root) == []


def test_a_changed_jar_of_the_same_size_is_replaced(root: Path) -> None:
    fetch_jars.fetch(root)
    target = root / "jars/spark/pool-2.1.jar"
    content = target.read_bytes()
    target.unlink()
    target.write_bytes(content[::-1])
    assert jars.missing(root) == []
    assert fetch_jars.fetch(root) == 1
    assert target.read_bytes() == content


def test_a_changed_jar_in_the_cache_is_downloaded_again(root: Path, repository: Repository, tmp_path: Path) -> None:
    cached = tmp_path / "cache/jars/io.delta/delta-4.4.0.jar"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"rotten")
    fetch_jars.fetch(root)
    assert cached.read_bytes() == repository.content[DELTA]


def test_jars_of_an_earlier_version_are_removed(root: Path, repository: Repository) -> None:
    fetch_jars.fetch(root)
    _pin(root, repository, spark=[DELTA], broker=[KAFKA])
    fetch_jars.fetch(root)
    assert _present(root) == ["broker/kafka_2.13-4.1.1.jar", "spark/delta-4.4.0.jar"]


def test_outside_of_a_terminal_every_jar_is_a_log_line(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fetch_jars.fetch(root)
    assert caplog.messages == [
        "downloading 3 jars (0 MB)",
        f"  1/3 {DELTA} (0.0 MB)",
        f"  2/3 {POOL} (0.0 MB)",
        f"  3/3 {KAFKA} (0.0 MB)",
    ]


def _command(root: Path, stderr: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "devstack.fetch_jars"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "TERM": "xterm", "COLUMNS": "200"}
    return subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=stderr, check=False)


def test_in_a_terminal_progress_is_a_bar_that_is_erased_at_the_end(root: Path) -> None:
    terminal, stderr = pty.openpty()
    process = _command(root, stderr)
    os.close(stderr)
    output = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert process.returncode == 0
    assert "kafka_2.13-4.1.1.jar" in output
    before, erased, after = output.rpartition("\x1b[2K")
    assert before
    assert erased
    assert after.strip() == "3 jars were installed"


def test_the_command_prints_nothing_when_no_jar_is_missing(root: Path) -> None:
    fetch_jars.fetch(root)
    process = _command(root, subprocess.PIPE)
    assert (process.returncode, process.stdout, process.stderr) == (0, b"", b"")
