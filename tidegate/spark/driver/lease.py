"""One writer per checkpoint and per table: file locks that are held by the JVM that commits, or objects that its driver renews.

The lock is a ``FileChannel.tryLock`` in that JVM: an orphaned driver keeps it, a killed one frees it. A process loses
its POSIX locks on a file when it opens and closes that file again, so nothing else in the JVM may open it; the holder's
name is in a second file next to it. Other processes query the holder with `tidegate.checkpoints.lease.holder`.

`leased_flow` runs the work of a flow under its leases.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidegate.checkpoints import checkpoint
from tidegate.checkpoints.lease import (
    checkpoint_resource,
    describe_holder,
    expect_certain,
    table_resource,
    write_owner,
)
from tidegate.errors import LeaseHeldError, TidegateError
from tidegate.probes import delta
from tidegate.spark.driver.failures import translate
from tidegate.spec import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.lake.layout import Layout
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.spark.job import Run


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
        from tidegate.checkpoints import object_lease
        from tidegate.processes import Process

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


@contextmanager
def leased_flow(
    spark: SparkSession, resolved: ResolvedFlow, run: Run, *, work: str, role: str = "attempt"
) -> Iterator[None]:
    """Hold the leases of the flow's checkpoint and target; at the end set seconds and target version in its report.

    Args:
        work: Names the work in error messages: ``flow 'silver'``.
        role: Names the holder of the leases to other processes, with the attempt: ``attempt a1 of flights``.

    Raises:
        LeaseHeldError: Another run has the lease of the flow or of its target. Transient.
        LeaseLostError: The work raised, after this process had lost a lease. Transient.
        TidegateError: What the work raised; any other exception is translated to one (`tidegate.spark.driver.failures`).
    """
    started, pipeline, flow, layout = time.monotonic(), resolved.pipeline, resolved.flow, run.place.layout
    live = layout.table(flow.target.name)
    holder = f"{role} {run.place.attempt} of {pipeline.name}"
    resources = (
        checkpoint_resource(pipeline.name, flow.name),
        table_resource(flow.target.name),
    )
    try:
        with hold(spark, layout, resources, what=holder):
            try:
                yield
            except Exception as error:
                # What else it meets may be the work of another driver.
                if not getattr(error, "transient", False):
                    expect_certain()
                raise
    except TidegateError:
        raise
    except Exception as error:
        # The work may have opened a new refresh.
        folder = checkpoint.current(resolved.place(layout), flow.checkpoint_version).checkpoint
        feeds = [str(layout.read_table(table)) for table in flow.source_tables]
        what = f"{work} ({flow.source.named})" if isinstance(flow.source, KafkaSource) else work
        raise translate(error, what=what, checkpoint=str(folder), feeds=feeds) from error
    finally:
        run.report.seconds = round(time.monotonic() - started, 3)
        # Only shown: an error here replaces none of the work.
        with contextlib.suppress(Exception):
            if (version := delta.current_version(live)) is not None:
                run.report.target_version = version
