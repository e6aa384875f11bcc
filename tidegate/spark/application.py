"""The application: runs the flows of a pipeline in graph order in one JVM and writes one report.

Longer than 300 lines: it is the one place that decides which error stops what.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from tidegate.advice import OutsideAct
from tidegate.checkpoints import checkpoint, lease, overrides
from tidegate.environment import Environment
from tidegate.errors import (
    CheckpointCorruptError,
    GapError,
    MachineUnavailableError,
    OffsetsExpiredError,
    RefusedError,
    RewriteRefusedError,
    RunCancelledError,
    RunReplacedError,
    TableInDoubtError,
    TableUnreadableError,
    TidegateError,
    classify,
)
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, FlowPlace, PipelinePlace
from tidegate.project import resolution
from tidegate.project.resolution import ResolvedFlow
from tidegate.reports.report import ErrorReport, FlowReport, RunReport, now
from tidegate.requests.request import RunRequest
from tidegate.requests.runs import RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tidegate.checkpoints.overrides import Override
    from tidegate.spark.driver.sent_requests import SentRequests
    from tidegate.spark.gate import Suite
    from tidegate.spark.job import Job
    from tidegate.store import Content

log = logging.getLogger("tidegate")

_DAMAGES = (TableInDoubtError, TableUnreadableError, CheckpointCorruptError, OffsetsExpiredError)
"""What a recovery ends, of the flow or of one above it; what is left is found when the flow runs."""

_NO_BYTECODE = "the installed packages have no bytecode, so every job takes 8 s longer to start: run `tidegate setup`"


def run_application(environment: Environment, request: RunRequest, attempt: str) -> RunReport:
    """Run the requested flows and return the report, which is also kept current in the lake.

    When a flow is refused or fails, the flows that read from it are skipped; the others run.

    Raises:
        TidegateError: The application failed before any flow ran.
    """
    return _Application(environment, request, attempt).run()


class _Application:
    def __init__(self, environment: Environment, request: RunRequest, attempt: str) -> None:
        self.environment = environment
        self.layout = Layout.of(environment)
        self.reading = environment
        """In a bucket that of a reading, of which the next plan knows what it has read."""
        self.request = request
        self.place = AttemptPlace(self.layout, request.dag_id, request.run_key, attempt)
        self.report = RunReport(dag_id=request.dag_id, run_key=request.run_key, attempt=attempt, started_at=now())
        self.sent = self._sent_requests()
        self.suites: dict[str, Suite] = {}
        self.loading_error: Exception | None = None
        self.switched_off: dict[str, Override] = {}
        self.blocked: dict[str, TidegateError] = {}
        self.project_archive: str | None = None
        """The hash of the code that executors of a cluster have."""
        self.contents: dict[str, Content] = {}
        """What was read in a bucket, for all flows: an object with the same tag is not read again."""

    def run(self) -> RunReport:
        started = time.monotonic()
        try:
            self._run()
        except BaseException as error:
            if not isinstance(error, (KeyboardInterrupt, SystemExit)):
                self.report.error = ErrorReport.of(error)
            # Suppressed, so that it does not replace the exception that ended the run.
            with contextlib.suppress(TidegateError):
                self._end(started)
            raise
        self._end(started)
        return self.report

    def _run(self) -> None:
        lease.expect_certain()
        pipeline = resolution.load(self.request.dag_id, self.environment.project)
        flows = tuple(pipeline.flow(flow.name) for flow in self.request.selected(pipeline.pipeline))
        self.environment = self.environment.writing(each.flow.target.name for each in flows)
        self.reading, self.layout = self.environment, Layout.of(self.environment)
        self.report.flows = [
            FlowReport(
                flow=each.flow.name, target=each.flow.target.name, checkpoint_version=each.flow.checkpoint_version
            )
            for each in flows
        ]
        with _Timer(self.report, "preflight"):
            self._preflight(flows)
        self.write_report()
        if not self._runnable(flows):
            self._block_all()
            return
        loading = self._load_suites(flows)
        with _Timer(self.report, "session"):
            try:
                spark = self._session()
            except Exception as error:
                from tidegate.spark.driver.session_errors import of_session

                raise of_session(error) from error
        if loading is not None:
            with _Timer(self.report, "gx_wait"):
                loading.join()
        if self.loading_error is not None:
            raise self.loading_error
        with _Timer(self.report, "flows"):
            self._run_flows(spark, flows)
        if self.reading is not self.environment:
            from tidegate.ops import contents

            contents.keep(self.reading, self.request.dag_id)
            contents.keep_more(self.reading, pipeline)

    def _end(self, started: float) -> None:
        self.report.ended_at = now()
        self.report.parts["total"] = round(time.monotonic() - started, 3)
        if self.sent is not None:
            self.report.requests = self.sent.count()
        self.write_report()
        self._record_attempt()

    def _sent_requests(self) -> SentRequests | None:
        """What is sent to object stores from now on, where there are any."""
        if self.layout.root.store.is_local and self.layout.landing_root.store.is_local:
            return None
        from tidegate.spark.driver.sent_requests import SentRequests

        return SentRequests()

    def _record_attempt(self) -> None:
        """Write the line of the attempt; that it cannot be written does not fail the run."""
        if not self.report.requests:
            return
        from tidegate.ops.attempts import ATTEMPTS, AttemptLine

        line = AttemptLine(
            run_key=self.report.run_key,
            attempt=self.report.attempt,
            mode=self.request.mode,
            requests=self.report.requests,
        )
        try:
            ATTEMPTS.append(PipelinePlace(self.layout, self.request.dag_id), [line])
        except Exception as error:
            log.warning("the requests of the attempt were not recorded: %s", type(error).__name__)

    def write_report(self) -> None:
        """Write the current report to the lake.

        Raises:
            MachineError: The operating system does not let it be written.
        """
        try:
            self.report.write(self.place.report)
        except OSError as error:
            raise classify(error, "the run report") from error

    def _load_suites(self, flows: tuple[ResolvedFlow, ...]) -> threading.Thread | None:
        """Load the suites in a thread: Great Expectations takes seconds to import, while the session only waits for its JVM."""
        judges = RUNS[self.request.mode].judges
        judged = [each for each in flows if judges and each.suite is not None and each.flow.name not in self.blocked]
        if not judged:
            return None

        # Both threads need pyspark; concurrent imports of one package can deadlock, so it is imported before.
        import pyspark.sql.functions  # noqa: F401

        from tidegate.runtime import bytecode
        from tidegate.spark import gate

        def load() -> None:
            try:
                with _Timer(self.report, "gx_import"):
                    gate.warm_up()
                if not bytecode.is_compiled(sys.modules["great_expectations"]):
                    self.report.notes.append(_NO_BYTECODE)
                    log.warning(_NO_BYTECODE)
                for each in judged:
                    assert each.suite is not None and each.flow.gate is not None
                    try:
                        self.suites[each.flow.name] = gate.load_suite(each.suite, each.flow.gate.suite)
                    except (TidegateError, OSError, MemoryError) as error:
                        self.blocked[each.flow.name] = classify(error)
            except Exception as error:
                self.loading_error = error

        thread = threading.Thread(target=load, name="load-suites", daemon=True)
        thread.start()
        return thread

    def _preflight(self, flows: tuple[ResolvedFlow, ...]) -> None:
        """Check declarations and sources before the session starts; an error is recorded for its flow."""
        from tidegate.status import backlog

        self.layout.open()
        if not self.layout.root.store.is_local:
            from tidegate.ops import contents

            self.reading = contents.known(self.environment, self.request.dag_id)
        layout = Layout.of(self.reading)
        for each, flow_report in zip(flows, self.report.flows, strict=True):
            try:
                override = overrides.switched_off(FlowPlace(layout, self.request.dag_id, each.flow.name))
                if override is not None and not RUNS[self.request.mode].only_reads:
                    self.switched_off[each.flow.name] = override
                    continue
                checkpoint.check_compatible(layout, each)
                if RUNS[self.request.mode].judges:
                    flow_report.lag_before = backlog.measure(self.reading, each).report()
            except Exception as error:
                # Also a table whose log cannot be read stops only what stands on it.
                if not self._renews(error):
                    self.blocked[each.flow.name] = classify(error)
        if self.reading is not self.environment:
            from tidegate.ops import contents

            self.contents = contents.read_in(self.reading)

    def _renews(self, error: Exception) -> bool:
        """Whether the run gives the flow that is in doubt about a table a new checkpoint. It proves the tables again when it begins."""
        mode = self.request.mode
        if mode == "recover" and not self.request.dry_run:
            return isinstance(error, _DAMAGES) and not isinstance(error, GapError)
        whole = mode == "full_refresh" or (mode == "reingest" and self.request.window is None and not self.request.gaps)
        if not isinstance(error, TableInDoubtError) or not whole or self.request.dry_run:
            return False
        pipeline = resolution.load(self.request.dag_id, self.environment.project).pipeline
        selected = self.request.selected(pipeline)
        return any(
            error.known_by == f"{pipeline.name}/{flow.name}" and self.request.applies_to(flow) for flow in selected
        )

    def _session(self) -> SparkSession:
        from tidegate.spark.driver.session import build_session, cores_of, give_project, shuffle_partitions

        spark = build_session(self.environment, f"tidegate {self.request.dag_id}")
        if not self.request.small:
            partitions = shuffle_partitions(self.request.size, cores_of(spark))
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            self.report.notes.append(f"shuffle partitions: {partitions}")
        if self.sent is not None:
            self.sent.of_session(spark)
        self.report.application = spark.sparkContext.applicationId
        self.project_archive = give_project(spark, self.environment.project)
        if self.project_archive is not None:
            self.report.notes.append(f"project archive: {self.project_archive[:12]}")
        flags = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions") or ""
        self.report.notes.append(f"AppCDS archive: {'used' if 'SharedArchiveFile' in flags else 'none'}")
        self.report.notes.append(f"compilation: {'C1 only' if 'TieredStopAtLevel=1' in flags else 'tiered'}")
        return spark

    def _runnable(self, flows: tuple[ResolvedFlow, ...]) -> bool:
        """Whether any flow can run: one that is not blocked, and whose upstream flows are not."""
        stopped: set[str] = set(self.blocked)
        for each in flows:
            if any(upstream.name in stopped for upstream in each.pipeline.upstream_of(each.flow)):
                stopped.add(each.flow.name)
        return len(stopped) < len(flows)

    def _block_all(self) -> None:
        for flow_report in self.report.flows:
            error = self.blocked.get(flow_report.flow)
            flow_report.state, flow_report.error = (
                ("failed", ErrorReport.of(error)) if error is not None else ("skipped", None)
            )
            if error is not None:
                log.error("%s: %s", flow_report.flow, error.message)

    def _run_flows(self, spark: SparkSession, flows: tuple[ResolvedFlow, ...]) -> None:
        stopped: dict[str, str] = {}
        ran: list[ResolvedFlow] = []
        for each in flows:
            flow = each.flow
            flow_report = self.report.flow(flow.name)
            unfinished = [above.name for above in each.pipeline.upstream_of(flow) if above.name in stopped]
            if unfinished:
                flow_report.state, stopped[flow.name] = "skipped", flow.name
                log.info("%s: skipped, because flow %s did not finish", flow.name, unfinished[0])
                continue
            if (override := self.switched_off.get(flow.name)) is not None:
                flow_report.state = "skipped"
                flow_report.notes.append(override.summary())
                log.info("%s: skipped, because it was %s", flow.name, override.summary())
                continue
            lease.expect_certain()
            flow_report.state = "running"
            self.write_report()
            ran.append(each)
            if not self._run_one(spark, each, flow_report):
                stopped[flow.name] = flow.name
            self.write_report()
        if RUNS[self.request.mode].judges:
            self._measure_lags_after(ran)

    def _run_one(self, spark: SparkSession, resolved: ResolvedFlow, flow_report: FlowReport) -> bool:
        from tidegate.spark import runs

        flow = resolved.flow
        log.info("%s: started", flow.name)
        try:
            if flow.name in self.blocked:
                raise self.blocked[flow.name]
            runs.load(self.request, flow)(self._job(spark, resolved, flow_report))
            results = (flow_report.batches, flow_report.impact, flow_report.verification)
            flow_report.state = "done" if any(results) else "idle"
        except (RefusedError, RewriteRefusedError) as refusal:
            flow_report.state, flow_report.error = "refused", ErrorReport.of(refusal)
        except Exception as error:
            from tidegate.spark.driver.failures import of_executors

            flow_report.state = "failed"
            flow_report.error = ErrorReport.of(of_executors(error, f"flow {flow.name!r}"))
            log.error("%s: %s", flow.name, flow_report.error.message)
            self._write_failure(flow.name, error)
            if isinstance(error, (RunCancelledError, RunReplacedError)):
                # It is not of the flow: the others do not run either.
                raise
        log.info(
            "%s: %s; read %d, changed %d in the target, quarantined %d",
            flow.name,
            flow_report.state,
            flow_report.total("read"),
            flow_report.changed_rows(),
            flow_report.total("quarantined"),
        )
        return flow_report.state in ("done", "idle")

    def _write_failure(self, flow: str, error: Exception) -> None:
        """Write the traceback next to the report. It may quote data, so it is not logged."""
        if isinstance(error, TidegateError) and error.__cause__ is None:
            return
        address = self.place.folder / f"failure-{flow}.txt"
        with contextlib.suppress(OSError):
            address.put("".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace"))
            log.error("%s: the traceback is in %s", flow, address)

    def _measure_lags_after(self, ran: Sequence[ResolvedFlow]) -> None:
        """What is left for the flows, in one reading in a bucket: flows read each other's tables."""
        from tidegate.status import backlog

        if self.reading is not self.environment:
            from tidegate.lake import read_once
            from tidegate.probes import delta_history

            read_once.forget(self.reading)
            delta_history.forget()
        for each in ran:
            flow_report = self.report.flow(each.flow.name)
            try:
                flow_report.lag_after = backlog.measure(self.reading, each).report()
            except Exception as error:
                flow_report.notes.append(f"what is left to read is unknown: {classify(error).message}")

    def _job(self, spark: SparkSession, resolved: ResolvedFlow, flow_report: FlowReport) -> Job:
        from tidegate.spark.batch.work import Stream
        from tidegate.spark.job import Job, Run, load_kind

        flow = resolved.flow
        place = checkpoint.current(resolved.place(self.layout), flow.checkpoint_version)
        flow_report.refresh = place.refresh
        gate = transform = None
        if flow.transform and RUNS[self.request.mode].derives:
            from tidegate.spark.functions import transform_of

            transform = transform_of(flow)
            self._check_code(flow.name)
        if RUNS[self.request.mode].judges and flow.gate is not None:
            from tidegate.spark.gate import LakeContext, SuiteGate

            gate = SuiteGate(self.suites[flow.name], resolved.code_fingerprint(), LakeContext(self.layout))
        return Job(
            run=Run(request=self.request, place=self.place, report=flow_report, publish=self.write_report),
            resolved=resolved,
            kind=load_kind(flow),
            place=place,
            work=Stream(),
            transform=transform,
            gate=gate,
            spark=spark,
            clusters=self.environment.cluster,
            contents=self.contents,
            registry_of=self.environment.schema_registry,
        )

    def _check_code(self, flow: str) -> None:
        """Refuse to run a transform that is not the one that the executors have."""
        if self.project_archive is None:
            return
        from tidegate.runtime.project_archive import ProjectArchive

        if ProjectArchive.read(self.environment.project).sha256 != self.project_archive:
            raise MachineUnavailableError(
                f"flow {flow!r}: the code of the project has changed since the run gave it to the executors; nothing was written",
                OutsideAct("run again"),
            )


class _Timer:
    """Records the seconds spent in its ``with`` block as a part of the report."""

    def __init__(self, report: RunReport, name: str) -> None:
        self.report, self.name = report, name

    def __enter__(self) -> None:
        self.started = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.report.parts[self.name] = round(time.monotonic() - self.started, 3)
