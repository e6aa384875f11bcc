"""The pinned jars are fetched from a Maven repository, a small HTTP server with small files in place of jars, or from a folder."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devstack.ports import LOOPBACK, free_port
from tests.serving import serving
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.errors import SetupError
from tidegate.runtime import jars, paths, repository
from tidegate.runtime.jars import Jar

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
DELTA, POOL, KAFKA = "io.delta:delta:4.4.0", "org.apache.commons:pool:2.1", "org.apache.kafka:kafka_2.13:4.1.1"
CONTENT = {DELTA: b"delta " * 50, POOL: b"pool " * 40, KAFKA: b"kafka " * 30}
PROGRAM = """
import sys
from tidegate.runtime import repository
from tidegate.runtime.jars import Jar
repository.fetch([Jar(coordinate=sys.argv[1], sha256=sys.argv[2], size=int(sys.argv[3]))])
"""


class Answer(NamedTuple):
    """How the repository answers a request for a jar."""

    content: bytes
    status: int = 200
    length: int | None = None
    """What it announces, if that is not the length."""
    to: str = ""
    """A redirect."""


class Repository:
    """A Maven repository on loopback: its answers, and the jars that were requested from it."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        """The next answers for a jar; afterwards the jar itself."""
        self.requests: list[str] = []
        self.logins: set[str | None] = set()
        self.released = Event()
        """Until it is set, a jar with an announced length that is too large hangs behind its content."""
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.logins.add(self.headers.get("Authorization"))
                coordinate = next((name for name in CONTENT if self.path.endswith(repository.path(name))), None)
                if coordinate is None:
                    self.send_error(404)
                    return
                repository.requests.append(coordinate)
                planned = repository.answers.get(coordinate, [])
                answer = planned.pop(0) if planned else Answer(CONTENT[coordinate])
                self.send_response(answer.status)
                if answer.to:
                    self.send_header("Location", answer.to)
                self.send_header("Content-Length", str(len(answer.content) if answer.length is None else answer.length))
                self.end_headers()
                self.wfile.write(answer.content)
                if answer.length is not None and answer.length > len(answer.content):
                    repository.released.wait(TIMEOUT_SECONDS)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server.server_port}/maven/"

    @staticmethod
    def path(coordinate: str) -> str:
        group, artifact, version = coordinate.split(":")
        return f"/maven/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"


def jar(coordinate: str, content: bytes | None = None) -> Jar:
    content = CONTENT[coordinate] if content is None else content
    return Jar(coordinate=coordinate, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


JARS = [jar(coordinate) for coordinate in CONTENT]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tidegate.runtime.repository.time.sleep", lambda seconds: None)
    return tmp_path / "cache"


@pytest.fixture
def server(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    server = Repository()
    monkeypatch.setenv("NO_PROXY", LOOPBACK)
    monkeypatch.setenv("TIDEGATE_MAVEN_REPOSITORY", server.url)
    with serving(server.server):
        yield server
        server.released.set()


@pytest.fixture
def folder(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with jars in place of a repository: one as in a repository, the others side by side."""
    folder = tmp_path / "copied"
    for each in JARS:
        nested = Repository.path(each.coordinate).removeprefix("/maven/")
        path = folder / (nested if each.coordinate == DELTA else each.file_name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT[each.coordinate])
    monkeypatch.setenv("TIDEGATE_MAVEN_REPOSITORY", str(folder))
    return folder


def cached(cache: Path) -> list[str]:
    """Every file of the cache, also temporary ones."""
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def test_jars_are_fetched_into_the_cache_with_a_line_for_each(cache: Path, server: Repository) -> None:
    lines: list[str] = []
    assert repository.fetch(JARS, lines.append) == 3
    assert jars.missing(JARS, verify=True) == []
    assert len(cached(cache)) == 3
    assert lines[0].startswith("fetching 3 jars (680 B) into ")
    assert lines[1:] == [f"  1/3 {DELTA} (300 B)", f"  2/3 {POOL} (200 B)", f"  3/3 {KAFKA} (180 B)"]


def test_without_lacking_jars_nothing_is_written_or_asked(cache: Path, server: Repository) -> None:
    assert repository.fetch([]) == 0
    assert not cache.exists()
    assert server.requests == []


def test_without_a_setting_the_repository_is_that_of_spark(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = urlsplit(repository.central())
    assert (url.scheme, url.path) == ("https", "/maven2") and url.hostname
    (cache / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(cache))
    with pytest.raises(SetupError, match=r"has no Ivy, .*; set TIDEGATE_MAVEN_REPOSITORY"):
        repository.central()


def test_jars_of_a_folder_need_no_network(cache: Path, folder: Path) -> None:
    assert repository.fetch(JARS) == 3
    assert jars.missing(JARS, verify=True) == []
    assert len(cached(cache)) == 3


def test_a_jar_that_a_folder_lacks_or_has_damaged_is_named_and_the_others_are_cached(cache: Path, folder: Path) -> None:
    (folder / "pool-2.1.jar").unlink()
    (folder / "kafka_2.13-4.1.1.jar").write_bytes(b"half")
    with pytest.raises(SetupError) as raised:
        repository.fetch(JARS)
    assert f"{POOL} could not be fetched: {folder} has no pool-2.1.jar, neither there nor in org/apache" in str(
        raised.value
    )
    assert f"{KAFKA} could not be fetched: {folder}/kafka_2.13-4.1.1.jar: it ended after 4 of 180 bytes" in str(
        raised.value
    )
    assert cached(cache) == ["delta-4.4.0.jar"]


@pytest.mark.parametrize("setting", ["jars", "ftp://mirror/maven", "http://", "https://[", "file:///opt/jars"])
def test_a_setting_that_names_no_repository_is_an_error(
    setting: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_MAVEN_REPOSITORY", setting)
    with pytest.raises(SetupError, match="TIDEGATE_MAVEN_REPOSITORY is neither the URL of a Maven repository nor"):
        repository.fetch(JARS)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (CONTENT[DELTA][::-1], f"sha256 {hashlib.sha256(CONTENT[DELTA][::-1]).hexdigest()}, not "),
        (CONTENT[DELTA] + b"more", "more than its 300 bytes"),
    ],
)
def test_other_bytes_are_an_error_without_another_attempt_and_the_other_jars_are_cached(
    wrong: bytes, says: str, cache: Path, server: Repository
) -> None:
    server.answers[DELTA] = [Answer(wrong)]
    with pytest.raises(SetupError, match=f"{DELTA} could not be fetched: it has {says}"):
        repository.fetch(JARS)
    assert cached(cache) == ["kafka_2.13-4.1.1.jar", "pool-2.1.jar"]
    assert server.requests == [DELTA, POOL, KAFKA]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_jar_that_the_repository_does_not_deliver_is_named_and_the_others_are_cached(
    status: int, cache: Path, server: Repository
) -> None:
    server.answers[DELTA] = [Answer(b"", status)]
    with pytest.raises(SetupError, match=f"{DELTA} could not be fetched: the repository answers with {status}"):
        repository.fetch(JARS)
    server.requests.clear()
    assert repository.fetch(jars.missing(JARS)) == 1
    assert server.requests == [DELTA]


@pytest.mark.parametrize(
    "broken", [Answer(b"", 503), Answer(b"", 429), Answer(b"delta"), Answer(b"delta", length=300), Answer(b"")]
)
def test_a_broken_download_is_tried_again(broken: Answer, cache: Path, server: Repository) -> None:
    server.released.set()
    server.answers[DELTA] = [broken] * 2
    assert repository.fetch([jar(DELTA)]) == 1
    assert jar(DELTA).is_verified
    assert server.requests == [DELTA] * 3
    assert cached(cache) == ["delta-4.4.0.jar"]


def test_downloads_that_are_always_broken_end_after_the_first_jar_and_leave_no_file(
    cache: Path, server: Repository
) -> None:
    server.released.set()
    server.answers[DELTA] = [Answer(b"delta", length=300)] * 3
    with pytest.raises(SetupError, match=f"{DELTA} could not be fetched"):
        repository.fetch(JARS)
    assert (server.requests, cached(cache)) == ([DELTA] * 3, [])


def test_a_repository_that_hangs_counts_as_broken(
    cache: Path, server: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "_SILENCE_SECONDS", 0.2)
    server.answers[DELTA] = [Answer(b"delta", length=300)] * 3
    with pytest.raises(SetupError, match=f"{DELTA} could not be fetched: .*tim"):
        repository.fetch(JARS)
    assert cached(cache) == []


def test_without_a_network_the_error_says_what_to_do_and_no_password(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NO_PROXY", LOOPBACK)
    monkeypatch.setenv("TIDEGATE_MAVEN_REPOSITORY", f"http://ada:secret@{LOOPBACK}:{free_port()}/maven")
    caplog.set_level(logging.DEBUG)
    with pytest.raises(SetupError) as raised:
        repository.fetch(JARS)
    assert "Connection refused" in raised.value.message
    assert "HTTPS_PROXY" in raised.value.message
    assert (
        "set TIDEGATE_MAVEN_REPOSITORY to the URL of a mirror, or to a folder that has the jars" in raised.value.message
    )
    assert raised.value.message.count("could not be fetched") == 1, "the other jars would wait for time-outs too"
    assert "secret" not in raised.value.message + caplog.text
    assert cached(cache) == []


def test_the_login_of_a_mirror_is_that_of_its_url_or_of_netrc_and_is_not_sent_to_where_it_redirects(
    cache: Path, server: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text(f"machine {LOOPBACK} login ada password one\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    repository.fetch([jar(DELTA)])
    assert server.logins == {"Basic YWRhOm9uZQ=="}
    monkeypatch.setenv("TIDEGATE_MAVEN_REPOSITORY", server.url.replace("//", "//bob:two@"))
    server.logins.clear()
    other = Repository()
    server.answers[POOL] = [Answer(b"", 302, to=other.url.removesuffix("/maven/") + Repository.path(POOL))]
    with serving(other.server):
        repository.fetch([jar(POOL)])
    assert (server.logins, other.logins) == ({"Basic Ym9iOnR3bw=="}, {None})
    assert jar(POOL).is_verified


def test_a_cache_that_cannot_be_written_is_an_error_with_the_setting(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", "/proc/cache")
    with pytest.raises(
        SetupError, match=r"the cache /proc/cache cannot be written: .*; set TIDEGATE_CACHE to a folder"
    ):
        repository.fetch(JARS)
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(SetupError, match="cannot be written: Not a directory"):
        repository.fetch(JARS)


@settings(max_examples=60)
@given(
    damages=st.dictionaries(
        st.sampled_from(list(CONTENT)), st.one_of(st.none(), st.binary(max_size=400), st.just(b"folder"))
    ),
    left=st.booleans(),
)
def test_every_damage_of_the_cache_ends_with_the_next_fetch(damages: dict[str, bytes | None], left: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE", f"{scratch}/cache")
        patch.setenv("TIDEGATE_MAVEN_REPOSITORY", f"{scratch}/copied")
        Path(scratch, "copied").mkdir()
        for each in JARS:
            Path(scratch, "copied", each.file_name).write_bytes(CONTENT[each.coordinate])
        repository.fetch(JARS)
        for each in JARS:
            damage = damages.get(each.coordinate, CONTENT[each.coordinate])
            each.path.unlink()
            if damage is not None:
                each.path.write_bytes(damage)
        if left:
            Path(scratch, "cache/jars/.fetch-killed").mkdir()
        lacking = jars.missing(JARS, verify=True)
        assert {each.coordinate for each in lacking} == {
            name for name, damage in damages.items() if damage != CONTENT[name]
        }
        repository.fetch(lacking)
        assert jars.missing(JARS, verify=True) == []


def start(coordinate: str) -> subprocess.Popen[bytes]:
    """Another process that fetches one jar."""
    wanted = jar(coordinate)
    command = [sys.executable, "-c", PROGRAM, wanted.coordinate, wanted.sha256, str(wanted.size)]
    return subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)})


def test_a_process_that_is_killed_in_the_middle_of_a_download_harms_nobody(cache: Path, server: Repository) -> None:
    server.answers[DELTA] = [Answer(b"delta", length=300)]
    killed = start(DELTA)
    wait_until(lambda: any(path.stat().st_size == 0 for path in cache.rglob("part")))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    (left,) = (cache / "jars").glob(".fetch-*")
    repository.fetch([jar(DELTA)])
    assert jar(DELTA).is_verified
    assert left.exists(), "it may be that of a process that is at work"
    os.utime(left, (1, 1))
    repository.fetch([jar(POOL)])
    assert not left.exists()


def test_processes_that_fetch_at_once_all_succeed(cache: Path, server: Repository) -> None:
    processes = [start(DELTA) for _ in range(3)]
    assert [process.wait(TIMEOUT_SECONDS) for process in processes] == [0, 0, 0]
    assert jar(DELTA).is_verified
    assert cached(cache) == ["delta-4.4.0.jar"]


def test_the_cache_folder_is_named_by_the_setting(cache: Path) -> None:
    assert paths.cache_dir() == cache
    assert jar(DELTA).path == cache / "jars/io.delta/delta-4.4.0.jar"
