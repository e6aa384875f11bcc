"""What a backfill, a reingest or a full refresh would read of its source: files, offsets or a version, rows and bytes.

Taken from the tables' logs and statistics, the landing zone and the broker; of bronze, only the columns of origin are
read. Starts no JVM.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pendulum

from tidegate import dates
from tidegate.checkpoints import topic
from tidegate.errors import TidegateError
from tidegate.formatting import approximate, count
from tidegate.formatting import size as size_told
from tidegate.layout import Layout
from tidegate.ops import query, store
from tidegate.planning import rewrites
from tidegate.probes import delta, files, kafka
from tidegate.runs import RUNS
from tidegate.spec import ChangeFeed, FileSource, KafkaSource
from tidegate.status import intervals
from tidegate.status.plan import SMALL_FIRST_BYTES
from tidegate.status.topic_backlog import BYTES_PER_MESSAGE, format_offsets, topic_condition

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.environment import Environment
    from tidegate.request import RunRequest
    from tidegate.spec import Flow, Pipeline
    from tidegate.window import Window


_GAPS_NAMED = 31
"""How many intervals of a state a plan names: the days of a month."""


@dataclass(frozen=True, kw_only=True)
class Extent:
    """What a flow would read of its source."""

    what: str
    """For messages, for example ``bronze.flights at version 12``."""
    rows: int | None
    """None if unknown."""
    size: int | None
    """Bytes; None if unknown."""
    rows_exact: bool = True
    size_exact: bool = True

    def summary(self) -> str:
        """For messages, with rows and bytes; estimates are marked with ``~``."""
        rows = "" if self.rows is None else f", {approximate(count(self.rows, 'row'), self.rows_exact)}"
        return (
            self.what + rows + ("" if self.size is None else f", {approximate(size_told(self.size), self.size_exact)}")
        )


def source_extent(
    environment: Environment, layout: Layout, pipeline: Pipeline, flow: Flow, request: RunRequest
) -> Extent:
    """What a backfill, a reingest or a full refresh reads of a flow's source. A source table is always read completely.

    Args:
        environment: The environment, with the address of the broker.
        layout: The lake and the landing zone.

    Raises:
        SourceError: The landing folder or the topic does not exist.
        SourceUnavailableError: No broker answers. Transient.
    """
    window = request.window
    match flow.source:
        case ChangeFeed():
            return _of_tables(layout, flow.source_tables)
        case FileSource() if request.gaps:
            return _of_gaps(layout, pipeline, flow, flow.source, window)
        case FileSource():
            return _of_files(layout, pipeline.name, flow, flow.source, window)
        case KafkaSource():
            recorded = topic.recorded(layout, pipeline.name, flow.name, flow.checkpoint_version)
            return _of_topic(environment.kafka, flow.source, layout.table(flow.target.name), window, recorded)


def with_size(
    environment: Environment, pipeline: Pipeline, request: RunRequest, extents: Iterable[Extent] | None = None
) -> RunRequest:
    """The request with `RunRequest.small` set: whether it reads so little that C1-only compilation is faster.

    A source table counts with all of its rows, whatever the window. A source of unknown size is not small.

    Args:
        request: A request of a mode other than ``incremental``, or a dry run.
        extents: What its flows read, if `tidegate.planning.preview.preview` has measured it before.
    """
    layout = Layout.of(environment)
    try:
        if extents is None:
            flows = [flow for flow in request.selected(pipeline) if request.applies_to(flow)]
            if not RUNS[request.mode].reads_source:
                flows = []
            elif request.dry_run:
                flows = rewrites.flows_of(layout, pipeline, request)
            extents = [source_extent(environment, layout, pipeline, flow, request) for flow in flows]
        sizes = [extent.size for extent in extents]
    except TidegateError:
        # The run itself reports the error.
        sizes = [None]
    small = None not in sizes and sum(size or 0 for size in sizes) < SMALL_FIRST_BYTES
    return dataclasses.replace(request, small=small)


def rows_and_bytes(path: Path) -> tuple[int | None, int | None]:
    """Rows and bytes of a table by its log; None without the table, or if a file has no statistics."""
    if delta.current_version(path) is None:
        return None, None
    data_files = delta.snapshot_files(path)
    rows = None if any(file.rows is None for file in data_files) else sum(file.rows or 0 for file in data_files)
    return rows, sum(file.size for file in data_files)


def _of_tables(layout: Layout, tables: Sequence[str]) -> Extent:
    whats, sizes = [], [rows_and_bytes(layout.table(table)) for table in tables]
    for table in tables:
        version = delta.current_version(layout.table(table))
        whats.append(f"{table}, which does not exist yet" if version is None else f"{table} at version {version}")
    rows, size = ([each for each in counts if each is not None] for counts in zip(*sizes, strict=True))
    known = len(tables)
    return Extent(
        what="; ".join(whats),
        rows=sum(rows) if len(rows) == known else None,
        size=sum(size) if len(size) == known else None,
    )


def _of_files(layout: Layout, pipeline: str, flow: Flow, source: FileSource, window: Window | None) -> Extent:
    landed = files.list_files(layout.landing(source.path), source.glob).files
    if window is not None:
        landed = files.modified_within(landed, window)
    ingested = _ingested_files(layout.table(flow.target.name), layout.quarantine(pipeline, flow.name), window)
    missing = tuple(file for file in landed if (file.path, file.modified_ms) not in ingested)
    when = f" of {window.summary()}" if window is not None else ""
    what = f"{len(missing):,} of {count(len(landed), 'landed file')}{when}, those that are not in bronze"
    return _of_missing(what, source, missing)


def _of_gaps(layout: Layout, pipeline: Pipeline, flow: Flow, source: FileSource, window: Window | None) -> Extent:
    completeness = intervals.read(layout, pipeline, flow, pendulum.now("UTC"))
    assert completeness is not None
    gaps = completeness.gaps(window)
    missing = tuple(file for gap in gaps for file in gap.to_read)
    when = f" of {window.summary()}" if window is not None else ""
    if not gaps:
        return _of_missing(f"no file: each {completeness.unit}{when} is complete", source, missing)
    named = ", ".join(intervals.described(gaps, _GAPS_NAMED))
    verb = "is" if len(gaps) == 1 else "are"
    intervals_told = f"{count(len(gaps), completeness.unit)}{when} that {verb} not complete"
    what = f"{count(len(missing), 'file')} of {intervals_told}: {named}"
    return _of_missing(what, source, missing)


def _of_missing(what: str, source: FileSource, missing: tuple[files.LandedFile, ...]) -> Extent:
    rows = 0 if not missing else None
    if missing and source.format in ("csv", "json"):
        rows = files.estimate_rows(missing, has_header=source.format == "csv" and source.dialect.header)
    return Extent(what=what, rows=rows, size=sum(file.size for file in missing), rows_exact=not missing)


def _ingested_files(bronze: Path, quarantine: Path, window: Window | None) -> set[tuple[str, int]]:
    """Path and modification time (milliseconds) of the files in bronze (of the window) and in its quarantine."""
    ingested: set[tuple[str, int]] = set()
    if {"_path", "_modified_at"} <= set(query.columns(bronze)):
        where = "true"
        if window is not None:
            # With this condition, files of the table are skipped by their statistics.
            since, until = (dates.literal(moment) for moment in (window.since, window.until))
            where = f"_modified_at >= {since} AND _modified_at < {until}"
        for row in store.select(bronze, f"SELECT DISTINCT _path, _modified_at FROM delta_table WHERE {where}"):
            ingested.add((row["_path"].removeprefix("file://"), round(row["_modified_at"].timestamp() * 1000)))
    for row in store.select(quarantine, "SELECT _row_id FROM delta_table WHERE level = 'file'"):
        path, _, modified_ms = row["_row_id"].rpartition("@")
        ingested.add((path, int(modified_ms)))
    return ingested


def _of_topic(
    bootstrap: str, source: KafkaSource, bronze: Path, window: Window | None, recorded: topic.CheckpointTopic | None
) -> Extent:
    if window is None:
        ranges = kafka.offset_bounds(bootstrap, source.topic, isolation=source.isolation)
    else:
        ranges = kafka.offsets_within(bootstrap, source.topic, window.since, window.until, isolation=source.isolation)
    offsets = sum(end - begin for begin, end in ranges.values())
    # Compaction and transactions leave offsets without a message, which never arrive in bronze.
    missing = max(0, offsets - _ingested_messages(bronze, source.topic, ranges, recorded))
    return Extent(
        what=f"offsets {format_offsets(ranges) or 'none'} of {source.topic}, at most {missing:,} of which are not in bronze",
        rows=offsets,
        size=round(offsets * (delta.row_bytes(bronze) or BYTES_PER_MESSAGE)),
        rows_exact=not offsets,
        size_exact=not offsets,
    )


def _ingested_messages(
    bronze: Path, name: str, ranges: dict[int, tuple[int, int]], recorded: topic.CheckpointTopic | None
) -> int:
    if "_topic_id" not in query.columns(bronze) or not ranges:
        return 0
    within = " OR ".join(
        f"(_partition = {partition} AND _offset >= {begin} AND _offset < {end})"
        for partition, (begin, end) in ranges.items()
    )
    of_topic = f"_topic = '{name}'" if recorded is None else topic_condition(recorded)
    counts = store.select(bronze, f"SELECT count(*) AS messages FROM delta_table WHERE {of_topic} AND ({within})")
    return sum(int(row["messages"]) for row in counts)
