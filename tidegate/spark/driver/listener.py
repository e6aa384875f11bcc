"""Hears from Spark of every micro-batch of a flow's query, and adds a line each to the pipeline's progress.

Spark calls a Python listener from the thread of its event bus, through the callback server that ``foreachBatch``
uses as well; events come in order, some time after the batch, and the end of the query last (docs/adr/0016).
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from tidegate.ops import metrics

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext

LAST_WORDS_SECONDS = 10.0
"""How long to wait for the events of a query that has ended; they take milliseconds."""
WRITTEN_EVERY_SECONDS = 30.0
"""How often lines are written while a query goes on: a commit for each batch would cost more than it tells."""

log = logging.getLogger("tidegate")


@contextmanager
def recorded_progress(context: FlowContext) -> Iterator[None]:
    """Record the progress of the query that is started inside, to its last event.

    Metrics never fail a run: what cannot be recorded is told in the log.
    """
    listener = Recorder(context)
    try:
        context.spark.streams.addListener(listener)
    except Exception as error:
        listener.complain(error)
    try:
        yield
    finally:
        if not listener.await_end(LAST_WORDS_SECONDS):
            log.warning("%s: Spark did not tell of the query's end; its last metrics may be missing", context.flow.name)
        listener.write()
        try:
            context.spark.streams.removeListener(listener)
        except Exception as error:
            # A JVM that is gone has said so already, by what ended the query.
            listener.complain(error)


class Recorder(StreamingQueryListener):
    """Hears of one flow's query; other queries of the session are none of its business."""

    def __init__(self, context: FlowContext) -> None:
        self._flow = context.flow.name
        self._app_id = context.app_id
        self._of_run = {
            "flow": context.flow.name,
            "app_id": context.app_id,
            "run_key": context.run_key,
            "attempt": context.attempt,
            "mode": context.request.mode,
        }
        self._path = context.layout.ops(context.pipeline.name, "progress")
        self._lines: list[metrics.QueryProgress] = []
        self._written_at = time.monotonic()
        self._started: object = None
        self._ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:
        """Spark's, as the next two."""
        if event.name == self._app_id:
            self._started = event.runId

    def onQueryProgress(self, event: Any) -> None:
        """After a micro-batch."""
        told = event.progress
        # A trigger that found nothing ran no batch. The number of input rows does not tell: a landing batch opens its files
        # itself, and Spark sees no row of them.
        if told.runId != self._started or "addBatch" not in told.durationMs:
            return
        try:
            line = metrics.QueryProgress.from_spark(json.loads(told.json), recorded_at=metrics.now(), **self._of_run)
        except Exception as error:
            self.complain(error)
            return
        self._lines.append(line)
        if time.monotonic() - self._written_at > WRITTEN_EVERY_SECONDS:
            self.write()

    def onQueryTerminated(self, event: Any) -> None:
        """After all others."""
        if event.runId == self._started:
            self._ended.set()

    def await_end(self, seconds: float) -> bool:
        """Whether the query's last event came in time; a query that never started has none."""
        return self._started is None or self._ended.wait(seconds)

    def write(self) -> None:
        """Write what was heard since the last time."""
        lines, self._lines, self._written_at = self._lines, [], time.monotonic()
        try:
            if lines:
                metrics.append(self._path, lines)
        except Exception as error:
            self.complain(error)

    def complain(self, error: Exception) -> None:
        """Say in the log that lines are lost."""
        # Its text may quote anything.
        log.warning("%s: metrics of its batches were not recorded: %s", self._flow, type(error).__name__)
