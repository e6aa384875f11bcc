"""Faults at named steps: where one is put, and `aborted`, which ends a run in this process as a SIGKILL ends a driver.

An `Abort` is an exception that nothing catches. On its way up it passes the ``finally`` of the product, which a killed
process does not run, so the lake is put back as it lay at the moment of the fault; then this process is as a new driver.
`tests/chaos/test_an_abort_is_a_kill.py` shows that real SIGKILLs leave the same files.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch


class Abort(BaseException):
    """Ends a run at a step."""


@contextmanager
def fault(at: str, act: Callable[[Any], None], *, batch: int = 0) -> Iterator[None]:
    """Call something right before or after a step of what runs inside.

    Args:
        at: ``<before|after>:<step>:<flow>``, a step of `tidegate.spark.batch.micro_batch`, of
            `tidegate.spark.reprocessing.reentry` or of `tidegate.spark.flow`.
        act: Called with the flow's context.
        batch: At which time that the flow comes to the step, from 0.
    """
    from tidegate.spark import flow as flow_module
    from tidegate.spark.batch import micro_batch
    from tidegate.spark.reprocessing import reentry

    when, step, flow = at.split(":")
    assert when in ("before", "after"), at
    module = next(each for each in (micro_batch, reentry, flow_module) if hasattr(each, step))
    original = getattr(module, step)
    reached = -1

    @functools.wraps(original)
    def watched(context: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal reached
        if context.flow.name == flow:
            reached += 1
        here = context.flow.name == flow and reached == batch
        if here and when == "before":
            act(context)
        result = original(context, *arguments, **named)
        if here and when == "after":
            act(context)
        return result

    with patch.object(module, step, watched):
        yield


@contextmanager
def aborted(at: str, lake: Path, spark: Any, *, batch: int = 0) -> Iterator[None]:
    """Abort the run inside at a step; behind it the lake is what a kill there leaves. Fails unless the run got there.

    Args:
        at: As `fault` takes it.
        lake: The lake that the run writes to.
        spark: This process's session.
        batch: As `fault` takes it.
    """
    aborts: list[Abort] = []
    cached = spark._jsparkSession.sharedState().cacheManager()
    spark.catalog.clearCache()
    with tempfile.TemporaryDirectory(dir=lake.parent, prefix="aborted-") as folder:
        moment = Path(folder) / "lake"

        def abort(_context: Any) -> None:
            shutil.copytree(lake, moment, symlinks=True)
            aborts.append(Abort(at))
            raise aborts[0]

        with _through_spark(aborts), fault(at, abort, batch=batch):
            try:
                yield
            except Abort as error:
                assert error is aborts[0]
                error.__traceback__ = None
            else:
                raise AssertionError(f"the run ended, but was to be aborted at {at}")
        assert not spark.streams.active, "the aborted query still runs"
        assert cached.isEmpty(), "the aborted batch left rows in memory"
        shutil.rmtree(lake)
        moment.rename(lake)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@contextmanager
def _through_spark(aborts: list[Abort]) -> Iterator[None]:
    """Carries an abort out of a micro-batch, which runs in a thread of py4j that must answer the JVM, to who waits for it."""
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.utils import ForeachBatchFunction

    call, await_termination = ForeachBatchFunction.call, StreamingQuery.awaitTermination

    def answered(self: Any, *arguments: Any) -> None:
        try:
            call(self, *arguments)
        except Abort as abort:
            raise RuntimeError("the batch was aborted") from abort

    def awaited(self: Any, *arguments: Any) -> Any:
        try:
            return await_termination(self, *arguments)
        except Exception:
            if aborts:
                raise aborts[0] from None
            raise

    with (
        patch.object(ForeachBatchFunction, "call", answered),
        patch.object(StreamingQuery, "awaitTermination", awaited),
    ):
        yield
