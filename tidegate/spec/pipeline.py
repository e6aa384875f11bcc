"""Declarations of a pipeline and of its schedule."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING

import pendulum

from tidegate.advice import Edit
from tidegate.errors import FieldError, SpecError
from tidegate.schema.names import AS_THEY_ARE, FieldNames
from tidegate.spec.checks import check_name, check_table, check_texts, check_unique, fits
from tidegate.spec.flow import Flow
from tidegate.spec.limits import RewriteLimits, Thresholds, check_thresholds
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.spec.resources import Resources
    from tidegate.spec.tables import InvalidTable, Tables

SHARED_DAGS = ("alerts", "quarantine", "schema_approval")
"""Ids of the DAGs that serve all pipelines; not allowed as names of pipelines."""
SHARED_TASKS = ("plan", "run")
"""Tasks that every pipeline's DAG has in addition to one per flow; not allowed as names of flows."""
_FLOWS = "a tuple of one Flow or more"


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Flows with a schedule, which one DAG runs."""

    name: str
    """Also the DAG's id and the stem of the pipeline's files in every folder; none of `SHARED_DAGS`."""
    flows: tuple[Flow, ...] = ()
    tables: InitVar[Tables | None] = None
    """Many tables of one shape, whose flows are added to ``flows``."""
    schedule: str | AfterTables | None = None
    """A cron expression, ``@hourly``, ``@daily``, ``@weekly``, ``@monthly``, ``@yearly``, the tables of other pipelines
    that it follows (`AfterTables`), or None for manual runs only."""
    timezone: str = "UTC"
    start_date: str = "2026-01-01"
    """The first data interval begins at or after this date (``YYYY-MM-DD``)."""
    owner: str = "data-engineering"
    description: str = ""
    tags: tuple[str, ...] = ()
    retries: int = 3
    """How often Airflow runs the application again after a transient error."""
    thresholds: Thresholds = dataclasses.field(default_factory=Thresholds)
    """Limits for alerts about flows without thresholds of their own."""
    rewrite_limits: RewriteLimits = dataclasses.field(default_factory=RewriteLimits)
    """How much a backfill, a full refresh or a new version of a flow without limits of its own may delete or refuse."""
    resources: Resources | None = None
    """What the Spark application of a run requests; None: as in the settings."""
    listed: tuple[str, ...] = ()
    """The names of the flows that ``tables`` made; not declared."""
    invalid_tables: tuple[InvalidTable, ...] = ()
    """The entries of ``tables`` that made no flows; not declared."""

    def __post_init__(self, tables: Tables | None) -> None:
        owner = f"Pipeline {self.name!r}"
        check_name(owner, "name", self.name)
        if self.name in SHARED_DAGS:
            raise FieldError(owner, "name", self.name, "another name: this is a DAG that serves all pipelines")
        self._check_fields(owner)
        if tables is not None:
            self._add_flows(owner, tables)
        self._check_flows(owner)
        object.__setattr__(self, "flows", _topological_order(owner, self.flows))

    def _check_fields(self, owner: str) -> None:
        """Check the types and values of the fields, without what depends on the flows that the pipeline has."""
        if not isinstance(self.flows, tuple) or not all(isinstance(each, Flow) for each in self.flows):
            raise FieldError(owner, "flows", self.flows, _FLOWS)
        known = self.schedule is None or isinstance(self.schedule, AfterTables) or self.schedule in PRESETS
        if not known and not is_cron(self.schedule):
            allowed = f"None, five cron fields, one of {', '.join(PRESETS)}, or AfterTables(…)"
            raise FieldError(owner, "schedule", self.schedule, allowed)
        if not isinstance(self.timezone, str):
            raise FieldError(owner, "timezone", self.timezone, "an IANA zone, as in 'Europe/Paris'")
        try:
            pendulum.timezone(self.timezone)
        except Exception:
            raise FieldError(owner, "timezone", self.timezone, "an IANA zone, as in 'Europe/Paris'") from None
        try:
            dates.midnight(self.start_date)
        except ValueError:
            raise FieldError(owner, "start_date", self.start_date, dates.ALLOWED) from None
        if not isinstance(self.retries, int) or isinstance(self.retries, bool) or not 0 <= self.retries <= 20:
            raise FieldError(owner, "retries", self.retries, "0 to 20")
        check_texts(owner, "tags", self.tags)
        check_thresholds(owner, self.thresholds)
        if not isinstance(self.rewrite_limits, RewriteLimits):
            raise FieldError(owner, "rewrite_limits", self.rewrite_limits, "RewriteLimits(…)")
        if self.resources is not None:
            from tidegate.spec.resources import check_resources

            check_resources(owner, self.resources)
        if not isinstance(self.owner, str) or not self.owner.strip():
            raise FieldError(owner, "owner", self.owner, "a name")
        if not isinstance(self.description, str):
            raise FieldError(owner, "description", self.description, "a text")
        check_texts(owner, "listed", self.listed)
        if self.invalid_tables != ():
            from tidegate.spec.tables import check_invalid

            check_invalid(owner, self.invalid_tables)

    def _add_flows(self, owner: str, tables: Tables) -> None:
        """Add the flows of the valid tables of a list."""
        from tidegate.spec.tables import Tables, make_flows

        if not isinstance(tables, Tables):
            raise FieldError(owner, "tables", tables, "Tables(…) or None")

        def check(flows: tuple[Flow, ...]) -> None:
            # The pipeline's thresholds apply to some flow, but perhaps to none of these.
            dataclasses.replace(self, flows=flows, thresholds=Thresholds())

        made, invalid = make_flows(tables, self.flows, check)
        if invalid and not (self.flows or made):
            raise invalid[0].error
        object.__setattr__(self, "flows", (*self.flows, *made))
        object.__setattr__(self, "listed", tuple(flow.name for flow in made))
        object.__setattr__(self, "invalid_tables", invalid)

    def _check_flows(self, owner: str) -> None:
        if not self.flows:
            raise FieldError(owner, "flows", self.flows, _FLOWS)
        check_unique(owner, "flows", [flow.name for flow in self.flows], "names")
        if reserved := [flow.name for flow in self.flows if flow.name in SHARED_TASKS]:
            allowed = f"names other than {' and '.join(SHARED_TASKS)}, which are tasks of every DAG"
            raise FieldError(owner, "flows", reserved[0], allowed)
        check_unique(owner, "flows", [flow.target.name for flow in self.flows], "targets (one writer per table)")
        followed = self.schedule.tables if isinstance(self.schedule, AfterTables) else ()
        if own := [table for table in followed if self.writer_of(table)]:
            raise FieldError(owner, "schedule", own[0], "tables of other pipelines: it would trigger itself")
        self._check_thresholds_apply(owner)

    def _check_thresholds_apply(self, owner: str) -> None:
        """Refuse a declared threshold of a flow that cannot apply to it, and one of the pipeline that applies to no flow."""
        for flow in self.flows:
            if flow.thresholds is not None:
                self._check_apply(f"{owner}, flow {flow.name!r}", flow.thresholds, (flow,))
        if self.thresholds.declared:
            self._check_apply(owner, self.thresholds, tuple(flow for flow in self.flows if flow.thresholds is None))

    def _check_apply(self, owner: str, thresholds: Thresholds, flows: tuple[Flow, ...]) -> None:
        for name in thresholds.declared:
            applies, where = _APPLIES.get(name, (None, ""))
            if applies is not None and not any(applies(self, flow) for flow in flows):
                raise FieldError(owner, f"thresholds.{name}", getattr(thresholds, name), f"None, or {where}")

    def flow(self, name: str) -> Flow:
        """The flow of that name.

        Raises:
            SpecError: There is none.
        """
        for flow in self.flows:
            if flow.name == name:
                return flow
        raise SpecError(
            f"pipeline {self.name!r} has no flow {name!r}",
            Edit(f"it has: {', '.join(f.name for f in self.flows)}", "request"),
        )

    def declared_alone(self, flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
        """Those of some flows that no list of tables has made, whose errors are errors of the pipeline."""
        listed = frozenset(self.listed)
        return tuple(flow for flow in flows if flow.name not in listed)

    def thresholds_of(self, flow: Flow) -> Thresholds:
        """The flow's own thresholds, or else the pipeline's."""
        return self.thresholds if flow.thresholds is None else flow.thresholds

    def rewrite_limits_of(self, flow: Flow) -> RewriteLimits:
        """The flow's own limits, or else the pipeline's."""
        return self.rewrite_limits if flow.rewrite_limits is None else flow.rewrite_limits

    def writer_of(self, table: str) -> Flow | None:
        """The flow of this pipeline that writes ``table``; None if there is none."""
        return next((flow for flow in self.flows if flow.target.name == table), None)

    def names_of(self, flow: str) -> FieldNames:
        """The names of fields that are not those of columns, in the records that a flow lands or parses; none for other flows."""
        each = next((each for each in self.flows if each.name == flow), None)
        sources = () if each is None else (each, *self.upstream_of(each))
        landed = next((source.landed_source for source in sources if source.landed_source is not None), None)
        return AS_THEY_ARE if landed is None else landed.names

    def upstream_of(self, flow: Flow) -> tuple[Flow, ...]:
        """The flows of this pipeline that write tables that ``flow`` reads, in the order of its sources."""
        writers = (self.writer_of(table) for table in flow.read_tables)
        return tuple(writer for writer in writers if writer is not None)

    def reads_external(self, flow: Flow) -> bool:
        """Whether the flow reads files, a topic or a table of another pipeline."""
        return not flow.feeds or len(self.upstream_of(flow)) < len(flow.read_tables)


def _reads_external(pipeline: Pipeline, flow: Flow) -> bool:
    return pipeline.reads_external(flow)


def _has_cron(pipeline: Pipeline, _: Flow) -> bool:
    return isinstance(pipeline.schedule, str)


def _has_schedule(pipeline: Pipeline, _: Flow) -> bool:
    return pipeline.schedule is not None


def _transforms_rows(_: Pipeline, flow: Flow) -> bool:
    return flow.transform is not None and flow.kind.quarantines


_EXTERNAL = (_reads_external, "only for a flow that reads files, a topic or a table of another pipeline")
_SCHEDULED = (_has_schedule, "only with a schedule")
_STATEFUL = (lambda _, flow: flow.kind.stateful, "only for a flow with state")
_APPLIES: Mapping[str, tuple[Callable[[Pipeline, Flow], bool], str]] = {
    "no_input_runs": _EXTERNAL,
    "no_input_hours": _EXTERNAL,
    "missed_runs": (_has_cron, "only with a cron schedule"),
    "batch_intervals": _SCHEDULED,
    "lag_intervals": _SCHEDULED,
    "expiry_runs": (lambda _, flow: flow.source.deletes_unread, "only for a flow that reads a topic"),
    "freshness_hours": (lambda _, flow: flow.target.event_time is not None, "only for a target with event_time"),
    **dict.fromkeys(("state_rows", "state_bytes", "watermark_hours"), _STATEFUL),
    "transform_error_share": (_transforms_rows, "only for a flow whose transform treats rows"),
}
"""Thresholds that do not apply to every flow, with the condition."""


def _topological_order(owner: str, flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    by_target = {flow.target.name: flow for flow in flows}
    ordered: dict[str, Flow] = {}
    visiting: list[str] = []

    def visit(flow: Flow) -> None:
        if flow.name in ordered:
            return
        if flow.name in visiting:
            raise FieldError(owner, "flows", " -> ".join([*visiting, flow.name]), "flows without a cycle")
        visiting.append(flow.name)
        for table in flow.read_tables:
            if table in by_target:
                visit(by_target[table])
        visiting.pop()
        ordered[flow.name] = flow

    for flow in flows:
        visit(flow)
    return tuple(ordered.values())


PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")
_CRON = re.compile(r"\S+ \S+ \S+ \S+ \S+")


@dataclass(frozen=True, init=False)
class AfterTables:
    """A schedule: a run whenever another pipeline has written rows to one of these tables.

    ``AfterTables("silver.flights", "silver.clicks")``. An increment that wrote no row triggers no run. All increments
    that end during a run trigger one further run.
    """

    tables: tuple[str, ...]
    """Each as ``<layer>.<table>``."""
    intervals: bool = False
    """A run not for new rows, but for each complete interval of the source from which one of the tables was read. They are bronze
    tables whose source declares ``intervals``."""

    def __init__(self, *tables: str, intervals: bool = False) -> None:
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "intervals", intervals)
        if not isinstance(intervals, bool):
            raise FieldError("AfterTables", "intervals", intervals, "True or False")
        if not tables:
            raise FieldError("AfterTables", "tables", tables, "one table or more, as in AfterTables('silver.flights')")
        for table in tables:
            check_table(self, "tables", table)
        check_unique("AfterTables", "tables", list(tables), "tables")


def is_cron(value: object) -> bool:
    """Whether a value is a cron expression of five fields, each within its range."""
    if not isinstance(value, str) or not fits(_CRON, value):
        return False
    from croniter import croniter

    return bool(croniter.is_valid(value))
