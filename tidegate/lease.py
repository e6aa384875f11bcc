"""Who holds a lease: asked from outside, without taking it. `tidegate.spark.lease` takes them, in the JVM that commits.

The lock is a POSIX one, so ``flock`` does not see it. It is asked for with ``F_GETLK`` where that is known, because a
probe that took the lock for an instant could turn a job away that comes just then.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys
from typing import Any

from tidegate.layout import Layout

_FLOCK = "hhqqi4x"
"""``struct flock`` of 64-bit Linux: type, whence, start, length, pid."""


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
