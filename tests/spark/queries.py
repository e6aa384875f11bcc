"""Watches the queries that flows start: each has a batch, and one that was not started would have had none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tidegate.checkpoints import progress
from tidegate.spark import flow
from tidegate.spark.intake import file_stream

if TYPE_CHECKING:
    from tidegate.spark.job import Job


@contextmanager
def _watched() -> Iterator[list[str]]:
    """Fails if a query had no batch although the last batch of its checkpoint was committed.

    The query of a flow that starts none is started after all, to see that it has no batch.

    Yields:
        The names of flows that started no query, one for each run.
    """
    drain, record = flow._drain, vars(flow)["record_progress"]
    started: list[str] = []
    idle: list[str] = []

    def recorded(*args: Any, **options: Any) -> Any:
        started.append("")
        return record(*args, **options)

    def drained(job: Job, reading: Job) -> None:
        checkpoint = job.place.checkpoint
        before, settled = progress.read(checkpoint), progress.settled(checkpoint)
        started.clear()
        drain(job, reading)
        if started:
            has_batch = progress.read(checkpoint).last_planned != before.last_planned
            assert settled is None or has_batch, f"{job.flow.name}: the query had no batch"
            return
        idle.append(job.flow.name)
        with (
            patch.object(progress, "settled", lambda _: None),
            patch.object(file_stream, "_is_settled", lambda *_, **__: False),
        ):
            drain(job, reading)
        assert started, f"{job.flow.name}: the query did not start"
        assert progress.read(checkpoint) == before, f"{job.flow.name}: the query had a batch"

    with patch.object(flow, "_drain", drained), patch.object(flow, "record_progress", recorded):
        yield idle


def expect_idle(run: Callable[[], object], *flows: str) -> None:
    """Check that a run starts no query for these flows, and that each of them would have had no batch."""
    with _watched() as idle:
        run()
    assert idle == list(flows)
