"""Programs to which almost everything on this machine is read-only, as in a container that somebody else has built."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

_SOURCE = "/mnt"
"""Where the folder is while the temporary folder of the machine, in which it may be, is covered."""


def sealed(folder: Path, *, writable: Iterable[Path], hidden: Iterable[Path] = ()) -> list[str]:
    """Words before a command by which it has a temporary folder of its own, and can write there and to some folders only.

    It has mounts of its own (Linux, as root; elsewhere there are no such words, and tests see what was written by times alone).

    Args:
        folder: All of it that the command sees below the temporary folder of the machine.
        writable: Folders in it that the command may write.
        hidden: Folders in it that are empty to the command.
    """
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return []
    place = shlex.quote(str(folder))
    steps = [
        "mount --make-rprivate /",
        f"mount --bind {place} {_SOURCE}",
        "mount -t tmpfs tmpfs /tmp",
        f"mkdir -p {place}",
        f"mount --bind {_SOURCE} {place}",
        *(f"mount --bind {name} {name}" for name in map(shlex.quote, map(str, writable))),
        *(f"mount -t tmpfs tmpfs {name}" for name in map(shlex.quote, map(str, hidden))),
        f"umount {_SOURCE}",
        f"mount -o remount,bind,ro {place}",
        "mount -o remount,bind,ro /",
        f"cd {place}",
        'exec "$@"',
    ]
    return ["unshare", "--mount", "sh", "-euc", "\n".join(steps), "sealed"]
