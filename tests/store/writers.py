"""Four processes that update one key of a local store together, and are killed and stopped at any point of an update.

An update appends a line of its own to what it has read. Run as ``python -m tests.store.writers FOLDER UPDATES SEED``; it prints what
happened as JSON.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from tidegate.errors import WriteConflictError
from tidegate.store import LocalStore, local

KEY = "a/counter"
STEPS = ("outside", "waiting", "locked", "written", "renamed", "released")
"""Where a writer is: not in `put_if`; or in it, after what was done last."""
WRITERS = 4
_STOP = WRITERS
"""The place of the byte that ends the writers, in the memory that all share."""


def write(folder: Path, slot: int, shared: mmap.mmap, acknowledged: int) -> None:
    """Update the key until told to stop; append the line of each update that succeeded to a file."""

    def reach(step: str) -> None:
        shared[slot] = STEPS.index(step)
        if random.random() < 0.05:
            time.sleep(random.uniform(0, 0.002))

    def lock(descriptor: int) -> bool:
        reach("waiting")
        if locked := try_lock(descriptor):
            reach("locked")
        return locked

    def replace(source: Path, target: Path) -> Path:
        reach("written")
        result = rename(source, target)
        reach("renamed")
        return result

    def release(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        if operation == fcntl.LOCK_UN:
            reach("released")

    try_lock, rename, flock = local._lock, Path.replace, fcntl.flock
    local._lock, Path.replace, fcntl.flock = lock, replace, release  # type: ignore[method-assign,assignment]
    random.seed(os.getpid())
    store, number = LocalStore(folder, wait=0.05), 0
    while not shared[_STOP]:
        before = store.read(KEY)
        line = b"%d:%d\n" % (os.getpid(), number)
        try:
            store.put_if(KEY, before.data + line, before.tag)
            os.write(acknowledged, line)
            number += 1
        except (WriteConflictError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EBUSY:
                raise
        finally:
            shared[slot] = 0


def main(folder: Path, updates: int, seed: int) -> None:
    """Start the writers, disturb them until there are enough updates and every step was hit, and print the counts."""
    store, chance, shared = LocalStore(folder / "lake"), random.Random(seed), mmap.mmap(-1, WRITERS + 1)
    store.put(KEY, b"")
    acknowledged = os.open(folder / "acknowledged", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    hits: Counter[str] = Counter()
    writers, continued, known, until = [0] * WRITERS, [0.0] * WRITERS, b"", time.monotonic() + 60

    def start(slot: int) -> None:
        shared[slot] = 0
        writers[slot] = os.fork()
        if not writers[slot]:
            code = 1
            try:
                write(store.root, slot, shared, acknowledged)
                code = 0
            finally:
                os._exit(code)

    def wanted() -> list[str]:
        """Kills and stops at steps that have not been hit yet."""
        every = [f"{act} {step}" for act in ("kill", "stop") for step in STEPS[1:]]
        return [each for each in every if not hits[each]]

    for slot in range(WRITERS):
        start(slot)
    while known.count(b"\n") < updates or (wanted() and time.monotonic() < until):
        time.sleep(chance.uniform(0, 0.02))
        for slot, at in enumerate(continued):
            if at and at < time.monotonic():
                os.kill(writers[slot], signal.SIGCONT)
                continued[slot] = 0
        slot = chance.randrange(WRITERS)
        if not continued[slot]:
            os.kill(writers[slot], signal.SIGSTOP)
            _, status = os.waitpid(writers[slot], os.WUNTRACED)
            assert os.WIFSTOPPED(status), f"a writer ended with {status}"
            act = chance.choice(("kill", "stop"))
            hits[f"{act} {STEPS[shared[slot]]}"] += 1
            if act == "stop":
                continued[slot] = time.monotonic() + chance.choice((0.001, 0.02, 0.06))
            else:
                os.kill(writers[slot], signal.SIGKILL)
                os.waitpid(writers[slot], 0)
                start(slot)
        now = store.read(KEY).data
        assert now.startswith(known), "a later content was overwritten"
        known = now
    shared[_STOP] = 1
    for writer in writers:
        os.kill(writer, signal.SIGCONT)
        assert os.waitpid(writer, 0)[1] == 0
    print(json.dumps({"hits": hits, "missed": wanted()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
