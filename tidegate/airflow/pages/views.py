"""The template variables that only pages in Airflow have: the status of the flows, and the attempts of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fastapi import HTTPException

from tidegate.errors import TidegateError
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import PipelinePlace
from tidegate.pages.content import PER_PAGE, PageContent, Values, flow_row
from tidegate.project.resolution import ResolvedPipeline
from tidegate.spec import Pipeline
from tidegate.states import STALE, STATES, status_of
from tidegate.status.attempts import attempts_of
from tidegate.status.reading import Reading
from tidegate.status.status_cache import StatusCache, Statuses

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.ops.journal import Summary


NEEDS_PERSON = "needs a person"
"""The choice of the filter for the flows of which the overview says that they need a person."""


class Views:
    """Builds the template variables. Thread-safe; must be created in the serving process, after any fork."""

    def __init__(self, environment: Environment, surroundings: Callable[[], tuple[str, ...]] = tuple) -> None:
        """Reads nothing yet.

        Args:
            surroundings: Says what is wrong with Airflow's components.
        """
        self._environment = environment
        self._layout = Layout.of(environment)
        self._statuses = StatusCache(environment, surroundings=surroundings)
        self._content = PageContent(self._layout)

    def is_declared(self, dag_id: str) -> bool:
        """Whether a DAG belongs to a pipeline, also one whose declaration currently does not load."""
        return dag_id in self._statuses.statuses().declared

    def is_flow(self, dag_id: str, name: str) -> bool:
        """Whether a task is the task of a flow."""
        pipeline = _loaded(self._statuses.statuses().declared.get(dag_id))
        return pipeline is not None and any(flow.name == name for flow in pipeline.flows)

    def overview(self, permitted: set[str], text: str, state: str) -> Values:
        """The overview: every flow of the pipelines that the user may see.

        Args:
            permitted: Ids of their DAGs.
            text: Words that the name of the pipeline, flow or table must contain; empty for all.
            state: Only flows in this state, or `NEEDS_PERSON`; empty for all.
        """
        statuses = self._statuses.statuses()
        names = [name for name in statuses.declared if name in permitted]
        summaries = self._content.journal.summaries(names)
        rows = [self._row(each, summaries) for name in names for each in statuses.of(name)]
        matching = [row for row in rows if _matches(row, text, state)]
        groups = [
            {"name": name, "declared": _loaded(statuses.declared[name]), "rows": own}
            for name in names
            if (own := [row for row in matching if row["pipeline"] == name])
        ]
        return {
            **_age(statuses),
            "components": statuses.surroundings,
            "groups": groups,
            "shown": len(matching),
            "flows": len(rows),
            "need_person": (need_person := sum(row["state"].needs_person for row in rows)),
            "states": [
                *([(NEEDS_PERSON, need_person)] if need_person else []),
                *[(name, count) for name in STATES if (count := Counter(row["state"].name for row in rows)[name])],
            ],
            "read_today": sum(summary.read_today for summary in summaries.values()),
            "quarantined_today": sum(summary.quarantined_today for summary in summaries.values()),
            "open": sum(row["quarantined"] or 0 for row in rows),
            "alerts": sum(len(row["state"].alerts) for row in rows)
            if any(PipelinePlace(self._layout, name).ops("alerts").exists() for name in names)
            else None,
            "text": text,
            "state": state,
        }

    def pipeline(self, dag_id: str) -> Values:
        """One pipeline: its flows, its newest batches, its alerts."""
        statuses = self._statuses.statuses()
        summaries = self._content.journal.summaries([dag_id])
        rows = [self._row(each, summaries) for each in statuses.of(dag_id)]
        return self._content.pipeline(dag_id, _present_alerts(statuses.of(dag_id))) | {
            **_age(statuses),
            "declared": _loaded(statuses.declared[dag_id]),
            "rows": rows,
            "history": self._environment.spark_history,
        }

    def flow(self, dag_id: str, name: str, page: int) -> Values:
        """One page of a flow's batches, with its status.

        Raises:
            HTTPException: 404 if the pipeline or the flow is not declared.
        """
        statuses = self._statuses.statuses()
        declared = self._declared(statuses, dag_id, name)
        [reading] = [each for each in statuses.of(dag_id) if each.flow == name]
        return self._content.flow(declared, name, page, _present_alerts([reading])) | {
            **_age(statuses),
            "row": self._row(reading, self._content.journal.summaries([dag_id])),
            "refused_page": self._refused_page(reading),
        }

    def batch(self, dag_id: str, flow: str, page: str) -> Values:
        """One batch or swap, by the name of its page.

        Raises:
            HTTPException: 404 if the pipeline or the flow is not declared, or has no such batch.
        """
        values = self._content.batch(self._declared(self._statuses.statuses(), dag_id, flow), flow, page)
        if values is None:
            raise HTTPException(404)
        return values

    def run(self, dag_id: str, run_id: str, flow: str | None = None) -> Values:
        """One run: its attempts and the batches that it recorded or judged.

        Args:
            flow: Only this flow.
        """
        key = run_key(run_id)
        attempts = attempts_of(PipelinePlace(self._layout, dag_id), key, datetime.now(UTC))
        return {
            "pipeline": dag_id,
            "run_id": run_id,
            "only": flow,
            "attempts": attempts,
            "lines": self._content.journal.lines(dag_id, flow=flow, run_key=key, limit=PER_PAGE),
            "history": self._environment.spark_history,
        }

    def _row(self, reading: Reading, summaries: Mapping[tuple[str, str], Summary]) -> Values:
        summary = summaries.get((reading.pipeline, reading.flow))
        entries, newest = reading.known(Reading.quarantine), reading.known(Reading.newest)
        open_entries = None if entries is None else entries.open
        return flow_row(reading.pipeline, reading.flow, reading.target, summary, open_entries) | {
            "lag": reading.lag,
            "lease": reading.known(Reading.holder),
            "completeness": reading.known(Reading.completeness),
            "state": status_of(reading),
            "newest": newest or (summary.at if summary else None),
            "newest_is": "event" if newest and reading.resolved.flow.target.event_time else "ingested",
        }

    def _declared(self, statuses: Statuses, dag_id: str, flow: str) -> Pipeline:
        """The pipeline; raises the answer 404 if it does not declare the flow."""
        pipeline = _loaded(statuses.declared.get(dag_id))
        if pipeline is None or all(each.name != flow for each in pipeline.flows):
            raise HTTPException(404)
        return pipeline

    def _refused_page(self, reading: Reading) -> str | None:
        """The name of the page of the pending batch that a gate or a contract refused; None when there is none."""
        if reading.known(Reading.wait) is None:
            return None
        page = f"v{reading.place.version}-{reading.place.refresh}-batch-{reading.progress.pending_batch}"
        recorded = self._content.journal.lines(reading.pipeline, flow=reading.flow, page=page, limit=1)
        return page if recorded else None


def _loaded(declared: ResolvedPipeline | TidegateError | None) -> Pipeline | None:
    return declared.pipeline if isinstance(declared, ResolvedPipeline) else None


def _present_alerts(readings: Iterable[Reading]) -> frozenset[tuple[str, str]]:
    """Flow and rule of the recorded alerts whose cause is there, or unknown, in a reading."""
    return frozenset((each.flow, rule) for each in readings for rule in each.alerts)


def _matches(row: Values, text: str, state: str) -> bool:
    names = f"{row['state'].reading.label} {row['target']}".lower()
    chosen = row["state"].needs_person if state == NEEDS_PERSON else state in ("", row["state"].name)
    return chosen and all(word in names for word in text.lower().split())


def _age(statuses: Statuses) -> Values:
    """When the statuses were read, and whether that is too long ago."""
    at = datetime.fromtimestamp(statuses.at, UTC)
    return {"as_of": at, "stale": datetime.now(UTC) - at > STALE}
