"""What a replay, a reingest or a full refresh would do, worked out before anything runs. Starts no JVM.

Read from the tables' logs and statistics, the landing zone and the broker. What is estimated says so.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from tidegate import lease, registry
from tidegate.layout import Layout
from tidegate.request import event_time, timed_table
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSource, Pipeline
from tidegate.wording import count
from tidegate.wording import size as size_told

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.request import RunRequest
    from tidegate.window import Window


@dataclass(frozen=True, kw_only=True)
class FlowPreview:
    """What the mode would do in one flow."""

    flow: str
    reads: str
    """What is read, for people: ``bronze.flights version 12``, ``40 files``, ``1,200 messages``."""
    rows: int | None
    """Rows to be read, from the log's statistics; None where nothing tells."""
    bytes: int | None
    rewrites: str
    """What gives way: keys or groups of the window, or the whole table."""
    keys: int | None
    """Keys or groups that the window names in the table as it stands; the new code may name more."""
    touches: tuple[str, ...]
    """Flows that read the table's change feed, ``<pipeline>/<flow>``, of all pipelines."""
    busy: str | None
    """Who holds the table now; the run would wait for it."""
    seconds: float | None
    """From the rows a second of this flow's recorded batches; None without a history."""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a request would do."""

    flows: tuple[FlowPreview, ...]
    commands: tuple[str, ...]
    """The exact commands that would start it."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"flows": [asdict(flow) for flow in self.flows], "commands": list(self.commands)}

    def lines(self) -> list[str]:
        """For people: a few lines per flow, then the commands."""
        told = []
        for flow in self.flows:
            amount = "" if flow.rows is None else f", {flow.rows:,} rows"
            size = "" if flow.bytes is None else f", {size_told(flow.bytes)}"
            time = "no history to estimate from" if flow.seconds is None else f"about {flow.seconds:,.0f} s"
            told.append(f"{flow.flow}: reads {flow.reads}{amount}{size}; rewrites {flow.rewrites}; {time}")
            if flow.touches:
                told.append(f"{flow.flow}: what changes reaches {', '.join(flow.touches)}")
            if flow.busy:
                told.append(f"{flow.flow}: the table is held by {flow.busy}; the run would wait")
        return told + [f"to start it: {command}" for command in self.commands]


def preview(environment: Environment, pipeline: Pipeline, request: RunRequest) -> Preview:
    """Work out what a request of a manual mode would do.

    Raises:
        SourceError: A landing folder or a topic is not there.
        SourceUnavailableError: No broker answers. Transient.
    """
    layout = Layout.of(environment)
    chosen = [flow for flow in request.chosen(pipeline) if request.concerns(flow)]
    flows = tuple(_of_flow(environment, layout, pipeline, flow, request) for flow in chosen)
    return Preview(flows=flows, commands=_commands(request))


def _of_flow(
    environment: Environment, layout: Layout, pipeline: Pipeline, flow: Flow, request: RunRequest
) -> FlowPreview:
    reads, rows, size = _reads(environment, layout, flow, request.window)
    keys = None
    if isinstance(flow.source, ChangeFeed):
        if request.mode == "replay" and request.window is not None:
            keys = _keys_within(layout, pipeline, flow, request.window)
            what = "group" if flow.target.write_mode == "recompute" else "key"
            told = f"an unknown number of {what}s" if keys is None else count(keys, what)
            rewrites = f"{told} of {flow.target.name} in {request.window.told()}, where the result differs"
        else:
            held = _rows_and_bytes(layout, flow.target.name)[0]
            rewrites = f"{flow.target.name} ({0 if held is None else held:,} rows), where the result differs"
    else:
        rewrites = f"nothing: {flow.target.name} takes what it lacks"
    return FlowPreview(
        flow=flow.name,
        reads=reads,
        rows=rows,
        bytes=size,
        rewrites=rewrites,
        keys=keys,
        touches=tuple(_readers(flow.target.name)),
        busy=lease.holder(layout, lease.table_resource(flow.target.name)),
        seconds=_estimate(layout, pipeline, flow, rows),
    )


def _reads(
    environment: Environment, layout: Layout, flow: Flow, window: Window | None
) -> tuple[str, int | None, int | None]:
    match flow.source:
        case ChangeFeed(table=table):
            from tidegate.probes import delta

            rows, size = _rows_and_bytes(layout, table)
            version = delta.current_version(layout.table(table))
            return (
                f"{table}, which is not there yet" if version is None else f"{table} at version {version}",
                rows,
                size,
            )
        case FileSource():
            from tidegate.probes.files import list_files

            listed = list_files(layout.landing(flow.source.path), flow.source.glob).files
            return f"of {count(len(listed), 'landed file')} those that bronze lacks", None, sum(f.size for f in listed)
        case KafkaSource():
            from tidegate.probes import kafka

            bounds = kafka.offset_bounds(environment.kafka, flow.source.topic)
            first = {partition: begin for partition, (begin, _) in bounds.items()}
            if window is not None:
                first = kafka.offsets_at(environment.kafka, flow.source.topic, window.first)
            offsets = sum(end - first[partition] for partition, (_, end) in bounds.items())
            return f"{count(offsets, 'offset')} of {flow.source.topic}, those that bronze lacks", offsets, None


def _rows_and_bytes(layout: Layout, table: str) -> tuple[int | None, int | None]:
    from tidegate.probes import delta

    path = layout.table(table)
    if delta.current_version(path) is None:
        return None, None
    files = delta.snapshot_files(path)
    rows = None if any(file.rows is None for file in files) else sum(file.rows or 0 for file in files)
    return rows, sum(file.size for file in files)


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


def _readers(table: str) -> list[str]:
    """The flows of all pipelines that read a table's change feed, and those below them."""
    found: list[str] = []
    waiting, seen = [table], {table}
    while waiting:
        current = waiting.pop(0)
        for name in registry.names():
            for flow in registry.load(name).flows:
                if isinstance(flow.source, ChangeFeed) and flow.source.table == current:
                    found.append(f"{name}/{flow.name}")
                    if flow.target.name not in seen:
                        seen.add(flow.target.name)
                        waiting.append(flow.target.name)
    return found


def _estimate(layout: Layout, pipeline: Pipeline, flow: Flow, rows: int | None) -> float | None:
    """Seconds for so many rows, by the median speed of the flow's last 50 batches."""
    from tidegate.probes import delta

    path = layout.ops(pipeline.name, "ledger")
    if rows is None or delta.current_version(path) is None:
        return None
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    lines = (
        DeltaTable(str(path))
        .to_pyarrow_dataset()
        .to_table(columns=["read", "seconds", "recorded_at"], filter=ds.field("flow") == flow.name)
        .sort_by([("recorded_at", "descending")])
        .slice(0, 50)
        .to_pylist()
    )
    speeds = [line["read"] / line["seconds"] for line in lines if line["seconds"] and line["read"]]
    return round(rows / median(speeds), 1) if speeds else None


def _commands(request: RunRequest) -> tuple[str, ...]:
    conf: dict[str, Any] = {"mode": request.mode}
    options = ["--mode", request.mode]
    if request.flows:
        conf["flows"] = list(request.flows)
        options += [part for flow in request.flows for part in ("--flow", flow)]
    if request.window is not None:
        first, last = request.window.dates
        conf |= {"from_date": str(first), "to_date": str(last)}
        options += ["--from", str(first), "--to", str(last)]
    trigger = f"airflow dags trigger {request.dag_id} --conf {shlex.quote(json.dumps(conf))}"
    commands = [trigger, shlex.join(["tidegate", "run", request.dag_id, *options])]
    if request.mode == "replay" and request.window is not None and not request.flows:
        first, last = request.window.dates
        commands.append(
            f"airflow backfill create --dag-id {request.dag_id} --from-date {first} --to-date {last} "
            "--reprocess-behavior completed --max-active-runs 1"
        )
    return tuple(commands)
