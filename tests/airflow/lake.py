"""A lake with batches and reports, written without a JVM by the functions that jobs use."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import places
from tests.cli.project import append, quarantined
from tidegate.checkpoints import checkpoint
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import AttemptPlace, FlowPlace, Place
from tidegate.ops import ledger
from tidegate.project import registry
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import FlowReport, RunReport, now
from tidegate.reports.verdict import ExpectationResult, Verdict
from tidegate.requests.request import RunRequest


@dataclass(frozen=True)
class Lake:
    """One lake that tests fill batch by batch."""

    layout: Layout

    def batch(
        self,
        pipeline: str,
        flow: str,
        batch_id: int,
        *,
        run_id: str = "manual__1",
        purpose: str = "",
        request: Mapping[str, Any] | None = None,
        **counts: Any,
    ) -> LedgerLine:
        """Add a ledger line. ``purpose`` is ``window`` for a backfill; ``request`` holds fields of the run's request."""
        place = Place(self.layout, pipeline, flow, 1, 0)
        kind = counts.pop("kind", registry.load(pipeline).flow(flow).target.write_mode)
        record = LedgerLine(flow=flow, batch_id=batch_id, app_id=_app_id(place, purpose), kind=kind, **counts)
        assert record.imbalance() == 0
        ledger.record(place.of_pipeline, record, _origin(place, run_id, request))
        return record

    def verdict(
        self,
        flow: str,
        batch_id: int,
        outcome: Any,
        unmet: tuple[str, ...] = (),
        *,
        suite: str | None = None,
        run_id: str = "manual__1",
        purpose: str = "",
        request: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """Add a verdict for a batch of flights."""
        results = [_result("not_null(flight_id)", True), *(_result(rule, False) for rule in unmet)]
        place = Place(self.layout, "flights", flow, 1, 0)
        verdict = Verdict(
            flow=flow,
            app_id=_app_id(place, purpose),
            batch_id=batch_id,
            suite=f"flights/{flow}" if suite is None else suite,
            suite_fingerprint="s",
            code_fingerprint="c",
            outcome=outcome,
            results=tuple(results),
        )
        ledger.record_verdict(place.of_pipeline, verdict, _origin(place, run_id, request))
        return verdict

    def report(self, run_id: str, attempt: str = "a1", **changed: Any) -> RunReport:
        """Add the report of one attempt of a run of flights."""
        key = run_key(run_id)
        flows = [
            FlowReport(flow=flow.name, target=flow.target.name, checkpoint_version=1, state="done")
            for flow in registry.load("flights").flows
        ]
        report = RunReport(dag_id="flights", run_key=key, attempt=attempt, started_at=now(), flows=flows)
        report = dataclasses.replace(report, **changed)
        report.write(AttemptPlace(self.layout, "flights", key, attempt).report)
        return report

    def quarantine(self, rows: int, rule: str, *, state: str = "open", flow: str = "silver") -> None:
        """Add quarantine entries of flights that violate a rule."""
        entries = [quarantined(f"{rule}#{number}", [rule], {}, "a secret", state=state) for number in range(rows)]
        append(FlowPlace(self.layout, "flights", flow).quarantine, entries)

    def land(self, name: str, text: str) -> Path:
        """Add a file to the landing zone."""
        path = self.layout.landing_root / name
        path.put(text.encode())
        return Path(path)

    def begin(self, pipeline: str) -> None:
        """Write the checkpoint sidecars of a first run."""
        declared = registry.load(pipeline)
        for flow in declared.flows:
            checkpoint.write_sidecar(places.of(self.layout, declared, flow), flow)


def _origin(place: Place, run_id: str, of_request: Mapping[str, Any] | None) -> ledger.RunOrigin:
    request = RunRequest(dag_id=place.pipeline, run_id=run_id, **(of_request or {}))
    return ledger.RunOrigin(
        run_key=request.run_key,
        mode=request.mode,
        requested_by=request.requested_by or None,
        attempt="a1",
        checkpoint_version=place.version,
        refresh=place.refresh,
    )


def _app_id(place: Place, purpose: str) -> str:
    return place.windows_app_id if purpose else place.app_id


def _result(rule: str, success: bool) -> ExpectationResult:
    return ExpectationResult(
        expectation="expect_column_values_to_be_between",
        rule=rule,
        severity="critical",
        success=success,
        evaluated=100,
        unexpected=0 if success else 7,
    )
