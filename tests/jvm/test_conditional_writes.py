"""Of several writers of one name in a bucket, one succeeds, and no acknowledged write is lost; with other stores some are."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.jvm.writers import Writers
from tests.s3_server import S3Process
from tests.store.proxy import S3Proxy, ServerFault

pytestmark = pytest.mark.jvm

LOG_STORE = "io.tidegate.s3.ConditionalLogStore"
CHECKPOINT_FILES = "io.tidegate.s3.ConditionalCheckpointFileManager"
DELTAS_LOG_STORE = "io.delta.storage.S3SingleDriverLogStore"
# Delta's log store of S3 holds a lock within its JVM; that of Google's storage creates files by the same calls, without a lock.
OTHER_LOG_STORE = "io.delta.storage.GCSLogStore"
SPARKS_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"


@pytest.fixture(scope="module")
def writers(s3_server: S3Process, tmp_path_factory: pytest.TempPathFactory) -> Writers:
    return Writers(tmp_path_factory.mktemp("writers"))


def test_no_acknowledged_commit_is_lost(writers: Writers, s3_server: S3Process) -> None:
    race = writers.race("commits", LOG_STORE, s3_server, processes=1, threads=4, each=20)
    assert (len(race.acknowledged), race.failed, race.lost) == (80, 0, 0)
    assert sorted(map(int, race.present)) == list(range(80))


@pytest.mark.nightly
def test_a_store_that_looks_before_it_writes_loses_commits(writers: Writers, s3_server: S3Process) -> None:
    race = writers.race("commits", OTHER_LOG_STORE, s3_server, processes=1, threads=4, each=20)
    assert len(race.acknowledged) == 80
    assert race.lost > 0


def test_one_of_several_drivers_creates_an_offset(writers: Writers, s3_server: S3Process) -> None:
    race = writers.race("offsets", CHECKPOINT_FILES, s3_server, processes=1, threads=4, each=20)
    assert (set(race.winners.values()), race.failed, race.lost) == ({1}, 0, 0)
    assert len(race.winners) == 20


@pytest.mark.nightly
def test_sparks_own_checkpoint_files_let_several_drivers_create_an_offset(
    writers: Writers, s3_server: S3Process
) -> None:
    race = writers.race("offsets", SPARKS_CHECKPOINT_FILES, s3_server, processes=1, threads=4, each=10)
    assert max(race.winners.values()) > 1


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "implementation"), [("commits", LOG_STORE), ("offsets", CHECKPOINT_FILES)])
def test_lost_answers_and_conflicts_neither_lose_a_write_nor_let_two_succeed(
    kind: str, implementation: str, writers: Writers, s3_server: S3Process
) -> None:
    proxy = S3Proxy(s3_server.endpoint)
    path = r"/\d+(\.json)?$"
    faults = [
        proxy.fail(ServerFault("PUT", path, status=status, code=code, after=after))
        for _ in range(10)
        for status, code, after in (
            (0, "", True),
            (500, "InternalError", True),
            (503, "SlowDown", False),
            (409, "ConditionalRequestConflict", False),
        )
    ]
    with proxy.serving():
        race = writers.race(kind, implementation, s3_server, proxy.endpoint, processes=1, threads=3, each=50)
    assert all(fault.fired for fault in faults)
    assert (set(race.winners.values()), race.failed, race.lost, proxy.refused) == ({1}, 0, 0, [])
    assert len(race.winners) == len(race.present) == (150 if kind == "commits" else 50)


@pytest.mark.parametrize(("kind", "other"), [("commits", OTHER_LOG_STORE), ("offsets", SPARKS_CHECKPOINT_FILES)])
def test_the_policy_of_a_bucket_refuses_writers_without_the_jar(
    kind: str, other: str, writers: Writers, s3_server: S3Process
) -> None:
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        race = writers.race(kind, other, s3_server, proxy.endpoint, processes=1, threads=1, each=2)
    assert (race.acknowledged, race.failed, race.present) == ((), 2, {})
    assert len(proxy.refused) == 2


@pytest.mark.parametrize("setting", [("fs.s3a.performance.flags", "delete,create"), ("fs.s3a.performance.flags", "*")])
def test_s3a_that_creates_files_without_a_look_is_refused(
    setting: tuple[str, str], writers: Writers, s3_server: S3Process
) -> None:
    race = writers.race("commits", LOG_STORE, s3_server, processes=1, threads=1, each=1, settings=dict([setting]))
    assert (race.acknowledged, race.failed, race.present) == ((), 1, {})


@pytest.mark.nightly
def test_300_commits_of_four_processes_are_all_there(writers: Writers, s3_server: S3Process) -> None:
    race = writers.race("commits", LOG_STORE, s3_server, processes=4, threads=1, each=75)
    assert (len(race.acknowledged), race.failed, race.lost, len(race.present)) == (300, 0, 0, 300)
    in_order = [race.present[str(version)].partition("-")[0] for version in range(300)]
    assert sum(writer != before for before, writer in pairwise(in_order)) > 30, "the processes raced"


@pytest.mark.nightly
def test_deltas_own_log_store_loses_commits_of_several_processes(writers: Writers, s3_server: S3Process) -> None:
    race = writers.race("commits", DELTAS_LOG_STORE, s3_server, processes=4, threads=1, each=50)
    assert len(race.acknowledged) == 200
    assert race.lost > 0


@pytest.mark.nightly
def test_of_eight_drivers_one_creates_each_of_150_offsets(writers: Writers, s3_server: S3Process) -> None:
    race = writers.race("offsets", CHECKPOINT_FILES, s3_server, processes=1, threads=8, each=150)
    assert (set(race.winners.values()), len(race.winners), race.failed, race.lost) == ({1}, 150, 0, 0)
    assert len({writer for _, writer in race.acknowledged}) > 1, "the drivers raced"
