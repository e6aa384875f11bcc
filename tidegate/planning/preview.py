"""What an increment, a backfill, a reingest or a full refresh would read and write, computed before it runs.

Taken from the tables' logs and statistics, the landing zone and the broker; starts no JVM. Estimates are marked as such.
Other pipelines whose declaration does not load are listed and left out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints import derivation
from tidegate.errors import TableUnreadableError, TidegateError
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.planning import rewrites
from tidegate.planning.backfill import Commands, commands
from tidegate.planning.estimate import Estimate, estimate
from tidegate.requests.event_time import event_time, event_time_table
from tidegate.requests.runs import RUNS
from tidegate.sources.tables.measure import rows_and_bytes
from tidegate.spec import Flow, Pipeline
from tidegate.status import source
from tidegate.status.downstream import Downstream, downstream_of
from tidegate.status.reading import Reading
from tidegate.status.source import Extent

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedPipeline
    from tidegate.requests.request import RunRequest
    from tidegate.times.window import Window


@dataclass(frozen=True, kw_only=True)
class FlowPreview:
    """What the run would do in one flow."""

    flow: str
    reads: Extent
    rewrites: str
    """The keys, groups or table whose rows are replaced; empty if rows are only added."""
    keys: int | None
    """Keys or groups with rows of the window in the present table; the present code may derive more."""
    before: str
    """What comes first: an increment, work that earlier runs left, or the error that stops the flow; empty without any."""
    downstream: Downstream
    lease_holder: str | None
    """Who holds the lease of the flow's checkpoint or table now."""
    time: Estimate | None
    derivation: str
    """Whether its rows follow every change of its sources, as far as that is known; empty for flows that are not checked."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "flow": self.flow,
            "reads": self.reads.what,
            "rows": self.reads.rows,
            "rows_exact": self.reads.rows_exact,
            "bytes": self.reads.size,
            "bytes_exact": self.reads.size_exact,
            "rewrites": self.rewrites,
            "keys": self.keys,
            "first": self.before,
            "touches": list(self.downstream.flows),
            "tables": list(self.downstream.tables),
            "starts": list(self.downstream.starts),
            "busy": self.lease_holder,
            "seconds": None if self.time is None else self.time.seconds,
            "estimate": None if self.time is None else asdict(self.time),
            "derivation": self.derivation,
        }

    def lines(self) -> list[str]:
        """Lines of text for messages."""
        what = [f"reads {self.reads.summary()}"]
        if self.rewrites:
            what.append(f"rewrites {self.rewrites}")
        what.append("no history to estimate from" if self.time is None else self.time.summary())
        lines = ["; ".join(what)]
        if self.before:
            lines.append(f"before that: {self.before}")
        if self.derivation:
            lines.append(self.derivation)
        lines += self.downstream.lines()
        if self.lease_holder:
            lines.append(
                f"its lease is held by {self.lease_holder}: at present `tidegate run` would end with exit code 75, "
                "and Airflow would retry later"
            )
        return [f"{self.flow}: {line}" for line in lines]


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a request would do."""

    flows: tuple[FlowPreview, ...]
    commands: Commands
    unknown: tuple[str, ...] = ()
    """Pipelines whose files do not load, so that it is unknown whether they read these tables."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "flows": [flow.to_json() for flow in self.flows],
            "unknown": list(self.unknown),
            "commands": list(self.commands.all),
        }

    def lines(self) -> list[str]:
        """Lines of text for messages: a few per flow, then the commands."""
        lines = [line for flow in self.flows for line in flow.lines()]
        lines += [f"{name} does not load; it is unknown whether it reads these tables" for name in self.unknown]
        return lines + self.commands.lines()


def preview(
    environment: Environment,
    resolved: ResolvedPipeline,
    request: RunRequest,
    readings: tuple[Reading, ...] | None = None,
) -> Preview:
    """What a request would do.

    Args:
        readings: For an increment: those of `tidegate.status.plan.decide`.

    Raises:
        SourceError: A landing folder or a topic does not exist.
        SourceUnavailableError: No broker answers. Transient.
    """
    layout, pipeline = Layout.of(environment), resolved.pipeline
    flows = (
        tuple(_of_increment(resolved, each, readings) for each in readings if each.has_work)
        if readings is not None
        else tuple(
            _of_mode(environment, layout, resolved, flow, request)
            for flow in request.selected(pipeline)
            if request.applies_to(flow)
        )
    )
    return Preview(
        flows=flows,
        commands=commands(pipeline, request, judged=_is_judged(layout, pipeline, request)),
        unknown=tuple(
            name for name, declaration in resolved.declared.items() if isinstance(declaration, TidegateError)
        ),
    )


def _is_judged(layout: Layout, pipeline: Pipeline, request: RunRequest) -> bool:
    """Whether a dry run has something to judge; not if a table cannot be read, which the plan of its flow says."""
    try:
        return rewrites.has_any(layout, pipeline, request)
    except TableUnreadableError:
        return False


def _of_increment(resolved: ResolvedPipeline, reading: Reading, readings: tuple[Reading, ...]) -> FlowPreview:
    flow, lag = reading.resolved.flow, reading.backlog
    above = resolved.pipeline.upstream_of(flow)
    rows = lag.rows
    if not rows and above:
        # About as many as the upstream flow of the first source reads.
        rows = next((each.lag.rows if each.lag else None for each in readings if each.flow == above[0].name), rows)
    return FlowPreview(
        flow=flow.name,
        reads=replace(lag, what=_unread(reading)),
        rewrites=_of_rows(flow, rows),
        keys=None,
        before=reading.unfinished,
        downstream=downstream_of(flow.target.name, resolved.declared),
        lease_holder=reading.holder,
        time=estimate(reading.place, "incremental", rows),
        derivation=derivation.summary(reading.layout, reading.resolved),
    )


def _unread(reading: Reading) -> str:
    """What an increment reads, to follow "reads"; the names of files follow their number."""
    names = f": {reading.backlog.ahead}" if reading.backlog.ahead else ""
    return reading.reads + names + (f"; {reading.remarks}" if reading.remarks else "")


def _of_rows(flow: Flow, rows: int | None) -> str:
    """The keys or groups that the rows of an increment may change."""
    if not flow.target.keys:
        return ""
    return f"{flow.kind.unit}s of {flow.target.name} of these rows" + (f", {rows:,} at most" if rows else "")


def _of_mode(
    environment: Environment, layout: Layout, resolved: ResolvedPipeline, flow: Flow, request: RunRequest
) -> FlowPreview:
    pipeline = resolved.pipeline
    reading = Reading.of(environment, resolved.flow(flow.name))
    try:
        reads = source.load(flow).extent(environment, pipeline, flow, request)
    except TidegateError as error:
        raise error.naming(flow.name) from None
    existing = rows_and_bytes(layout.table(flow.target.name))[0]
    keys, rows, quantity, words = None, reads.rows, "", RUNS[request.mode].rewrites
    if "{keys}" in words and request.window is not None:
        keys = _keys_within(layout, flow, event_time(pipeline, flow), request.window)
        unit = flow.kind.unit
        number = f"an unknown number of {unit}s" if keys is None else count(keys, unit)
        quantity = f"{number} of {flow.target.name} in {request.window.summary()}"
        if keys is not None and flow.kind.has_groups:
            rows = keys
        elif keys is not None and existing and rows is not None:
            rows = round(rows * min(1, keys / existing))
    rewrites = words.format(table=flow.target.name, rows=count(existing or 0, "row"), keys=quantity)
    return FlowPreview(
        flow=flow.name,
        reads=reads,
        rewrites=rewrites,
        keys=keys,
        before=_before(reading, whole=request.window is None and not request.gaps),
        downstream=downstream_of(flow.target.name, resolved.declared),
        lease_holder=reading.holder,
        time=estimate(FlowPlace(layout, pipeline.name, flow.name), request.mode, rows),
        derivation=derivation.summary(layout, resolved.flow(flow.name)),
    )


def _before(reading: Reading, *, whole: bool) -> str:
    """The increment that runs before a window or gaps are read; where the whole source is, there is none."""
    try:
        reading.measure()
    except TidegateError as error:
        return f"it would fail: {error.message}"
    return f"an increment, {reading.reason}" if reading.has_work and not whole else ""


def _keys_within(layout: Layout, flow: Flow, column: str | None, window: Window) -> int | None:
    """The number of keys or groups with a row in the window; None without the table or its columns."""
    from tidegate.ops import store
    from tidegate.probes import delta_table
    from tidegate.trace import conditions

    name = event_time_table(flow)
    path = layout.read_table(name)
    table = None if column is None else delta_table.find(path)
    if column is None or table is None:
        return None
    types = {field.name: str(getattr(field.type, "type", "")) for field in table.schema().fields}
    names = list(flow.target.scope if flow.kind.has_groups else flow.target.keys)
    if not {column, *names} <= types.keys():
        return None
    of_days = types[column] == "date"
    first, last = window.dates if of_days else (window.since.in_timezone("UTC"), window.until.in_timezone("UTC"))
    bounds = ((first, ">="), (last, "<=" if of_days else "<"))
    where = " AND ".join(conditions.where(table, name, {column: bound}, comparison) for bound, comparison in bounds)
    distinct = f"SELECT DISTINCT {', '.join(map(delta_table.quoted, names))} FROM delta_table WHERE {where}"
    [counted] = store.select(path, f"SELECT count(*) AS keys FROM ({distinct})")
    return int(counted["keys"])
