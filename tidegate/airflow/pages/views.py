"""What each page shows, read from the lake without a JVM: counts, names and times, never a value of the data."""

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
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSource, Pipeline
from tidegate.status.watch import Seen, Watch

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.status.standing import Standing

BATCHES = 50
"""On one page."""
CHANGES = 200
"""At most so many changes of a schema, or alerts, on one page."""
STATES = ("error", "refused", "unfinished", "behind", "running", "off", "up to date", "not begun")
"""Of a flow, the ones that ask for a person first."""
ATTENTION = ("error", "refused")


class Views:
    """Makes what templates print. Threads share it; it must be made in the process that serves."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._layout = Layout.of(environment)
        self._watch = Watch(environment)
        self._journal = Journal(self._layout)

    def is_declared(self, dag_id: str) -> bool:
        """Whether a DAG is a pipeline's, also when its declaration does not load just now."""
        return dag_id in self._watch.reading().declared

    def is_flow(self, dag_id: str, name: str) -> bool:
        """Whether a task shows a flow."""
        found = self._watch.reading().declared.get(dag_id)
        return isinstance(found, Pipeline) and any(flow.name == name for flow in found.flows)

    def overview(self, permitted: set[str], text: str, state: str) -> dict[str, Any]:
        """Every flow of the pipelines that a person may see.

        Args:
            permitted: Ids of DAGs.
            text: Only flows whose place or table holds it.
            state: Only flows in this state; all with an empty one.
        """
        reading = self._watch.reading()
        names = [name for name in reading.declared if name in permitted]
        summaries = self._journal.summaries(names)
        rows = [self._row(seen, summaries) for name in names for seen in reading.of(name)]
        chosen = [row for row in rows if _fits(row, text, state)]
        alerts = {name: self._open_alerts(name) for name in names}
        _mark(rows, alerts)
        groups = [
            {"name": name, "declared": _loaded(reading.declared[name]), "rows": of}
            for name in names
            if (of := [row for row in chosen if row["standing"].pipeline == name])
        ]
        return {
            "as_of": datetime.fromtimestamp(reading.at, UTC),
            "groups": groups,
            "shown": len(chosen),
            "flows": len(rows),
            "attention": sum(row["state"] in ATTENTION for row in rows),
            "states": [(each, count) for each in STATES if (count := Counter(r["state"] for r in rows)[each])],
            "read_today": sum(summary.read_today for summary in summaries.values()),
            "quarantined_today": sum(summary.quarantined_today for summary in summaries.values()),
            "open": sum(row["quarantined"] or 0 for row in rows),
            "alerts": sum(len(each) for each in told)
            if (told := [a for a in alerts.values() if a is not None])
            else None,
            "text": text,
            "state": state,
        }

    def pipeline(self, dag_id: str) -> dict[str, Any]:
        """One pipeline: its flows, its newest batches, its alerts."""
        reading = self._watch.reading()
        summaries = self._journal.summaries([dag_id])
        rows = [self._row(seen, summaries) for seen in reading.of(dag_id)]
        _mark(rows, {dag_id: self._open_alerts(dag_id)})
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
        """One flow: where it stands, its trend, batches, checkpoints, changes of schema, quarantine.

        Raises:
            HTTPException: 404; the pipeline or the flow is not declared.
        """
        reading = self._watch.reading()
        declared = _loaded(reading.declared.get(dag_id))
        flow = next((each for each in declared.flows if each.name == name), None) if declared else None
        if declared is None or flow is None:
            raise HTTPException(404)
        [seen] = [each for each in reading.of(dag_id) if each.standing.flow == name]
        summaries = self._journal.summaries([dag_id])
        lines = self._lines(dag_id, flow=name, limit=BATCHES + 1, offset=(page - 1) * BATCHES)
        return {
            "as_of": datetime.fromtimestamp(reading.at, UTC),
            "dag_id": dag_id,
            "declared": declared,
            "flow": flow,
            "source": _source(flow),
            "row": self._row(seen, summaries, width=720.0, height=120.0, gap=4.0),
            "lines": lines[:BATCHES],
            "page": page,
            "more": len(lines) > BATCHES,
            "versions": list(self._versions(declared, flow)),
            "changes": self._records(dag_id, "evolution", name),
            "alerts": self._alerts(dag_id, name),
            "quarantined": journal.quarantined(self._layout, dag_id, name),
            "docs": self._has_docs(dag_id),
        }

    def run(self, dag_id: str, run_id: str, flow: str | None = None) -> dict[str, Any]:
        """One run: its attempts and the batches that it recorded or judged.

        Args:
            dag_id: A declared pipeline.
            run_id: Airflow's.
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
        seen: Seen,
        summaries: dict[tuple[str, str], Summary],
        *,
        width: float = 120.0,
        height: float = 28.0,
        gap: float = 1.0,
    ) -> dict[str, Any]:
        told = seen.standing
        summary = summaries.get((told.pipeline, told.flow))
        values, parts = (summary.trend, summary.trend_quarantined) if summary else ((), ())
        return {
            "standing": told,
            "state": told.state,
            "summary": summary,
            "quarantined": seen.quarantined,
            "newest": seen.newest or (summary.at if summary else None),
            "newest_is": "event" if seen.newest_is_event and seen.newest else "ingested",
            "plot": plot.bars(values, parts, width=width, height=height, slots=TREND, gap=gap),
            "page": self._page_of(told.pipeline, told.flow, summary, "batch") if summary else None,
            "waits": self._page_that_waits(told),
        }

    def _lines(self, dag_id: str, **asked: Any) -> list[dict[str, Any]]:
        lines = self._journal.lines(dag_id, **asked)
        return [{"line": line, "page": self._page_of_line(dag_id, line)} for line in lines]

    def _page_of_line(self, dag_id: str, line: Line) -> str | None:
        """The page of a batch or a swap; replays and decisions have none."""
        if line.record is not None and line.record.kind == "swap":
            return self._page_of(dag_id, line.flow, line, "swap")
        return self._page_of(dag_id, line.flow, line, "batch") if line.is_batch else None

    def _page_of(self, dag_id: str, flow: str, batch: Any, kind: str) -> str | None:
        """The page of one batch, relative to the pipeline's reports; None when there is none."""
        return self._existing(dag_id, f"{flow}/v{batch.checkpoint_version}-{batch.refresh}", kind, batch.batch_id)

    def _existing(self, dag_id: str, checkpoint: str, kind: str, number: int | None) -> str | None:
        path = f"{checkpoint}-{kind}-{number}.html"
        return path if (self._layout.docs(dag_id) / path).is_file() else None

    def _page_that_waits(self, told: Standing) -> str | None:
        """The page of the batch that a gate or a contract refused, and that waits for a person; None when none does.

        A batch that its contract refused is in no ledger and has no verdict: only its page tells of it.
        """
        if told.lag is None or not told.lag.refused:
            return None
        return self._existing(
            told.pipeline, f"{told.flow}/v{told.version}-{told.refresh or 0}", "batch", told.lag.pending_batch
        )

    def _has_docs(self, dag_id: str) -> bool:
        return (self._layout.docs(dag_id) / "index.html").is_file()

    def _versions(self, pipeline: Pipeline, flow: Flow) -> Iterator[dict[str, Any]]:
        """Checkpoint versions, the newest first: those with a sidecar, and what the ledger holds of each refresh."""
        try:
            sidecars = checkpoint.versions(self._layout, pipeline.name, flow.name)
        except TidegateError:
            # The flow's own state says so.
            sidecars = {}
        recorded = self._journal.versions(pipeline.name, flow.name)
        known = {(each.checkpoint_version, each.refresh): each for each in recorded}
        for version, refresh in sorted({*known, *((number, 0) for number in sidecars)}, reverse=True):
            yield {
                "version": version,
                "refresh": refresh,
                "created_at": sidecars.get(version, {}).get("created_at"),
                "fingerprint": sidecars.get(version, {}).get("fingerprint"),
                "recorded": known.get((version, refresh)),
                "current": version == flow.checkpoint_version,
            }

    def _records(self, dag_id: str, table: str, flow: str | None = None) -> list[dict[str, Any]] | None:
        """The newest lines of one of the platform's tables; None when there is no such table yet."""
        path = self._layout.ops(dag_id, table)
        columns = query.columns(path)
        if not columns:
            return None
        of_flow = "WHERE flow = $flow" if flow is not None and "flow" in columns else ""
        newest = 'ORDER BY "recorded_at" DESC' if "recorded_at" in columns else ""
        sql = f"SELECT * FROM held {of_flow} {newest} LIMIT {CHANGES}"
        return query.query(path, columns, sql, {"flow": flow} if of_flow else {})

    def _alerts(self, dag_id: str, flow: str | None = None) -> list[dict[str, Any]] | None:
        """Episodes, the open ones first and the newest before others; None when nobody has looked yet."""
        if not self._layout.ops(dag_id, "alerts").is_dir():
            return None
        found = [each for each in alert_history.episodes(self._layout, dag_id) if flow in (None, each.flow)]
        newest = sorted(found, key=lambda each: (each.resolved_at is None, each.opened_at), reverse=True)
        return [
            {
                "flow": each.flow,
                "rule": each.rule,
                "opened_at": each.opened_at,
                "over_at": each.resolved_at or "open",
                "why": each.message,
            }
            for each in newest[:CHANGES]
        ]

    def _open_alerts(self, dag_id: str) -> list[tuple[str, str]] | None:
        """Flow and rule of each that is open; None when nobody has looked yet."""
        found = self._alerts(dag_id)
        return None if found is None else [(each["flow"], each["rule"]) for each in found if each["over_at"] == "open"]


def _loaded(declared: Pipeline | TidegateError | None) -> Pipeline | None:
    return declared if isinstance(declared, Pipeline) else None


def _mark(rows: list[dict[str, Any]], alerts: Mapping[str, list[tuple[str, str]] | None]) -> None:
    """Put the rules of its open alerts into each row."""
    for row in rows:
        told = row["standing"]
        row["alerts"] = sorted(rule for flow, rule in alerts[told.pipeline] or () if flow == told.flow)


def _fits(row: dict[str, Any], text: str, state: str) -> bool:
    told = row["standing"]
    held = f"{told.place} {told.target}".lower()
    return (not state or row["state"] == state) and all(word in held for word in text.lower().split())


def _source(flow: Flow) -> str:
    match flow.source:
        case FileSource():
            return f"{flow.source.format} files in {flow.source.path}/"
        case KafkaSource():
            return f"topic {flow.source.topic}"
        case ChangeFeed():
            return f"changes of {flow.source.table}"


def _attempts(folder: Path) -> Iterator[dict[str, Any]]:
    """Every attempt of a run, the newest first; one without a report crashed or has just begun."""
    found: list[tuple[str, dict[str, Any]]] = []
    for entry in folder.iterdir() if folder.is_dir() else ():
        if not entry.is_dir():
            continue
        try:
            report = RunReport.read(entry / "report.json")
        except (TidegateError, ValueError, KeyError, TypeError):
            report = None
        found.append((report.started_at if report else "", {"id": entry.name, "report": report}))
    yield from (attempt for _, attempt in sorted(found, key=lambda each: each[0], reverse=True))
