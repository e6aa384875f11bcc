"""The log of a job's process: a process can only write to a local file, also where the lake is in a bucket."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegate.store import Address


@dataclass
class DriverLog:
    """The log of one attempt."""

    path: Path
    """The file that the process writes."""
    kept: Address
    """Where the log is when the process has ended."""


@contextmanager
def written(address: Address) -> Iterator[DriverLog]:
    """The log that is to be at an address of the lake, which has it at the end of the context.

    Of a lake in a bucket it is a temporary file until then, and stays one if the bucket does not take it.
    """
    if address.store.is_local:
        yield DriverLog(Path(address), address)
        return
    descriptor, name = tempfile.mkstemp(prefix="tidegate-", suffix=f"-{address.name}")
    os.close(descriptor)
    log = DriverLog(Path(name), Address.local(Path(name)))
    try:
        yield log
    finally:
        with contextlib.suppress(OSError):
            address.put(log.kept.read().data)
            log.kept.delete()
            log.kept = address
