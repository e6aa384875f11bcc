"""The application: one run of a pipeline's flows in graph order, in one JVM, told in one report."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from tidegate import fingerprints, registry
from tidegate.checkpoints import checkpoint, intervention
from tidegate.embedded import bytecode
from tidegate.environment import Environment
from tidegate.errors import ContractRefusedError, GateRefusedError, LakeUnwritableError, SpecError, TidegateError
from tidegate.layout import Layout
from tidegate.report import FlowReport, RunReport, describe_error, now
from tidegate.request import RunRequest
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSource, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.checkpoints.intervention import Intervention
    from tidegate.spark.context import FlowContext
    from tidegate.spark.gate import Suite

log = logging.getLogger("tidegate")

_NO_BYTECODE = (
    "the installed packages have no bytecode, so every job starts 8 s later: run `python -m tidegate.embedded.bytecode`"
)


def run_job(environment: Environment, request: RunRequest, attempt: str) -> RunReport:
    """Run what was asked for and hand back what happened; the report lies in the lake all the while.

    A flow that is refused or fails ends itself and the flows that read from it; others go on.

    Args:
        environment: Places and limits.
        request: Checked.
        attempt: The attempt's id.

    Raises:
        TidegateError: An error of the whole application, before any flow ran.
    """
    return _Job(environment, request, attempt).run()


class _Job:
    def __init__(self, environment: Environment, request: RunRequest, attempt: str) -> None:
        self.environment = environment
        self.layout = Layout.of(environment)
        self.request = request
        self.attempt = attempt
        self.path = self.layout.report(request.dag_id, request.run_key, attempt)
        self.report = RunReport(dag_id=request.dag_id, run_key=request.run_key, attempt=attempt, started_at=now())
        self.suites: dict[str, Suite] = {}
        self.suite_error: Exception | None = None
        self.off: dict[str, Intervention] = {}
        self.blocked: dict[str, TidegateError] = {}

    def run(self) -> RunReport:
        started = time.monotonic()
        try:
            pipeline = registry.load(self.request.dag_id)
            flows = self.request.chosen(pipeline)
            self.report.flows = [
                FlowReport(flow=flow.name, target=flow.target.name, checkpoint_version=flow.checkpoint_version)
                for flow in flows
            ]
            with _Part(self.report, "preflight"):
                self._preflight(pipeline, flows)
            self.tell()
            if not self._runnable(pipeline, flows):
                self._block_all()
                return self.report
            loading = self._load_suites(flows)
            with _Part(self.report, "session"):
                spark = self._session()
            if loading is not None:
                with _Part(self.report, "gx_wait"):
                    loading.join()
            if self.suite_error is not None:
                raise self.suite_error
            with _Part(self.report, "flows"):
                self._run_flows(spark, pipeline, flows)
        except Exception as error:
            self.report.error = describe_error(error)
            raise
        finally:
            self.report.ended_at = now()
            self.report.parts["total"] = round(time.monotonic() - started, 3)
            self._tell_the_end()
        return self.report

    def tell(self) -> None:
        """Write the report as it stands.

        Raises:
            LakeUnwritableError: There is no room for it. Transient.
        """
        try:
            self.report.write(self.path)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
            raise LakeUnwritableError(
                f"the lake at {self.layout.lake} takes no more ({os.strerror(error.errno)}); free space and run again"
            ) from error

    def _tell_the_end(self) -> None:
        # Whatever ended the run says more than that there was no room left to report it.
        with contextlib.suppress(LakeUnwritableError):
            self.tell()

    def _load_suites(self, flows: tuple[Flow, ...]) -> threading.Thread | None:
        """Great Expectations takes seconds to import; the session's start only waits for the JVM meanwhile."""
        gates = {flow.name: flow.gate.suite for flow in flows if flow.gate is not None}
        if not gates:
            return None

        # Both threads need pyspark; Python gives up when two import one package from two ends.
        import pyspark.sql.functions  # noqa: F401

        from tidegate.spark import gate

        def load() -> None:
            try:
                with _Part(self.report, "gx_import"):
                    gate.warm_up()
                if not bytecode.is_compiled(sys.modules["great_expectations"]):
                    self.report.notes.append(_NO_BYTECODE)
                    log.warning(_NO_BYTECODE)
                for name, suite in gates.items():
                    path = self.environment.project / "expectations" / f"{suite}.json"
                    self.suites[name] = gate.load_suite(path, suite)
            except Exception as error:
                self.suite_error = error

        thread = threading.Thread(target=load, name="load-suites", daemon=True)
        thread.start()
        return thread

    def _preflight(self, pipeline: Pipeline, flows: tuple[Flow, ...]) -> None:
        """Look at declarations and sources before there is a session; what is wrong with a flow is that flow's error."""
        from tidegate.status import lag

        self.layout.open()
        for flow, told in zip(flows, self.report.flows, strict=True):
            try:
                off = intervention.switched_off(self.layout, pipeline.name, flow.name)
                if off is not None:
                    self.off[flow.name] = off
                    continue
                checkpoint.check_compatible(self.layout, pipeline, flow)
                told.lag_before = lag.measure(self.environment, pipeline, flow).to_json()
            except TidegateError as error:
                self.blocked[flow.name] = error

    def _session(self) -> SparkSession:
        from tidegate.spark.driver.session import build_session

        spark = build_session(self.environment, f"tidegate {self.request.dag_id}")
        self.report.application = spark.sparkContext.applicationId
        flags = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions") or ""
        self.report.notes.append(f"AppCDS archive: {'used' if 'SharedArchiveFile' in flags else 'none'}")
        self.report.notes.append(f"compilation: {'C1 only' if 'TieredStopAtLevel=1' in flags else 'tiered'}")
        return spark

    def _runnable(self, pipeline: Pipeline, flows: tuple[Flow, ...]) -> bool:
        """Whether any flow can run; a flow behind one that cannot does not."""
        stopped: set[str] = set(self.blocked)
        for flow in flows:
            upstream = pipeline.upstream_of(flow)
            if upstream is not None and upstream.name in stopped:
                stopped.add(flow.name)
        return len(stopped) < len(flows)

    def _block_all(self) -> None:
        for told in self.report.flows:
            error = self.blocked.get(told.flow)
            told.state, told.error = ("failed", describe_error(error)) if error is not None else ("skipped", None)
            if error is not None:
                log.error("%s: %s", told.flow, error.message)

    def _run_flows(self, spark: SparkSession, pipeline: Pipeline, flows: tuple[Flow, ...]) -> None:
        stopped: dict[str, str] = {}
        for flow in flows:
            told = self.report.flow(flow.name)
            upstream = pipeline.upstream_of(flow)
            if upstream is not None and upstream.name in stopped:
                told.state, stopped[flow.name] = "skipped", flow.name
                log.info("%s: skipped, because %s did not get through", flow.name, upstream.name)
                continue
            if (off := self.off.get(flow.name)) is not None:
                told.state = "skipped"
                told.notes.append(off.told())
                log.info("%s: skipped, because it was %s", flow.name, off.told())
                continue
            told.state = "running"
            self.tell()
            if not self._run_one(spark, pipeline, flow, told):
                stopped[flow.name] = flow.name
            self.tell()

    def _run_one(self, spark: SparkSession, pipeline: Pipeline, flow: Flow, told: FlowReport) -> bool:
        from tidegate.spark.flow import note_refusal, run_flow
        from tidegate.spark.reprocessing.reentry import reenter

        log.info("%s: runs", flow.name)
        try:
            if flow.name in self.blocked:
                raise self.blocked[flow.name]
            context = self._context(spark, pipeline, flow, told)
            if self.request.selection is not None:
                reenter(context, self.request.selection, limit=self.request.limit, dry_run=self.request.dry_run)
            else:
                run_flow(context)
            told.state = "done" if told.batches else "idle"
        except (GateRefusedError, ContractRefusedError) as refusal:
            # What entries of the quarantine brought is no batch that waits, whatever its number.
            if self.request.selection is None:
                note_refusal(context, refusal)
            told.state, told.error = "refused", describe_error(refusal)
        except Exception as error:
            told.state, told.error = "failed", describe_error(error)
            log.error("%s: %s", flow.name, told.error["message"])
            self._keep_failure(flow, error)
        self._measure_after(pipeline, flow, told)
        log.info(
            "%s: %s; read %d, written %d, quarantined %d",
            flow.name,
            told.state,
            told.total("read"),
            told.total("written") + told.total("upserted"),
            told.total("quarantined"),
        )
        return told.state in ("done", "idle")

    def _keep_failure(self, flow: Flow, error: Exception) -> None:
        """Keep what Spark or Python said of an error, beside the report: it may quote data, so it is not logged."""
        if isinstance(error, TidegateError) and error.__cause__ is None:
            return
        path = self.path.with_name(f"failure-{flow.name}.txt")
        with contextlib.suppress(OSError):
            path.write_text("".join(traceback.format_exception(error)))
            log.error("%s: all that is known of it stands in %s", flow.name, path)

    def _measure_after(self, pipeline: Pipeline, flow: Flow, told: FlowReport) -> None:
        from tidegate.status import lag

        try:
            told.lag_after = lag.measure(self.environment, pipeline, flow).to_json()
        except TidegateError as error:
            told.lag_after = {"reason": error.message}

    def _context(self, spark: SparkSession, pipeline: Pipeline, flow: Flow, told: FlowReport) -> FlowContext:
        from tidegate.spark.context import FlowContext, resolve_transform
        from tidegate.spark.gate import SuiteGate, Surroundings

        ref = checkpoint.current(self.layout, pipeline, flow)
        told.refresh = ref.refresh
        landing: FileSource | KafkaSource | None = None
        source_keys: tuple[str, ...] = ()
        source_table = None
        if isinstance(flow.source, ChangeFeed):
            source_table = self.layout.table(flow.source.table)
            written = registry.writer_of(flow.source.table, pipeline)
            if written is None:
                raise SpecError(f"flow {flow.name!r}: no declared flow writes its source table {flow.source.table!r}")
            upstream = written[1]
            source_keys = upstream.target.keys
            if not source_keys:
                if isinstance(upstream.source, ChangeFeed):
                    raise SpecError(
                        f"flow {flow.name!r}: its source {flow.source.table!r} is neither a bronze table nor keyed; give it keys"
                    )
                landing = upstream.source
        gate = None
        if flow.gate is not None:
            module = (flow.transform or "").partition(":")[0]
            code = fingerprints.code_fingerprint(module) if module else ""
            gate = SuiteGate(self.suites[flow.name], code, Surroundings(self.layout, pipeline.name, flow.name))
        return FlowContext(
            spark=spark,
            layout=self.layout,
            kafka=self.environment.kafka,
            registry=self.environment.registry,
            pipeline=pipeline,
            flow=flow,
            ref=ref,
            target=self.layout.table(flow.target.name),
            landing=landing,
            source_keys=source_keys,
            source_table=source_table,
            transform=resolve_transform(flow.transform) if flow.transform else None,
            gate=gate,
            request=self.request,
            attempt=self.attempt,
            report=told,
            told=self.tell,
        )


class _Part:
    """Adds the seconds spent inside it to the report."""

    def __init__(self, report: RunReport, name: str) -> None:
        self.report, self.name = report, name

    def __enter__(self) -> None:
        self.started = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.report.parts[self.name] = round(time.monotonic() - self.started, 3)
