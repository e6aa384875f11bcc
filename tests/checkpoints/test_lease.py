"""Leases are probed without acquiring them, and acquired in processes without a JVM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.checkpoints import lease
from tidegate.errors import LeaseHeldError
from tidegate.lake.layout import Layout

RESOURCE = "checkpoint:flights/silver"
HOLD = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


@pytest.fixture
def owner(layout: Layout) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a POSIX lock on the whole file, as a JVM does."""
    path = layout.lease(RESOURCE)
    path.parent.mkdir(parents=True)
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def write_owner(layout: Layout, **fields: Any) -> None:
    layout.lease_owner(RESOURCE).write_text(json.dumps(fields))


def test_an_unused_lease_is_free_and_probing_creates_no_file(layout: Layout) -> None:
    assert lease.holder(layout, RESOURCE) is None
    assert not Path(layout.root).exists()


def test_the_holder_of_a_lease_is_described_by_its_owner_file(layout: Layout, owner: subprocess.Popen[str]) -> None:
    write_owner(layout, what="attempt a1 of flights", pid=owner.pid, host="box", since="2026-01-01T00:00:00Z")
    assert (
        lease.holder(layout, RESOURCE) == f"attempt a1 of flights (pid {owner.pid} on box, since 2026-01-01T00:00:00Z)"
    )


def test_probing_does_not_acquire_or_release_the_lease(layout: Layout, owner: subprocess.Popen[str]) -> None:
    for _ in range(3):
        assert lease.holder(layout, RESOURCE) is not None
    assert sorted(path.name for path in (Path(layout.root) / "leases").iterdir()) == [layout.lease(RESOURCE).name]


def test_an_owner_file_of_the_previous_holder_is_ignored(layout: Layout, owner: subprocess.Popen[str]) -> None:
    write_owner(layout, what="attempt a0 of flights", pid=owner.pid + 1, host="box", since="yesterday")
    assert lease.holder(layout, RESOURCE) == f"process {owner.pid}"


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"'])
def test_a_lock_with_an_unreadable_owner_file_is_still_detected(
    layout: Layout, owner: subprocess.Popen[str], content: str
) -> None:
    layout.lease_owner(RESOURCE).write_text(content)
    assert lease.holder(layout, RESOURCE) == f"process {owner.pid}"


def test_the_lease_is_free_as_soon_as_its_holder_is_killed(layout: Layout, owner: subprocess.Popen[str]) -> None:
    write_owner(layout, what="attempt a1 of flights", pid=owner.pid, host="box", since="now")
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    assert lease.holder(layout, RESOURCE) is None


def test_other_leases_are_not_affected(layout: Layout, owner: subprocess.Popen[str]) -> None:
    assert lease.holder(layout, lease.table_resource("silver.flights")) is None
    assert lease.holder(layout, lease.checkpoint_resource("flights", "gold")) is None
    assert lease.checkpoint_resource("flights", "silver") == RESOURCE


@pytest.mark.jvm
def test_the_lock_of_a_job_is_detected_and_free_afterwards(spark: Any, layout: Layout) -> None:
    from tidegate.spark.driver import lease as jvm_lease

    with jvm_lease.hold(spark, layout, (RESOURCE,), what="attempt a1 of flights"):
        for _ in range(3):
            assert str(lease.holder(layout, RESOURCE)).startswith("attempt a1 of flights (pid ")
    assert lease.holder(layout, RESOURCE) is None


@pytest.mark.jvm
def test_a_job_fails_while_another_process_holds_the_lease(
    spark: Any, layout: Layout, owner: subprocess.Popen[str]
) -> None:
    from tidegate.spark.driver import lease as jvm_lease

    write_owner(layout, what="attempt a1 of flights", pid=owner.pid, host="box", since="now")
    with (
        pytest.raises(LeaseHeldError, match="attempt a1 of flights") as raised,
        jvm_lease.hold(spark, layout, (RESOURCE,), what="me"),
    ):
        pass
    assert raised.value.transient


def test_a_process_without_a_jvm_holds_a_lease_and_writes_its_owner_file(layout: Layout) -> None:
    probe = "import sys; from pathlib import Path; from tidegate.lake.layout import Layout; from tidegate.checkpoints import lease\n"
    probe += f"print(lease.holder(Layout.local(Path({str(Path(layout.root))!r}), Path('/')), {RESOURCE!r}))"
    with lease.hold(layout, (RESOURCE,), what="quarantine waive of flights/silver"):
        holder = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
        assert holder.startswith(f"quarantine waive of flights/silver (pid {os.getpid()} on ")
    assert lease.holder(layout, RESOURCE) is None
    assert not layout.lease_owner(RESOURCE).exists()


def test_no_lease_is_acquired_when_one_of_them_is_held_by_another_process(
    layout: Layout, owner: subprocess.Popen[str]
) -> None:
    write_owner(layout, what="attempt a1 of flights", pid=owner.pid, host="box", since="2026-01-01T00:00:00Z")
    first = "checkpoint:flights/bronze"
    with (
        pytest.raises(LeaseHeldError, match="attempt a1 of flights") as caught,
        lease.hold(layout, (first, RESOURCE), what="quarantine waive"),
    ):
        pass
    assert caught.value.transient
    assert lease.holder(layout, first) is None
    assert lease.holder(layout, RESOURCE) is not None, "the other process still holds its lease"
    assert layout.lease_owner(RESOURCE).exists()


def test_a_process_cannot_acquire_a_lease_twice(layout: Layout) -> None:
    with lease.hold(layout, (RESOURCE,), what="one"):
        with (
            pytest.raises(LeaseHeldError, match="another task of this process"),
            lease.hold(layout, (RESOURCE,), what="two"),
        ):
            pass
        with pytest.raises(LeaseHeldError), lease.hold(layout, (RESOURCE,), what="three"):
            pass
