"""Of several writers of one name in a bucket, one succeeds, and no acknowledged write is lost; with other stores some are."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.jvm.writers import Race, Writers, fail_in_turn
from tests.s3_server import S3Process
from tests.store.proxy import S3Proxy

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


@pytest.mark.nightly
def test_no_acknowledged_commit_is_lost(writers: Writers, s3_server: S3Process) -> None:
    race = writers.race("commits", LOG_STORE, s3_server, processes=1, threads=4, each=20)
    assert (len(race.acknowledged), race.failed, race.lost) == (80, 0, 0)
    assert sorted(race.present) == sorted(files(80))


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
def test_faults_of_a_server_neither_lose_an_offset_nor_let_two_drivers_create_it(
    writers: Writers, s3_server: S3Process
) -> None:
    proxy = S3Proxy(s3_server.endpoint)
    faults = fail_in_turn(proxy, [rf"/offsets/{number}$" for number in range(0, 50, 2)])
    with proxy.serving():
        race = writers.race("offsets", CHECKPOINT_FILES, s3_server, proxy.endpoint, processes=1, threads=3, each=50)
    assert all(fault.fired for fault in faults)
    assert (set(race.winners.values()), race.failed, race.lost, proxy.refused) == ({1}, 0, 0, [])
    assert len(race.winners) == len(race.present) == 50


@pytest.mark.parametrize(
    ("kind", "other"),
    [("commits", OTHER_LOG_STORE), pytest.param("offsets", SPARKS_CHECKPOINT_FILES, marks=pytest.mark.nightly)],
)
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
def test_2000_commits_of_four_processes_are_all_there(writers: Writers, s3_server: S3Process) -> None:
    expect_all_after_a_race(writers.race("commits", LOG_STORE, s3_server, processes=4, threads=1, each=500))


@pytest.mark.nightly
def test_2000_commits_of_four_processes_under_faults_of_the_server_are_all_there(
    writers: Writers, s3_server: S3Process
) -> None:
    proxy = S3Proxy(s3_server.endpoint)
    aimed = [divmod(number, 200) for number in range(0, 2000, 20)]
    faults = fail_in_turn(proxy, [rf"/{table}/_delta_log/{version:020}\.json$" for table, version in aimed])
    with proxy.serving():
        race = writers.race("commits", LOG_STORE, s3_server, proxy.endpoint, processes=4, threads=1, each=500)
    assert all(fault.fired for fault in faults)
    assert proxy.refused == []
    expect_all_after_a_race(race)


def expect_all_after_a_race(race: Race) -> None:
    """Check that 2,000 commits were acknowledged, that each is there once, and that the writers took turns."""
    assert (len(race.acknowledged), race.failed, race.lost) == (2000, 0, 0)
    assert sorted(race.present) == sorted(files(2000))
    assert len(set(race.present.values())) == 2000
    in_order = [race.present[name].partition("-")[0] for name in files(2000)]
    assert sum(writer != before for before, writer in pairwise(in_order)) > 200, "the processes raced"


def files(commits: int) -> list[str]:
    """So many commits to logs of 200 each."""
    return ["{}/{}".format(*divmod(number, 200)) for number in range(commits)]


@pytest.mark.nightly
def test_deltas_own_log_store_loses_commits_of_several_processes(writers: Writers, s3_server: S3Process) -> None:
    race = writers.race("commits", DELTAS_LOG_STORE, s3_server, processes=4, threads=1, each=50)
    assert len(race.acknowledged) == 200
    assert race.lost > 0


@pytest.mark.nightly
def test_of_eight_drivers_one_creates_each_of_500_offsets(writers: Writers, s3_server: S3Process) -> None:
    race = writers.race("offsets", CHECKPOINT_FILES, s3_server, processes=1, threads=8, each=500)
    assert (set(race.winners.values()), len(race.winners), race.failed, race.lost) == ({1}, 500, 0, 0)
    assert len({writer for _, writer in race.acknowledged}) > 1, "the drivers raced"
