"""`FlowContext`: what every step of a flow's micro-batches is given."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidegate.advice import Edit
from tidegate.errors import SpecError
from tidegate.layout import Layout
from tidegate.place import AttemptPlace, Place
from tidegate.report import BatchRecord, FlowReport, Verdict
from tidegate.request import RunRequest
from tidegate.resolution import ResolvedFlow
from tidegate.spec import Flow, Pipeline
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.batch.work import Work
    from tidegate.spark.gate import SuiteGate
    from tidegate.spark.kinds.kind import Kind
    from tidegate.table_history import Position

Transform = Callable[..., "DataFrame"]
"""Takes the rows of the first source, and by name those of the others."""


@dataclass(frozen=True, kw_only=True)
class Stores:
    """Where a run reads and writes."""

    spark: SparkSession
    layout: Layout
    kafka: str
    """Bootstrap servers."""
    registry: str = ""
    """Address of the schema registry; empty without one."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One attempt at a request, for one flow."""

    request: RunRequest
    attempt: str
    report: FlowReport
    publish: Callable[[], None]
    """Writes the run report to the lake; called after each change of ``report``."""


@dataclass(frozen=True, kw_only=True)
class FlowContext:
    """One flow in one attempt, and what is done to it. Another checkpoint or other work is a new context."""

    stores: Stores
    run: Run
    resolved: ResolvedFlow
    kind: Kind
    place: Place
    work: Work
    transform: Transform | None
    gate: SuiteGate | None
    persisted: list[DataFrame] = field(default_factory=list)
    """DataFrames that the current batch persisted; `release` unpersists them."""

    proven: dict[Address, Position] = field(default_factory=dict)
    """The newest position in each table whose history was proven in this run (`tidegate.spark.batch.proofs`)."""

    @property
    def spark(self) -> SparkSession:
        """The session, which is not that of a stream's batches."""
        return self.stores.spark

    @property
    def layout(self) -> Layout:
        """The lake and the landing zone."""
        return self.stores.layout

    @property
    def attempt_place(self) -> AttemptPlace:
        """The attempt in the lake."""
        return AttemptPlace(self.layout, self.pipeline.name, self.run_key, self.attempt)

    @property
    def request(self) -> RunRequest:
        """The request of the run."""
        return self.run.request

    @property
    def attempt(self) -> str:
        """The id of the attempt."""
        return self.run.attempt

    @property
    def report(self) -> FlowReport:
        """The flow's part of the run report."""
        return self.run.report

    @property
    def pipeline(self) -> Pipeline:
        """The flow's pipeline."""
        return self.resolved.pipeline

    @property
    def flow(self) -> Flow:
        """The declaration of the flow."""
        return self.resolved.flow

    @property
    def source_table(self) -> Address | None:
        """The table whose change feed the flow reads, or the first of several; None for landing flows."""
        return next(iter(self.source_paths), None)

    @property
    def source_paths(self) -> tuple[Address, ...]:
        """The tables whose change feeds the flow reads, the first source first; none for landing flows."""
        return tuple(self.layout.table(table) for table in self.flow.source_tables)

    @property
    def query_paths(self) -> tuple[Address, ...]:
        """The tables that its query reads, in the order of Spark's offset log; none for landing flows.

        A stateful flow reads heartbeats before its source (`tidegate.spark.intake.ordered`).
        """
        beats = () if self.heartbeats is None else (self.heartbeats,)
        return (*beats, *self.source_paths)

    @property
    def heartbeats(self) -> Address | None:
        """The heartbeats of the flow that writes the source of a stateful flow; None for other flows."""
        if self.flow.state is None or self.resolved.writer is None:
            return None
        return replace(self.place, flow=self.resolved.writer.name).heartbeats

    @property
    def run_key(self) -> str:
        """The run's folder under ``reports/``."""
        return self.request.run_key

    @property
    def app_id(self) -> str:
        """The ``txnAppId`` of the writes."""
        return self.work.app_id(self.place)

    @property
    def target(self) -> Address:
        """The table that batches are written to."""
        return self.work.target(self)

    @property
    def checkpoint(self) -> Address:
        """Spark's checkpoint folder."""
        return self.place.checkpoint

    @property
    def live(self) -> Address:
        """The table that readers see."""
        return self.layout.table(self.flow.target.name)

    @property
    def quarantine(self) -> Address:
        """The flow's quarantine table."""
        return self.place.quarantine

    @property
    def late(self) -> Address:
        """The table of the flow's late rows."""
        return self.place.late

    def with_fingerprints(self, record: BatchRecord) -> BatchRecord:
        """The record with the fingerprints of today's suite and transform."""
        suite = None if self.gate is None else self.gate.suite.fingerprint
        return replace(record, suite_fingerprint=suite, code_fingerprint=self.resolved.code_fingerprint() or None)

    def refreshed(self, place: Place) -> FlowContext:
        """The flow with a new refresh of its checkpoint, whose folder makes it the current one after a crash as well."""
        context = replace(self, place=place)
        context.checkpoint.make_folder()
        self.report.refresh = place.refresh
        return context

    def doing(self, work: Work, spark: SparkSession | None = None) -> FlowContext:
        """The flow with other work, and optionally in another session."""
        return replace(self, work=work, stores=self.stores if spark is None else replace(self.stores, spark=spark))

    def record_batch(self, record: BatchRecord) -> None:
        """Add a finished batch to the report."""
        self.report.batches.append(record)
        self.run.publish()

    def record_verdict(self, verdict: Verdict) -> None:
        """Add a verdict to the report."""
        self.report.verdicts.append(verdict)
        self.run.publish()

    def release(self) -> None:
        """Unpersist the DataFrames of the batch."""
        while self.persisted:
            self.persisted.pop().unpersist()


def import_function(name: str, role: str) -> Any:
    """The function ``module:function`` of the package ``spark_jobs``.

    Args:
        name: The function, as it is declared.
        role: What it is, and of which flow, for the error.

    Raises:
        SpecError: Importing the module fails, or it has no such function.
    """
    module_name, _, function_name = name.partition(":")
    try:
        return getattr(importlib.import_module(f"spark_jobs.{module_name}"), function_name)
    except Exception as error:
        raise SpecError(
            f"{role} {name!r}: spark_jobs/{module_name}.py cannot be imported ({error})",
            Edit("correct it", "transform"),
        ) from error
