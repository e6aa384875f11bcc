"""The template variables of pages about batches, flows and pipelines, read from the lake: counts, names and times, never data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidegate.alerting.episodes import Episode
from tidegate.checkpoints import checkpoint
from tidegate.errors import TidegateError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import alert_history, evolution, journal, judgements, metrics
from tidegate.ops.journal import Journal, Line, Summary
from tidegate.ops.journal_tables import TREND
from tidegate.ops.ledger import RecordedVerdict
from tidegate.pages import shares, state_trend, trend
from tidegate.schema.names import FieldNames
from tidegate.spec import Flow, Pipeline

PER_PAGE = 50
"""Batches, backfills, replays and decisions in one list."""
RECORDS = 200
"""Maximum number of schema changes, or of alerts, on one page."""

Values = dict[str, Any]

Present = Collection[tuple[str, str]]
"""Flow and rule of alerts."""


class PageContent:
    """Reads the template variables. Thread-safe; must be created in the process that uses it, after any fork."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.journal = Journal(layout)

    def pipeline(self, name: str, present: Present | None = None) -> Values:
        """A pipeline's newest batches and its alerts; with ``present`` as in `alerts`."""
        return {
            "pipeline": name,
            "lines": self.journal.lines(name, limit=PER_PAGE),
            "alerts": alerts(PipelinePlace(self.layout, name), present=present),
        }

    def flow(self, pipeline: Pipeline, name: str, page: int, present: Present | None = None) -> Values:
        """One page of a flow's batches; the first one also has the trend, checkpoints, quarantine, schema changes, alerts.

        Args:
            pipeline: The declaration.
            name: The flow.
            page: The page of the list, from 1.
            present: As in `alerts`.
        """
        lines = self.journal.lines(pipeline.name, flow=name, limit=PER_PAGE + 1, offset=(page - 1) * PER_PAGE)
        more = len(lines) > PER_PAGE
        return self.flow_list(pipeline, name, page, lines[:PER_PAGE], more=more, present=present)

    def flow_list(
        self,
        pipeline: Pipeline,
        name: str,
        page: int,
        lines: Sequence[Line],
        *,
        more: bool,
        present: Present | None = None,
    ) -> Values:
        """The same for lines that have been read.

        Args:
            pipeline: The declaration.
            name: The flow.
            page: The page of the list, from 1.
            lines: The batches of the page.
            more: Whether there is a page of older ones.
            present: As in `alerts`.
        """
        declared = next((flow for flow in pipeline.flows if flow.name == name), None)
        values = {
            **{
                "pipeline": pipeline.name,
                "flow": name,
                "declared": declared,
                "page": page,
                "lines": lines,
                "more": more,
            },
            "source": _source(declared) if declared else "",
        }
        if page > 1:
            return values
        kept, place = [], PipelinePlace(self.layout, pipeline.name)
        if declared is not None and declared.kind.stateful:
            kept = metrics.state_figures(place.ops("progress"), name, TREND)
        quarantined, names = journal.quarantine_counts(place.flow(name)), pipeline.names_of(name)
        return values | {
            "trend": trend.draw(self.journal.lines(pipeline.name, flow=name, batches=True, limit=TREND)),
            "kept": kept,
            "kept_trend": state_trend.draw(kept),
            "versions": list(self._versions(pipeline.name, name, declared)),
            "changes": changes((each for each in evolution.read(place) if each.flow == name), names),
            "fields": names.shown_in(entry.rule for entry in quarantined),
            "alerts": alerts(place, name, present),
            "by_rule": quarantined,
        }

    def batch(self, pipeline: Pipeline, flow: str, page: str) -> Values | None:
        """One batch or swap, by the name of its page; None when there is none."""
        matching = self.journal.lines(pipeline.name, flow=flow, page=page, limit=1)
        if not matching:
            return None
        (line,) = matching
        recent = self.journal.lines(pipeline.name, flow=flow, batches=True, until=line.recorded_at, limit=TREND)
        place = PipelinePlace(self.layout, pipeline.name)
        return batch(pipeline, line, recent, judgements.read(place, matching), evolution.read(place))

    def _versions(self, pipeline: str, name: str, declared: Flow | None) -> Iterator[Values]:
        """Checkpoint versions, the newest first: those with a sidecar or with ledger lines, one per refresh."""
        try:
            sidecars = checkpoint.versions(FlowPlace(self.layout, pipeline, name))
        except TidegateError:
            # The flow's status shows this error.
            sidecars = {}
        recorded = {(each.checkpoint_version, each.refresh): each for each in self.journal.versions(pipeline, name)}
        for version, refresh in sorted({*recorded, *((number, 0) for number in sidecars)}, reverse=True):
            yield {
                "version": version,
                "refresh": refresh,
                "sidecar": sidecars.get(version),
                "recorded": recorded.get((version, refresh)),
                "current": declared is not None and version == declared.checkpoint_version,
            }


def flow_row(pipeline: str, flow: str, target: str, summary: Summary | None, open_entries: int | None) -> Values:
    """One flow in a list of flows."""
    return {
        **{"pipeline": pipeline, "flow": flow, "target": target, "summary": summary},
        **{"quarantined": open_entries, "plot": trend.small(summary), "state": None},
    }


def batch(
    pipeline: Pipeline,
    line: Line,
    recent: Sequence[Line],
    judged: Mapping[tuple[str, int], Sequence[RecordedVerdict]],
    history: Iterable[evolution.SchemaHistoryLine],
) -> Values:
    """One batch or swap.

    Args:
        recent: The batches of its flow up to this one, the newest first.
        judged: The judgements of this batch, and maybe others.
        history: The schema history of the pipeline.
    """
    record = line.record
    names = pipeline.names_of(line.flow)
    own = [] if line.is_swap else [each for each in history if _is_in(each, line)]
    answer = next((each for each in own if each.event == "answered"), None)
    return {
        **{
            "pipeline": pipeline.name,
            "flow": line.flow,
            "line": line,
            "answer": answer,
            "changes": changes(own, names),
        },
        "target": next((flow.target.name for flow in pipeline.flows if flow.name == line.flow), ""),
        "sentence": shares.sentence(record) if record else "",
        "tables": list(shares.dispositions(record)) if record else [],
        "rules": shares.by_rule(record) if record else [],
        "fields": names.shown_in(record.rules) if record else [],
        "judgements": [] if line.is_swap else judged.get(line.key, ()),
        "previous": next((other for other in recent if other != line), None),
        "trend": trend.draw(recent, line),
    }


def changes(lines: Iterable[evolution.SchemaHistoryLine], names: FieldNames) -> list[dict[str, str]]:
    """Schema changes, the newest first, as column title to text; columns that are empty in all of them are left out."""
    rows = [
        {
            "Recorded": f"{line.recorded_at:%Y-%m-%d %H:%M:%S}",
            "Batch": "" if line.batch_id is None else str(line.batch_id),
            "Field": names.shown(line.change.field),
            "Formerly": names.shown(line.change.formerly or ""),
            "Kind": line.change.kind.replace("_", " "),
            "Before": line.change.before or "",
            "After": line.change.after or "",
            "Event": line.event,
            "Decision": line.decision.replace("_", " "),
            "Decided by": line.decided_by,
            "Breaks": ", ".join(line.breaks),
        }
        for line in lines
    ][-RECORDS:]
    return [{title: row[title] for title in row if any(each[title] for each in rows)} for row in reversed(rows)]


def alerts(
    place: PipelinePlace, flow: str | None = None, present: Present | None = None
) -> list[dict[str, str]] | None:
    """Episodes, open ones first, then the newest first; None when alerts have not been evaluated yet.

    Args:
        place.layout: The lake.
        place.pipeline: The place.pipeline.
        flow: Only those of this flow.
        present: The open ones whose cause is there, or unknown, in the reading that the page shows; None without a reading.
    """
    if not place.ops("alerts").exists():
        return None
    episodes = [each for each in alert_history.episodes(place) if flow in (None, each.flow)]
    newest = sorted(episodes, key=lambda each: (_end(each, present) == "open", each.opened_at), reverse=True)
    return [
        {
            "Flow": each.flow,
            "Rule": each.rule,
            "Opened": f"{each.opened_at:%Y-%m-%d %H:%M:%S}",
            "Resolved": _end(each, present),
            "Message": each.message,
        }
        for each in newest[:RECORDS]
    ]


def _end(episode: Episode, present: Present | None) -> str:
    """When an episode ended, or ``open``; ``now`` for an open one whose cause is gone in the reading that the page shows."""
    if episode.resolved_at is not None:
        return f"{episode.resolved_at:%Y-%m-%d %H:%M:%S}"
    return "open" if present is None or (episode.flow, episode.rule) in present else "now"


def _is_in(change: evolution.SchemaHistoryLine, line: Line) -> bool:
    """Whether a change was in this batch, or refused it."""
    refused = line.schema_change_id and change.schema_change_id == line.schema_change_id
    return bool(refused) or (change.app_id, change.batch_id) == line.key


def _source(flow: Flow) -> str:
    beside = () if flow.snapshots is None else (flow.snapshots.summary(),)
    return ", ".join([flow.source.summary(), *flow.source_tables[1:], *beside])
