"""The template variables of each page, read from the lake without a JVM: counts, names and times, never data values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from tidegate.airflow.pages import plot
from tidegate.checkpoints import checkpoint
from tidegate.errors import TidegateError
from tidegate.layout import Layout, run_key
from tidegate.ops import alert_history, journal, query
from tidegate.ops.journal import TREND, Journal, Line, Summary
from tidegate.report import RunReport
from tidegate.resolution import ResolvedPipeline
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSource, Pipeline
from tidegate.status.status_cache import FlowSnapshot, StatusCache

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.status.flow_status import FlowStatus

BATCHES = 50
"""Batches per page."""
CHANGES = 200
"""Maximum number of schema changes, or of alerts, on one page."""
STATES = ("error", "refused", "unfinished", "behind", "running", "off", "up to date", "not begun")
"""States of a flow, in the order of the filter: those that need a person first."""
ATTENTION = ("error", "refused")
"""States that need a person."""


class Views:
    """Builds the template variables. Thread-safe; must be created in the serving process, after any fork."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._layout = Layout.of(environment)
        self._statuses = StatusCache(environment)
        self._journal = Journal(self._layout)

    def is_declared(self, dag_id: str) -> bool:
        """Whether a DAG belongs to a pipeline, also one whose declaration currently does not load."""
        return dag_id in self._statuses.reading().declared

    def is_flow(self, dag_id: str, name: str) -> bool:
        """Whether a task is the task of a flow."""
        pipeline = _loaded(self._statuses.reading().declared.get(dag_id))
        return pipeline is not None and any(flow.name == name for flow in pipeline.flows)

    def overview(self, permitted: set[str], text: str, state: str) -> dict[str, Any]:
        """The overview: every flow of the pipelines that the user may see.

        Args:
            permitted: Ids of their DAGs.
            text: Words that the name of the pipeline, flow or table must contain; empty for all.
            state: Only flows in this state; empty for all.
        """
        reading = self._statuses.reading()
        names = [name for name in reading.declared if name in permitted]
        summaries = self._journal.summaries(names)
        rows = [self._row(snapshot, summaries) for name in names for snapshot in reading.of(name)]
        matching = [row for row in rows if _matches(row, text, state)]
        alerts = {name: self._open_alerts(name) for name in names}
        _add_alerts(rows, alerts)
        groups = [
            {"name": name, "declared": _loaded(reading.declared[name]), "rows": own}
            for name in names
            if (own := [row for row in matching if row["status"].pipeline == name])
        ]
        return {
            "as_of": datetime.fromtimestamp(reading.at, UTC),
            "groups": groups,
            "shown": len(matching),
            "flows": len(rows),
            "attention": sum(row["state"] in ATTENTION for row in rows),
            "states": [(each, count) for each in STATES if (count := Counter(r["state"] for r in rows)[each])],
            "read_today": sum(summary.read_today for summary in summaries.values()),
            "quarantined_today": sum(summary.quarantined_today for summary in summaries.values()),
            "open": sum(row["quarantined"] or 0 for row in rows),
            "alerts": sum(len(each) for each in recorded)
            if (recorded := [a for a in alerts.values() if a is not None])
            else None,
            "text": text,
            "state": state,
        }

    def pipeline(self, dag_id: str) -> dict[str, Any]:
        """One pipeline: its flows, its newest batches, its alerts."""
        reading = self._statuses.reading()
        summaries = self._journal.summaries([dag_id])
        rows = [self._row(snapshot, summaries) for snapshot in reading.of(dag_id)]
        _add_alerts(rows, {dag_id: self._open_alerts(dag_id)})
        return {
            "as_of": datetime.fromtimestamp(reading.at, UTC),
            "dag_id": dag_id,
            "declared": _loaded(reading.declared[dag_id]),
            "rows": rows,
            "lines": self._lines(dag_id, limit=BATCHES),
            "alerts": self._alerts(dag_id),
            "docs": self._has_docs(dag_id),
            "history": self._environment.spark_history,
        }

    def flow(self, dag_id: str, name: str, page: int) -> dict[str, Any]:
        """One flow: its status, trend, batches, checkpoints, schema changes, quarantine and alerts.

        Raises:
            HTTPException: 404 if the pipeline or the flow is not declared.
        """
        reading = self._statuses.reading()
        declared = _loaded(reading.declared.get(dag_id))
        flow = next((each for each in declared.flows if each.name == name), None) if declared else None
        if declared is None or flow is None:
            raise HTTPException(404)
        [snapshot] = [each for each in reading.of(dag_id) if each.status.flow == name]
        summaries = self._journal.summaries([dag_id])
        lines = self._lines(dag_id, flow=name, limit=BATCHES + 1, offset=(page - 1) * BATCHES)
        return {
            "as_of": datetime.fromtimestamp(reading.at, UTC),
            "dag_id": dag_id,
            "declared": declared,
            "flow": flow,
            "source": _source(flow),
            "row": self._row(snapshot, summaries, width=720.0, height=120.0, gap=4.0),
            "lines": lines[:BATCHES],
            "page": page,
            "more": len(lines) > BATCHES,
            "versions": list(self._versions(declared, flow)),
            "changes": self._records(dag_id, "evolution", name),
            "alerts": self._alerts(dag_id, name),
            "quarantined": journal.quarantine_counts(self._layout, dag_id, name),
            "docs": self._has_docs(dag_id),
        }

    def run(self, dag_id: str, run_id: str, flow: str | None = None) -> dict[str, Any]:
        """One run: its attempts and the batches that it recorded or judged.

        Args:
            flow: Only this flow.
        """
        key = run_key(run_id)
        attempts = list(_attempts(self._layout.reports(dag_id) / key))
        return {
            "dag_id": dag_id,
            "run_id": run_id,
            "only": flow,
            "attempts": attempts,
            "lines": self._lines(dag_id, flow=flow, run_key=key, limit=BATCHES),
            "docs": self._has_docs(dag_id),
            "history": self._environment.spark_history,
        }

    def _row(
        self,
        snapshot: FlowSnapshot,
        summaries: dict[tuple[str, str], Summary],
        *,
        width: float = 120.0,
        height: float = 28.0,
        gap: float = 1.0,
    ) -> dict[str, Any]:
        status = snapshot.status
        summary = summaries.get((status.pipeline, status.flow))
        values, parts = (summary.trend, summary.trend_quarantined) if summary else ((), ())
        return {
            "status": status,
            "state": status.state,
            "summary": summary,
            "quarantined": snapshot.quarantined,
            "newest": snapshot.newest or (summary.at if summary else None),
            "newest_is": "event" if snapshot.newest_is_event and snapshot.newest else "ingested",
            "plot": plot.bars(values, parts, width=width, height=height, slots=TREND, gap=gap),
            "page": self._page_of(status.pipeline, status.flow, summary, "batch") if summary else None,
            "refused_page": self._refused_page(status),
        }

    def _lines(self, dag_id: str, **filters: Any) -> list[dict[str, Any]]:
        lines = self._journal.lines(dag_id, **filters)
        return [{"line": line, "page": self._page_of_line(dag_id, line)} for line in lines]

    def _page_of_line(self, dag_id: str, line: Line) -> str | None:
        """The report of a batch or a swap; backfills, replays and decisions have none."""
        if line.record is not None and line.record.kind == "swap":
            return self._page_of(dag_id, line.flow, line, "swap")
        return self._page_of(dag_id, line.flow, line, "batch") if line.is_batch else None

    def _page_of(self, dag_id: str, flow: str, batch: Any, kind: str) -> str | None:
        """The report of one batch, relative to the pipeline's reports; None when there is none."""
        return self._report(dag_id, f"{flow}/v{batch.checkpoint_version}-{batch.refresh}", kind, batch.batch_id)

    def _report(self, dag_id: str, checkpoint: str, kind: str, number: int | None) -> str | None:
        path = f"{checkpoint}-{kind}-{number}.html"
        return path if (self._layout.docs(dag_id) / path).is_file() else None

    def _refused_page(self, status: FlowStatus) -> str | None:
        """The report of the pending batch that a gate or a contract refused; None when there is none.

        A batch that its contract refused has neither a ledger line nor a verdict, so this report is its only record.
        """
        if status.lag is None or not status.lag.refused:
            return None
        return self._report(
            status.pipeline, f"{status.flow}/v{status.version}-{status.refresh or 0}", "batch", status.lag.pending_batch
        )

    def _has_docs(self, dag_id: str) -> bool:
        return (self._layout.docs(dag_id) / "index.html").is_file()

    def _versions(self, pipeline: Pipeline, flow: Flow) -> Iterator[dict[str, Any]]:
        """Checkpoint versions, the newest first: those with a sidecar or with ledger lines, one per refresh."""
        try:
            sidecars = checkpoint.versions(self._layout, pipeline.name, flow.name)
        except TidegateError:
            # The flow's status shows this error.
            sidecars = {}
        recorded = self._journal.versions(pipeline.name, flow.name)
        by_version = {(each.checkpoint_version, each.refresh): each for each in recorded}
        for version, refresh in sorted({*by_version, *((number, 0) for number in sidecars)}, reverse=True):
            yield {
                "version": version,
                "refresh": refresh,
                "sidecar": sidecars.get(version),
                "recorded": by_version.get((version, refresh)),
                "current": version == flow.checkpoint_version,
            }

    def _records(self, dag_id: str, table: str, flow: str | None = None) -> list[dict[str, Any]] | None:
        """The newest rows of one of the platform's tables; None when the table does not exist yet."""
        path = self._layout.ops(dag_id, table)
        columns = query.columns(path)
        if not columns:
            return None
        of_flow = "WHERE flow = $flow" if flow is not None and "flow" in columns else ""
        newest = 'ORDER BY "recorded_at" DESC' if "recorded_at" in columns else ""
        sql = f"SELECT * FROM delta_table {of_flow} {newest} LIMIT {CHANGES}"
        return query.query(path, columns, sql, {"flow": flow} if of_flow else {})

    def _alerts(self, dag_id: str, flow: str | None = None) -> list[dict[str, Any]] | None:
        """Episodes, open ones first, then the newest first; None when alerts have not been evaluated yet."""
        if not self._layout.ops(dag_id, "alerts").is_dir():
            return None
        episodes = [each for each in alert_history.episodes(self._layout, dag_id) if flow in (None, each.flow)]
        newest = sorted(episodes, key=lambda each: (each.resolved_at is None, each.opened_at), reverse=True)
        return [
            {
                "flow": each.flow,
                "rule": each.rule,
                "opened_at": each.opened_at,
                "resolved_at": each.resolved_at or "open",
                "message": each.message,
            }
            for each in newest[:CHANGES]
        ]

    def _open_alerts(self, dag_id: str) -> list[tuple[str, str]] | None:
        """Flow and rule of each open episode; None when alerts have not been evaluated yet."""
        alerts = self._alerts(dag_id)
        if alerts is None:
            return None
        return [(each["flow"], each["rule"]) for each in alerts if each["resolved_at"] == "open"]


def _loaded(declared: ResolvedPipeline | TidegateError | None) -> Pipeline | None:
    return declared.pipeline if isinstance(declared, ResolvedPipeline) else None


def _add_alerts(rows: list[dict[str, Any]], alerts: Mapping[str, list[tuple[str, str]] | None]) -> None:
    """Set the key ``alerts`` of each row to the rules of its open alerts."""
    for row in rows:
        status = row["status"]
        row["alerts"] = sorted(rule for flow, rule in alerts[status.pipeline] or () if flow == status.flow)


def _matches(row: dict[str, Any], text: str, state: str) -> bool:
    status = row["status"]
    names = f"{status.label} {status.target}".lower()
    return (not state or row["state"] == state) and all(word in names for word in text.lower().split())


def _source(flow: Flow) -> str:
    match flow.source:
        case FileSource():
            return f"{flow.source.format} files in {flow.source.path}/"
        case KafkaSource():
            return f"topic {flow.source.topic}"
        case ChangeFeed():
            return f"changes of {flow.source.table}"


def _attempts(folder: Path) -> Iterator[dict[str, Any]]:
    """Every attempt of a run, the newest first; one without a report crashed or has just started."""
    attempts: list[tuple[str, dict[str, Any]]] = []
    for entry in folder.iterdir() if folder.is_dir() else ():
        if not entry.is_dir():
            continue
        try:
            report = RunReport.read(entry / "report.json")
        except TidegateError:
            report = None
        attempts.append((report.started_at if report else "", {"id": entry.name, "report": report}))
    yield from (attempt for _, attempt in sorted(attempts, key=lambda each: each[0], reverse=True))
