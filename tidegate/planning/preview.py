"""What a run would do, worked out before anything runs: an increment, a replay, a reingest or a full refresh.

Read from the tables' logs and statistics, the landing zone and the broker; starts no JVM. It is advice: what is estimated
says so, and a neighbour's declaration that does not load is told and left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tidegate import registry
from tidegate.checkpoints import lease
from tidegate.errors import TidegateError
from tidegate.layout import Layout
from tidegate.planning.backfill import Commands, commands
from tidegate.planning.downstream import Downstream, below
from tidegate.planning.estimate import Estimate, estimate
from tidegate.planning.extent import Extent, of_source, rows_and_bytes
from tidegate.request import event_time, timed_table
from tidegate.spec import ChangeFeed, Flow, Pipeline
from tidegate.status.lag import Lag, measure
from tidegate.wording import count

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.request import RunRequest
    from tidegate.window import Window


@dataclass(frozen=True, kw_only=True)
class FlowPreview:
    """What the run would do in one flow."""

    flow: str
    reads: Extent
    rewrites: str
    """What gives way: keys or groups, or the whole table; empty where rows are only added."""
    keys: int | None
    """Keys or groups that the window names in the table as it stands; the new code may name more."""
    first: str
    """What an ordinary increment does before it, or what stops it; empty when there is nothing."""
    touches: Downstream
    busy: str | None
    """Who holds the flow's checkpoint or its table now."""
    time: Estimate | None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "flow": self.flow,
            "reads": self.reads.what,
            "rows": self.reads.rows,
            "rows_exact": self.reads.rows_exact,
            "bytes": self.reads.size,
            "bytes_exact": self.reads.size_exact,
            "rewrites": self.rewrites,
            "keys": self.keys,
            "first": self.first,
            "touches": list(self.touches.flows),
            "tables": list(self.touches.tables),
            "starts": list(self.touches.starts),
            "busy": self.busy,
            "seconds": None if self.time is None else self.time.seconds,
            "estimate": None if self.time is None else asdict(self.time),
        }

    def lines(self) -> list[str]:
        """For people."""
        what = [f"reads {self.reads.told()}"]
        if self.rewrites:
            what.append(f"rewrites {self.rewrites}")
        what.append("no history to estimate from" if self.time is None else self.time.told())
        told = ["; ".join(what)]
        if self.first:
            told.append(f"before that: {self.first}")
        told += self.touches.lines()
        if self.busy:
            told.append(
                f"it is held by {self.busy}: now `tidegate run` would end with 75, and Airflow would try again later"
            )
        return [f"{self.flow}: {line}" for line in told]


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a request would do."""

    flows: tuple[FlowPreview, ...]
    commands: Commands
    unknown: tuple[str, ...] = ()
    """Pipelines whose files do not load: nobody can tell whether they read these tables."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "flows": [flow.to_json() for flow in self.flows],
            "unknown": list(self.unknown),
            "commands": list(self.commands.every),
            "backfill_runs": self.commands.runs,
        }

    def lines(self) -> list[str]:
        """For people: a few lines per flow, then the commands."""
        told = [line for flow in self.flows for line in flow.lines()]
        told += [f"{name} does not load; whether it reads these tables is not known" for name in self.unknown]
        return told + self.commands.lines()


def preview(
    environment: Environment, pipeline: Pipeline, request: RunRequest, lags: tuple[Lag, ...] | None = None
) -> Preview:
    """Work out what a request would do.

    Args:
        environment: Places, and where the broker is.
        pipeline: The pipeline.
        request: Checked.
        lags: Of an increment: what `tidegate.status.lag.plan` found.

    Raises:
        SourceError: A landing folder or a topic is not there.
        SourceUnavailableError: No broker answers. Transient.
    """
    layout = Layout.of(environment)
    declared = registry.declarations() | {pipeline.name: pipeline}
    seen = (
        tuple(_of_increment(layout, pipeline, declared, lag, lags) for lag in lags if lag.has_work)
        if lags is not None
        else tuple(
            _of_mode(environment, layout, pipeline, declared, flow, request)
            for flow in request.chosen(pipeline)
            if request.concerns(flow)
        )
    )
    return Preview(
        flows=seen,
        commands=commands(pipeline, request),
        unknown=tuple(name for name, found in declared.items() if isinstance(found, TidegateError)),
    )


def _of_increment(
    layout: Layout,
    pipeline: Pipeline,
    declared: Mapping[str, Pipeline | TidegateError],
    lag: Lag,
    lags: tuple[Lag, ...],
) -> FlowPreview:
    flow = pipeline.flow(lag.flow)
    above = pipeline.upstream_of(flow)
    rows = lag.rows
    if not rows and above is not None:
        # About as many as the flow above takes in.
        rows = next((other.rows for other in lags if other.flow == above.name), rows)
    return FlowPreview(
        flow=flow.name,
        reads=Extent(
            what=_news(lag),
            rows=lag.rows,
            size=lag.bytes,
            rows_exact=lag.rows_exact,
            size_exact=lag.bytes_exact,
        ),
        rewrites=_of_rows(flow, rows),
        keys=None,
        first="",
        touches=below(flow.target.name, declared),
        busy=_busy(layout, pipeline, flow),
        time=estimate(layout, pipeline.name, flow.name, "incremental", rows, None),
    )


def _news(lag: Lag) -> str:
    """What an increment reads, for a sentence that begins with "reads"; names of files stand by the files that are read."""
    what, passed_over, rest = lag.reason.removeprefix("reads ").partition("; not read: ")
    return f"{what}: {lag.ahead}{passed_over}{rest}" if lag.ahead else what + passed_over + rest


def _of_rows(flow: Flow, rows: int | None) -> str:
    """What rows of an increment may change in a flow's table."""
    if not flow.target.keys:
        return ""
    what = "groups" if flow.target.write_mode == "recompute" else "keys"
    return f"{what} of {flow.target.name} that these rows name" + (f", {rows:,} at most" if rows else "")


def _of_mode(
    environment: Environment,
    layout: Layout,
    pipeline: Pipeline,
    declared: Mapping[str, Pipeline | TidegateError],
    flow: Flow,
    request: RunRequest,
) -> FlowPreview:
    reads = of_source(environment, layout, pipeline.name, flow, request.window)
    held = rows_and_bytes(layout.table(flow.target.name))[0]
    keys = named = None
    if not isinstance(flow.source, ChangeFeed):
        rewrites = f"nothing: {flow.target.name} takes what it lacks"
    elif request.mode == "replay" and request.window is not None:
        keys = _keys_within(layout, pipeline, flow, request.window)
        what = "group" if flow.target.write_mode == "recompute" else "key"
        told = f"an unknown number of {what}s" if keys is None else count(keys, what)
        rewrites = f"{told} of {flow.target.name} in {request.window.told()}, where the result differs"
        if flow.target.write_mode == "recompute":
            named = keys
        elif keys is not None and held and reads.rows is not None:
            named = round(reads.rows * min(1, keys / held))
    else:
        rewrites = f"{flow.target.name} ({0 if held is None else held:,} rows), where the result differs"
    return FlowPreview(
        flow=flow.name,
        reads=reads,
        rewrites=rewrites,
        keys=keys,
        first=_first(environment, pipeline, flow, windowed=request.window is not None),
        touches=below(flow.target.name, declared),
        busy=_busy(layout, pipeline, flow),
        time=estimate(layout, pipeline.name, flow.name, request.mode, reads.rows, named),
    )


def _first(environment: Environment, pipeline: Pipeline, flow: Flow, *, windowed: bool) -> str:
    """The increment before what is asked for a window; without a window all is read anyway."""
    try:
        lag = measure(environment, pipeline, flow)
    except TidegateError as error:
        return f"it would stop: {error.message}"
    return f"an increment, {lag.reason}" if lag.has_work and windowed else ""


def _busy(layout: Layout, pipeline: Pipeline, flow: Flow) -> str | None:
    """The live run, or whoever else works on the flow now."""
    resources = (lease.checkpoint_resource(pipeline.name, flow.name), lease.table_resource(flow.target.name))
    return next((who for each in resources if (who := lease.holder(layout, each)) is not None), None)


def _keys_within(layout: Layout, pipeline: Pipeline, flow: Flow, window: Window) -> int | None:
    """Keys, or groups of the source, that have a row in the window; None when the table or its column is not there."""
    from tidegate.probes import delta

    path, column = layout.table(timed_table(pipeline, flow)), event_time(pipeline, flow)
    if column is None or delta.current_version(path) is None:
        return None
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    dataset = DeltaTable(str(path)).to_pyarrow_dataset()
    if any(name not in dataset.schema.names for name in (column, *flow.target.keys)):
        return None
    kind, field = dataset.schema.field(column).type, ds.field(column)
    if pa.types.is_date(kind):
        first, last = window.dates
        within = (field >= pa.scalar(first)) & (field <= pa.scalar(last))
    else:
        start, end = (
            pa.scalar(moment, type=pa.timestamp("us", tz="UTC")).cast(kind) for moment in (window.first, window.behind)
        )
        within = (field >= start) & (field < end)
    named = dataset.to_table(columns=list(flow.target.keys), filter=within)
    return int(named.group_by(list(flow.target.keys)).aggregate([]).num_rows)
