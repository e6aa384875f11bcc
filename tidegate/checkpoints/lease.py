"""Probes leases without acquiring them, and acquires them in processes without a JVM.

In a lake that is not in a local folder, where there are no locks, a lease is an object (`tidegate.checkpoints.object_lease`).

`tidegate.spark.driver.lease` acquires the leases of a job, in the JVM that commits. The lock is a POSIX lock, which ``flock``
does not detect. It is probed with ``F_GETLK`` where that is available, because a probe that locked the file for an instant
could make a starting job fail.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pendulum

from tidegate import json_codec
from tidegate.errors import LeaseHeldError
from tidegate.lake.layout import Layout
from tidegate.reports.report import now
from tidegate.store import Address

_FLOCK = "hhqqi4x"
"""``struct flock`` of 64-bit Linux: type, whence, start, length, pid."""


_ours: set[Path] = set()
"""Lock files that this process holds. Opening and closing one of them again would release its own lock."""
_ours_guard = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class _Owner:
    what: str
    pid: int
    host: str
    since: str


def checkpoint_resource(dag_id: str, flow: str) -> str:
    """The name of the lease on a flow's checkpoints."""
    return f"checkpoint:{dag_id}/{flow}"


def table_resource(table: str) -> str:
    """The name of the lease on a table."""
    return f"table:{table}"


def holder(layout: Layout, resource: str) -> str | None:
    """A description of the process that holds a lease; None when the lease is free. Creates no file.

    Do not call it in a process that contains the JVM itself (py4j runs the JVM in a process of its own): closing the file
    would release that process's own lock.

    Args:
        resource: For example ``checkpoint:flights/silver`` or ``table:silver.flights``.
    """
    if not layout.root.store.is_local:
        from tidegate.checkpoints import object_lease

        record = object_lease.holder(layout, resource)
        return None if record is None else record.describe()
    try:
        descriptor = os.open(layout.lease(resource), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        pid = _locked_by(descriptor)
    finally:
        os.close(descriptor)
    return None if pid is None else describe_holder(layout, resource, pid)


@contextmanager
def hold(layout: Layout, resources: tuple[str, ...], *, what: str) -> Iterator[None]:
    """Hold the leases of all given resources, or of none, in this process, which must not run a Spark driver.

    Do not call `holder` for one of them meanwhile: it closes the file, which would release the lock.

    Args:
        resources: For example ``("checkpoint:flights/silver", "table:silver.flights")``.
        what: A description of this process, for others that find the lease held.

    Raises:
        LeaseHeldError: Another process or thread holds one of them. Transient.
    """
    if not layout.root.store.is_local:
        from tidegate.checkpoints import object_lease

        with object_lease.hold(layout, resources, what=what):
            yield
        return
    locked: list[tuple[str, int]] = []
    try:
        for resource in sorted(resources):
            locked.append((resource, _lock(layout, resource)))
            write_owner(layout, resource, what=what, pid=os.getpid())
        yield
    finally:
        for resource, descriptor in reversed(locked):
            layout.lease_owner(resource).unlink(missing_ok=True)
            os.close(descriptor)
            with _ours_guard:
                _ours.discard(layout.lease(resource))


def expect_certain() -> None:
    """Call before a write: raises LeaseLostError unless this process is certain of all leases that it holds.

    A file lock cannot be lost. The code of leases that can is imported for lakes in buckets: without it no such lease is held.
    The driver of an attempt that is cancelled, or not the recorded one any more, raises as `recorded_attempt.AttemptCheck.expect`.
    """
    if (recorded_attempt := sys.modules.get("tidegate.checkpoints.recorded_attempt")) is not None:
        recorded_attempt.expect_current()
    if (object_lease := sys.modules.get("tidegate.checkpoints.object_lease")) is not None:
        object_lease.expect_certain()


def write_owner(layout: Layout, resource: str, *, what: str, pid: int) -> None:
    """Write down which process has just acquired a lease."""
    owner = _Owner(what=what, pid=pid, host=socket.gethostname(), since=now())
    json_codec.write(Address.local(layout.lease_owner(resource)), owner)


def describe_holder(layout: Layout, resource: str, pid: int = 0) -> str:
    """The process that holds a lease, for messages; ``pid`` where its id is known."""
    owner = json_codec.read(Address.local(layout.lease_owner(resource)), _Owner)
    # Between lock and write the file still names the previous owner.
    if owner is not None and (pid <= 0 or owner.pid == pid):
        return f"{owner.what} (pid {owner.pid} on {owner.host}, since {owner.since})"
    return f"process {pid}" if pid > 0 else "another process"


def last_acquired(layout: Layout, resource: str) -> datetime | None:
    """When a lease was acquired last by a process that holds it or was killed; None if that is unknown."""
    if layout.root.store.is_local:
        owner = json_codec.read(Address.local(layout.lease_owner(resource)), _Owner)
        since = None if owner is None else owner.since
    else:
        from tidegate.checkpoints import object_lease

        record = object_lease.last(layout, resource)
        since = None if record is None else record.since
    acquired = None if since is None else pendulum.parse(since)
    return acquired if isinstance(acquired, datetime) else None


def _lock(layout: Layout, resource: str) -> int:
    path = layout.lease(resource)
    with _ours_guard:
        if path in _ours:
            raise LeaseHeldError(resource, "another task of this process")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                os.close(descriptor)
                error.filename = str(path)
                raise
            pid = _locked_by(descriptor)
            os.close(descriptor)
            raise LeaseHeldError(resource, describe_holder(layout, resource, pid or 0)) from None
        _ours.add(path)
    return descriptor


def _locked_by(descriptor: int) -> int | None:
    """The id of the process that holds an exclusive lock on the file; 0 when it is locked by an unknown process."""
    if sys.platform == "linux" and struct.calcsize("P") == 8:
        request = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
        return None if kind == fcntl.F_UNLCK else int(pid)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return 0
    return None
