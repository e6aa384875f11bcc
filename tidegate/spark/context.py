"""What every step of a flow's micro-batches needs to know."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import identity
from tidegate.checkpoints import progress, refusal
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.errors import SpecError, TidegateError
from tidegate.layout import Layout
from tidegate.pages import Batch, publish
from tidegate.report import BatchRecord, FlowReport, Verdict, now
from tidegate.request import RunRequest
from tidegate.spec import FileSource, Flow, KafkaSource, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.checkpoints.refusal import Taken
    from tidegate.spark.gate import SuiteGate

log = logging.getLogger("tidegate")

Transform = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True, kw_only=True)
class Reentry:
    """Which claim of a replay the flow works on; it goes the way of a micro-batch."""

    number: int
    """Stands where the batch id does."""
    moment_ms: int
    """When it began, in milliseconds since 1970."""
    entries: tuple[Mapping[str, str], ...]
    """``_row_id`` and ``source`` of what it has in hand."""


@dataclass(kw_only=True)
class FlowContext:
    """One flow in one attempt."""

    spark: SparkSession
    layout: Layout
    kafka: str
    """Bootstrap servers."""
    pipeline: Pipeline
    flow: Flow
    ref: CheckpointRef
    target: Path
    """Where batches are written: the live table, or the staging table of a full refresh."""
    landing: FileSource | KafkaSource | None
    """The landing source behind the bronze table that this flow reads, or its own; None behind a keyed table."""
    source_keys: tuple[str, ...]
    """Keys of the table that the change feed belongs to; empty for bronze."""
    source_table: Path | None
    transform: Transform | None
    gate: SuiteGate | None
    request: RunRequest
    attempt: str
    report: FlowReport
    told: Callable[[], None]
    """Writes the run report; called when there is something new to tell."""
    registry: str = ""
    """Address of the schema registry; empty without one."""
    error: TidegateError | None = None
    """What a micro-batch raised. Spark hands only its text on, so it is kept by reference."""
    persisted: list[DataFrame] = field(default_factory=list)
    replay: Reentry | None = None
    """Set while quarantined entries, and not new rows of the source, are on their way."""

    @property
    def run_key(self) -> str:
        """The run's folder under ``reports/``."""
        return self.request.run_key

    @property
    def app_id(self) -> str:
        """The ``txnAppId`` of all writes: the checkpoint's, or that of the replays."""
        return self.ref.app_id if self.replay is None else self.replays_app_id

    @property
    def replays_app_id(self) -> str:
        """The ``txnAppId`` that all replays of the flow's quarantine share, whatever its checkpoint."""
        return f"{self.ref.dag_id}/{self.ref.flow}/{identity.REPLAY}"

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint folder."""
        return self.ref.path(self.layout)

    @property
    def live(self) -> Path:
        """The table that readers see."""
        return self.layout.table(self.flow.target.name)

    @property
    def quarantine(self) -> Path:
        """Where refused rows and files go."""
        return self.layout.quarantine(self.pipeline.name, self.flow.name)

    def taken(self, batch_id: int) -> Taken | None:
        """A person's decision that this batch of the stream goes to quarantine whole; None when there is none."""
        if self.replay is not None or self.ref.purpose:
            return None
        return refusal.taken(self.layout, self.ref, batch_id)

    def planned_ms(self, batch_id: int) -> int:
        """When a batch was planned, in milliseconds since 1970: the same on every rerun of it."""
        if self.replay is not None:
            return self.replay.moment_ms
        return progress.planned_batch(self.checkpoint, batch_id).timestamp_ms

    def refresh(self, ref: CheckpointRef) -> None:
        """Go on with the checkpoint of a full refresh; the folder makes it the one in use, also after a crash."""
        self.ref = ref
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        self.report.refresh = ref.refresh

    def tell_batch(self, record: BatchRecord) -> None:
        """Put a finished batch into the report, and its page into the lake."""
        self.report.batches.append(record)
        own = (record.app_id, record.batch_id)
        judged = [verdict for verdict in self.report.verdicts if (verdict.app_id, verdict.batch_id) == own]
        self._publish(record.batch_id, record, judged[-1] if judged and record.kind != "swap" else None)
        self.told()

    def tell_verdict(self, verdict: Verdict) -> None:
        """Put a verdict into the report. A refused batch gets its page now, any other with its ledger line."""
        self.report.verdicts.append(verdict)
        if verdict.outcome == "refused":
            self._publish(verdict.batch_id, None, verdict)
        self.told()

    def tell_drift(self, batch_id: int, drift: str) -> None:
        """Give a batch that its frozen contract refused a page: no verdict, but what it brought, and how to answer."""
        self._publish(batch_id, None, None, drift)

    def _publish(self, batch_id: int, record: BatchRecord | None, verdict: Verdict | None, drift: str = "") -> None:
        if self.ref.purpose or self.replay is not None:
            # Replays have numbers of their own: a page would take the place of a batch's.
            return
        batch = Batch(
            flow=self.flow.name,
            checkpoint_version=self.ref.version,
            refresh=self.ref.refresh,
            batch_id=batch_id,
            run_key=self.run_key,
            attempt=self.attempt,
            at=now(),
            record=record,
            verdict=verdict,
            drift=drift,
        )
        try:
            page = publish(self.layout, self.pipeline, batch)
        except Exception as error:
            # The batch is done and recorded. A full disk, or a fault in a page, is no reason to stop the rows behind it.
            log.warning(
                "%s: the page of batch %d was not written (%s); `tidegate docs %s` makes it anew",
                *(self.flow.name, batch_id, type(error).__name__, self.pipeline.name),
            )
            return
        self.report.docs = str(page.relative_to(self.layout.lake))

    def of_windows(self) -> FlowContext:
        """The flow under the transaction id of what it does for a window, beside its stream."""
        return replace(
            self,
            spark=self.spark.newSession(),
            ref=replace(self.ref, purpose=identity.WINDOW),
            target=self.live,
            persisted=[],
        )

    def release(self) -> None:
        """Give back what the batch persisted."""
        while self.persisted:
            self.persisted.pop().unpersist()


def resolve_transform(name: str) -> Transform:
    """The function that ``module:function`` names in ``spark_jobs``.

    Raises:
        SpecError: The module or the function does not exist, or importing it fails.
    """
    module_name, _, function_name = name.partition(":")
    try:
        module: Any = importlib.import_module(f"spark_jobs.{module_name}")
    except Exception as error:
        raise SpecError(f"transform {name!r}: spark_jobs/{module_name}.py cannot be imported ({error})") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise SpecError(f"transform {name!r}: spark_jobs/{module_name}.py has no function {function_name!r}")
    return function  # type: ignore[no-any-return]  # any callable; what it returns is checked per batch
