"""Records the progress of each micro-batch: one line per batch in the pipeline's progress table.

Spark calls a Python listener from the thread of its event bus, through the callback server that ``foreachBatch``
also uses. Events arrive in order and some time after the batch; the termination of the query comes last (docs/adr/0016).
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from tidegate.ops import metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.lake.place import Place
    from tidegate.spark.job import Run

TERMINATION_TIMEOUT_SECONDS = 10.0
"""How long to wait for the last events of a query that has ended; they normally take milliseconds."""
WRITE_INTERVAL_SECONDS = 30.0
"""How often lines are written while a query runs: one commit per batch would cost more than the lines are worth."""

log = logging.getLogger("tidegate")


@contextmanager
def record_progress(spark: SparkSession, place: Place, run: Run, app_id: str) -> Iterator[None]:
    """Record the progress of the query that is started in this block, up to its last event.

    A failure to record metrics is logged and never fails the run.
    """
    listener = ProgressRecorder(spark, place, run, app_id)
    try:
        spark.streams.addListener(listener)
    except Exception as error:
        listener.log_failure(error)
    try:
        yield
    finally:
        if not listener.await_termination(TERMINATION_TIMEOUT_SECONDS):
            log.warning("%s: Spark sent no event for the end of the query; its last metrics may be missing", place.flow)
        listener.write()
        try:
            spark.streams.removeListener(listener)
        except Exception as error:
            # If the JVM is gone, the error that ended the query has been reported already.
            listener.log_failure(error)


class ProgressRecorder(StreamingQueryListener):
    """Records the progress of one flow's query and ignores other queries of the session."""

    def __init__(self, spark: SparkSession, place: Place, run: Run, app_id: str) -> None:
        self._spark = spark
        self._listener: Any = None
        self._flow = place.flow
        self._app_id = app_id
        self._run_columns = {
            "flow": place.flow,
            "app_id": app_id,
            "run_key": run.request.run_key,
            "attempt": run.place.attempt,
            "mode": run.request.mode,
        }
        self._checkpoint = place.checkpoint
        self._path = place.of_pipeline.ops("progress")
        self._lines: list[metrics.QueryProgress] = []
        self._written_at = time.monotonic()
        self._started: str | None = None
        self._ended = threading.Event()

    @property
    def _jlistener(self) -> Any:
        if self._listener is None:
            jvm: Any = self._spark._jvm
            wrapper = getattr(jvm, "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper")
            self._listener = wrapper(_JsonEvents(self))
        return self._listener

    def onQueryStarted(self, event: Any) -> None:
        """Called by Spark, as the next two."""
        if event.name == self._app_id:
            self._started = str(event.runId)

    def onQueryProgress(self, event: Any) -> None:
        """Called after a micro-batch.

        Args:
            event: The JSON of Spark's ``StreamingQueryProgress`` (`_JsonEvents`).
        """
        try:
            progress = json.loads(event)
            # A trigger without new data has no "addBatch". The number of input rows is no criterion: a landing batch opens its
            # files itself, so that Spark counts no rows.
            if progress["runId"] != self._started or "addBatch" not in progress.get("durationMs", {}):
                return
            line = metrics.QueryProgress.from_spark(
                progress, self._checkpoint, recorded_at=metrics.now(), **self._run_columns
            )
        except Exception as error:
            self.log_failure(error)
            return
        self._lines.append(line)
        if time.monotonic() - self._written_at > WRITE_INTERVAL_SECONDS:
            self.write()

    def onQueryTerminated(self, event: Any) -> None:
        """Called last."""
        if str(event.runId) == self._started:
            self._ended.set()

    def await_termination(self, seconds: float) -> bool:
        """Wait for the query's last event; False after ``seconds``. True at once for a query that never started."""
        return self._started is None or self._ended.wait(seconds)

    def write(self) -> None:
        """Append the lines of all batches since the last call to the progress table."""
        lines, self._lines, self._written_at = self._lines, [], time.monotonic()
        try:
            if lines:
                metrics.append(self._path, lines)
        except Exception as error:
            self.log_failure(error)

    def log_failure(self, error: Exception) -> None:
        """Log that lines are lost, without the text of the exception, which may quote data."""
        log.warning("%s: metrics of its batches were not recorded: %s", self._flow, type(error).__name__)


class _JsonEvents(JStreamingQueryListener):
    """Passes on the progress of a micro-batch as JSON. PySpark would read its fields one by one, with over a hundred calls."""

    def onQueryProgress(self, jevent: Any) -> None:
        """Called by Spark."""
        self.pylistener.onQueryProgress(jevent.progress().json())
