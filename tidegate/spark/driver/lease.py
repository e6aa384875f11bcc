"""One writer per checkpoint and per table: file locks that are held by the JVM that commits, or objects that its driver renews.

The lock is a ``FileChannel.tryLock`` in that JVM: an orphaned driver keeps it, a killed one frees it. A process loses
its POSIX locks on a file when it opens and closes that file again, so nothing else in the JVM may open it; the holder's
name is in a second file next to it. Other processes query the holder with `tidegate.checkpoints.lease.holder`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidegate.checkpoints import object_lease
from tidegate.checkpoints.lease import describe_holder, write_owner
from tidegate.errors import LeaseHeldError
from tidegate.processes import Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.lake.layout import Layout


@contextmanager
def hold(spark: SparkSession, layout: Layout, resources: tuple[str, ...], *, what: str) -> Iterator[None]:
    """Hold the leases of several resources; when one of them is not free, hold none.

    Args:
        layout: Has the paths of the lock files.
        resources: For example ``("checkpoint:flights/silver", "table:silver.flights")``.
        what: Names this holder to other processes: ``run 9f2c of flights``.

    Raises:
        LeaseHeldError: Another process, or another thread of this one, holds one of them. Transient.
    """
    jvm: Any = spark._jvm
    if not layout.root.store.is_local:
        writer = Process.named(int(jvm.java.lang.ProcessHandle.current().pid()))
        with object_lease.hold(layout, resources, what=what, process=writer):
            yield
        return
    locks: list[tuple[str, Any, Any]] = []
    try:
        for resource in sorted(resources):
            locks.append((resource, *_lock(spark, layout, resource)))
            write_owner(layout, resource, what=what, pid=int(jvm.java.lang.ProcessHandle.current().pid()))
        yield
    finally:
        for resource, channel, lock in reversed(locks):
            layout.lease_owner(resource).unlink(missing_ok=True)
            lock.release()
            channel.close()


def _lock(spark: SparkSession, layout: Layout, resource: str) -> tuple[Any, Any]:
    path = layout.lease(resource)
    path.parent.mkdir(parents=True, exist_ok=True)
    jvm: Any = spark._jvm
    channel = jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()
    try:
        lock = channel.tryLock()
    except Py4JJavaError as error:
        # Closing this channel would free the lock that another thread of this JVM holds; the garbage collector closes it.
        if "OverlappingFileLockException" in str(error.java_exception):
            raise LeaseHeldError(resource, "another run in this same process") from None
        raise
    if lock is None:
        channel.close()
        raise LeaseHeldError(resource, describe_holder(layout, resource))
    return channel, lock
