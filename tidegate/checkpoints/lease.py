"""Who holds a lease, asked from outside without taking it; and taking it in a process that has no JVM.

`tidegate.spark.driver.lease` takes the leases of a job, in the JVM that commits. The lock is a POSIX one, so ``flock`` does not
see it. It is asked for with ``F_GETLK`` where that is known, because a probe that took the lock for an instant could
turn a job away that comes just then.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegate import atomic
from tidegate.errors import LeaseHeldError
from tidegate.layout import Layout
from tidegate.report import now

_FLOCK = "hhqqi4x"
"""``struct flock`` of 64-bit Linux: type, whence, start, length, pid."""


_ours: set[Path] = set()
"""Lock files that this process has open: closing one a second time would free its own lock."""
_ours_guard = threading.Lock()


def checkpoint_resource(dag_id: str, flow: str) -> str:
    """The name of the lease on a flow's checkpoints."""
    return f"checkpoint:{dag_id}/{flow}"


def table_resource(table: str) -> str:
    """The name of the lease on a table."""
    return f"table:{table}"


def holder(layout: Layout, resource: str) -> str | None:
    """Who holds a lease now, in words; None when nobody does. Makes no file.

    Never call it in the process whose JVM is embedded in it by another way than py4j: closing the file would free
    that process's own lock.

    Args:
        layout: Where the lock files lie.
        resource: For example ``checkpoint:flights/silver`` or ``table:silver.flights``.
    """
    try:
        descriptor = os.open(layout.lease(resource), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        pid = _locked_by(descriptor)
    finally:
        os.close(descriptor)
    return None if pid is None else _told(_owner(layout, resource), pid)


@contextmanager
def hold(layout: Layout, resources: tuple[str, ...], *, what: str) -> Iterator[None]:
    """Hold the leases of several resources, or none, in this process, which must not have a JVM of ours.

    Do not ask for the `holder` of one of them meanwhile: closing the file would free the lock.

    Args:
        layout: Where the lock files lie.
        resources: For example ``("checkpoint:flights/silver", "table:silver.flights")``.
        what: Who we are, for whoever meets the lease.

    Raises:
        LeaseHeldError: Somebody else holds one of them. Transient.
    """
    taken: list[tuple[str, int]] = []
    try:
        for resource in sorted(resources):
            taken.append((resource, _take(layout, resource)))
            write_owner(layout, resource, what=what, pid=os.getpid())
        yield
    finally:
        for resource, descriptor in reversed(taken):
            layout.lease_owner(resource).unlink(missing_ok=True)
            os.close(descriptor)
            with _ours_guard:
                _ours.discard(layout.lease(resource))


def write_owner(layout: Layout, resource: str, *, what: str, pid: int) -> None:
    """Tell others who has just taken a lease."""
    path = layout.lease_owner(resource)
    atomic.write_text(path, json.dumps({"what": what, "pid": pid, "host": socket.gethostname(), "since": now()}))


def _take(layout: Layout, resource: str) -> int:
    path = layout.lease(resource)
    with _ours_guard:
        if path in _ours:
            raise LeaseHeldError(resource, "another task of this same process")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = _locked_by(descriptor)
            os.close(descriptor)
            raise LeaseHeldError(resource, _told(_owner(layout, resource), pid or 0)) from None
        _ours.add(path)
    return descriptor


def _locked_by(descriptor: int) -> int | None:
    """The process that holds an exclusive lock on the file; 0 when only that there is one can be told."""
    if sys.platform == "linux" and struct.calcsize("P") == 8:
        asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else int(pid)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return 0
    return None


def _owner(layout: Layout, resource: str) -> dict[str, Any]:
    try:
        owner = json.loads(layout.lease_owner(resource).read_text())
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _told(owner: dict[str, Any], pid: int) -> str:
    # The file may still tell of the owner before, for the instant between lock and file.
    if owner and (pid <= 0 or owner.get("pid") == pid):
        return f"{owner.get('what')} (pid {owner.get('pid')} on {owner.get('host')}, since {owner.get('since')})"
    return f"process {pid}" if pid > 0 else "another process"
