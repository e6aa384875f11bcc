"""Faults at named steps, and `aborted`, which simulates a SIGKILL of a driver in this process.

An `Abort` is an exception that nothing catches. It runs the ``finally`` blocks of the product, which a killed process
does not run, so the lake is restored to its state at the fault. Afterwards this process acts as a new driver.
`tests/chaos/test_an_abort_is_a_kill.py` shows that real SIGKILLs leave the same files.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.lakes_in_buckets import lakes_in_buckets


class Abort(BaseException):
    """Aborts a run at a step."""


@contextmanager
def fault(at: str, act: Callable[[Any], None], *, batch: int = 0) -> Iterator[None]:
    """Call a function right before or after a step of the code that runs in this job.

    Args:
        at: ``<before|after>:<step>:<flow>``, a step of `tidegate.spark.batch.micro_batch`, of
            `tidegate.spark.reprocessing.replay` or of `tidegate.spark.flow`.
        act: Called with the flow's job.
        batch: At which call of the step by the flow, from 0.
    """
    from tidegate.spark import flow as flow_module
    from tidegate.spark.batch import micro_batch
    from tidegate.spark.reprocessing import replay

    when, step, flow = at.split(":")
    assert when in ("before", "after"), at
    module = next(each for each in (micro_batch, replay, flow_module) if hasattr(each, step))
    original = getattr(module, step)
    reached = -1

    @functools.wraps(original)
    def wrapper(job: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal reached
        if job.flow.name == flow:
            reached += 1
        here = job.flow.name == flow and reached == batch
        if here and when == "before":
            act(job)
        result = original(job, *args, **kwargs)
        if here and when == "after":
            act(job)
        return result

    with patch.object(module, step, wrapper):
        yield


@contextmanager
def aborted(at: str, lake: Path, spark: Any, *, batch: int = 0) -> Iterator[None]:
    """Abort the run in this job at a step and leave the lake as a kill would. Fails if the run does not reach the step.

    Args:
        at: See `fault`.
        lake: The lake of the run.
        spark: The session of this process.
        batch: See `fault`.
    """
    with aborting(lambda act: fault(at, act, batch=batch), lake, spark):
        yield


@contextmanager
def aborting(
    arm: Callable[[Callable[[Any], None]], AbstractContextManager[None]],
    lake: Path,
    spark: Any,
    *,
    must_abort: bool = True,
) -> Iterator[None]:
    """Abort the run in this job where ``arm`` says, and leave the lake as a kill would.

    Args:
        arm: A job in which the function that it is given is called at most once, where the run is to be aborted.
        lake: The lake of the run.
        spark: The session of this process.
        must_abort: Fail if the run ended before.
    """
    aborts: list[Abort] = []
    cached = spark._jsparkSession.sharedState().cacheManager()
    spark.catalog.clearCache()
    with tempfile.TemporaryDirectory(dir=lake.parent, prefix="aborted-") as folder:
        copy = Path(folder) / "lake"

        def abort(_context: Any) -> None:
            shutil.copytree(lake, copy, symlinks=True)
            aborts.append(Abort("the run was aborted here"))
            raise aborts[0]

        with _abort_through_spark(aborts), arm(abort):
            try:
                yield
            except Abort as error:
                assert error is aborts[0]
                error.__traceback__ = None
            else:
                assert not must_abort, "the run ended before the step"
                return
        assert not spark.streams.active, "the aborted query still runs"
        assert cached.isEmpty(), "the aborted batch left cached frames"
        for record in (lake / "leases").glob("*.json") if lakes_in_buckets() else ():
            # As locks of a folder, those of a process that has ended are free.
            shutil.copy2(record, copy / "leases" / record.name)
        shutil.rmtree(lake)
        copy.rename(lake)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@contextmanager
def _abort_through_spark(aborts: list[Abort]) -> Iterator[None]:
    """Raise an abort of a micro-batch, which runs in a py4j thread, from the call that waits for the query."""
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.utils import ForeachBatchFunction

    call, await_termination = ForeachBatchFunction.call, StreamingQuery.awaitTermination

    def patched_call(self: Any, *args: Any, **options: Any) -> None:
        try:
            call(self, *args, **options)
        except Abort as abort:
            raise RuntimeError("the batch was aborted") from abort

    def patched_await(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return await_termination(self, *args, **options)
        except Exception:
            if aborts:
                raise aborts[0] from None
            raise

    with (
        patch.object(ForeachBatchFunction, "call", patched_call),
        patch.object(StreamingQuery, "awaitTermination", patched_await),
    ):
        yield
