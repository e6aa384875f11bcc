"""`FlowContext`: the state of one flow in one attempt, which every step of its micro-batches is given."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import identity
from tidegate.checkpoints import progress, refusal
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.errors import SpecError, TidegateError
from tidegate.layout import Layout
from tidegate.pages import Batch
from tidegate.pages import publish as publish_page
from tidegate.report import BatchRecord, FlowReport, Verdict, now
from tidegate.request import RunRequest
from tidegate.resolution import ResolvedFlow
from tidegate.spec import ChangeFeed, Flow, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.checkpoints.refusal import BatchDecision
    from tidegate.spark.gate import SuiteGate

log = logging.getLogger("tidegate")

Transform = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The claim of quarantined entries that a replay processes; it goes through the same steps as a micro-batch."""

    number: int
    """The number of the replay; used in place of the batch id."""
    started_ms: int
    """When the replay began, in milliseconds since 1970."""
    entries: tuple[Mapping[str, str], ...]
    """``_row_id`` and ``source`` of the claimed entries."""


@dataclass(kw_only=True)
class FlowContext:
    """One flow in one attempt."""

    spark: SparkSession
    layout: Layout
    kafka: str
    """Bootstrap servers."""
    resolved: ResolvedFlow
    ref: CheckpointRef
    target: Path
    """Where batches are written: the live table, or the staging table of a full refresh."""
    transform: Transform | None
    gate: SuiteGate | None
    request: RunRequest
    attempt: str
    report: FlowReport
    publish: Callable[[], None]
    """Writes the run report to the lake; called after each change of ``report``."""
    registry: str = ""
    """Address of the schema registry; empty without one."""
    error: TidegateError | None = None
    """What a micro-batch raised. Spark passes on only the text of an exception, so the object is kept here."""
    persisted: list[DataFrame] = field(default_factory=list)
    """DataFrames that the current batch persisted; `release` unpersists them."""
    replay: Replay | None = None
    """Set while quarantined entries are processed instead of new rows of the source."""

    @property
    def pipeline(self) -> Pipeline:
        """The flow's pipeline."""
        return self.resolved.pipeline

    @property
    def flow(self) -> Flow:
        """The declaration of the flow."""
        return self.resolved.flow

    @property
    def source_table(self) -> Path | None:
        """The table whose change feed the flow reads; None for landing flows."""
        return self.layout.table(self.flow.source.table) if isinstance(self.flow.source, ChangeFeed) else None

    @property
    def run_key(self) -> str:
        """The run's folder under ``reports/``."""
        return self.request.run_key

    @property
    def app_id(self) -> str:
        """The ``txnAppId`` of all writes: the checkpoint's, or in a replay `replays_app_id`."""
        return self.ref.app_id if self.replay is None else self.replays_app_id

    @property
    def replays_app_id(self) -> str:
        """The ``txnAppId`` of all replays of the flow's quarantine, for every checkpoint version."""
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
        """The flow's quarantine table."""
        return self.layout.quarantine(self.pipeline.name, self.flow.name)

    def take_out_decision(self, batch_id: int) -> BatchDecision | None:
        """The decision that all rows of this batch go to quarantine; None when there is none, and in a replay or a backfill."""
        if self.replay is not None or self.ref.purpose:
            return None
        return refusal.decision(self.layout, self.ref, batch_id)

    def planned_ms(self, batch_id: int) -> int:
        """When Spark planned the batch (its offset log), in milliseconds since 1970; the same on every rerun."""
        if self.replay is not None:
            return self.replay.started_ms
        return progress.planned_batch(self.checkpoint, batch_id).timestamp_ms

    def refresh(self, ref: CheckpointRef) -> None:
        """Switch to a new refresh of the checkpoint and create its folder, which makes it the current one after a crash as well."""
        self.ref = ref
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        self.report.refresh = ref.refresh

    def record_batch(self, record: BatchRecord) -> None:
        """Add a finished batch to the report and write its page."""
        self.report.batches.append(record)
        key = (record.app_id, record.batch_id)
        verdicts = [verdict for verdict in self.report.verdicts if (verdict.app_id, verdict.batch_id) == key]
        self._publish_page(record.batch_id, record, verdicts[-1] if verdicts and record.kind != "swap" else None)
        self.publish()

    def record_verdict(self, verdict: Verdict) -> None:
        """Add a verdict to the report. The page of a refused batch is written now, any other by `record_batch`."""
        self.report.verdicts.append(verdict)
        if verdict.outcome == "refused":
            self._publish_page(verdict.batch_id, None, verdict)
        self.publish()

    def record_schema_change(self, batch_id: int, schema_change_id: str) -> None:
        """Write the page of a batch that its frozen contract refused: the schema changes, without a verdict."""
        self._publish_page(batch_id, None, None, schema_change_id)

    def _publish_page(
        self, batch_id: int, record: BatchRecord | None, verdict: Verdict | None, schema_change_id: str = ""
    ) -> None:
        if self.ref.purpose or self.replay is not None:
            # Replays and backfills are numbered separately: their page would overwrite that of a batch with the same number.
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
            schema_change_id=schema_change_id,
        )
        try:
            page = publish_page(self.layout, self.pipeline, batch)
        except Exception as error:
            # The batch is written and recorded: a full disk or a fault in a page must not stop the batches after it.
            log.warning(
                "%s: the page of batch %d was not written (%s); `tidegate docs %s` writes it again",
                *(self.flow.name, batch_id, type(error).__name__, self.pipeline.name),
            )
            return
        self.report.docs = str(page.relative_to(self.layout.lake))

    def for_windows(self) -> FlowContext:
        """A copy of the context with the transaction id of its backfills and reingests of windows, and a session of its own."""
        return replace(
            self,
            spark=self.spark.newSession(),
            ref=replace(self.ref, purpose=identity.WINDOW),
            target=self.live,
            persisted=[],
        )

    def release(self) -> None:
        """Unpersist the DataFrames of the batch."""
        while self.persisted:
            self.persisted.pop().unpersist()


def import_transform(name: str) -> Transform:
    """The function ``module:function`` of the package ``spark_jobs``, which `tidegate.resolution` has checked.

    Raises:
        SpecError: Importing the module fails.
    """
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(f"spark_jobs.{module_name}")
        return getattr(module, function_name)  # type: ignore[no-any-return]  # what it returns is checked per batch
    except Exception as error:
        raise SpecError(f"transform {name!r}: spark_jobs/{module_name}.py cannot be imported ({error})") from error
