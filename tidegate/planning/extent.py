"""What a replay, a reingest or a full refresh would read of its source: files, offsets or a version, rows and bytes.

Read from the tables' logs and statistics, the landing zone and the broker; of bronze only the columns that say what it
holds. Starts no JVM.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.checkpoints import topic
from tidegate.errors import TidegateError
from tidegate.layout import Layout
from tidegate.ops import query, store
from tidegate.probes import delta, files, kafka
from tidegate.spec import ChangeFeed, FileSource, KafkaSource
from tidegate.status.lag import SMALL_FIRST_BYTES
from tidegate.status.topic_backlog import BYTES_PER_MESSAGE, of_that_topic, offsets_told
from tidegate.wording import count, marked
from tidegate.wording import size as size_told

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.environment import Environment
    from tidegate.request import RunRequest
    from tidegate.spec import Flow, Pipeline
    from tidegate.window import Window


@dataclass(frozen=True, kw_only=True)
class Extent:
    """What is read."""

    what: str
    """For people: ``bronze.flights at version 12``, ``2 of 40 landed files, which bronze lacks``."""
    rows: int | None
    """None where nothing tells."""
    size: int | None
    """Bytes."""
    rows_exact: bool = True
    size_exact: bool = True

    def told(self) -> str:
        """For people, with rows and bytes; estimates with ``~``."""
        rows = "" if self.rows is None else f", {marked(f'{self.rows:,}', self.rows_exact)} rows"
        return self.what + rows + ("" if self.size is None else f", {marked(size_told(self.size), self.size_exact)}")


def of_source(environment: Environment, layout: Layout, pipeline: str, flow: Flow, window: Window | None) -> Extent:
    """What a manual mode reads of a flow's source.

    Args:
        environment: Where the broker is.
        layout: Where files and tables are.
        pipeline: Whose flow it is.
        flow: The flow.
        window: Of a reingest: when files were changed, or messages sent. Of tables all is read, whatever the window.

    Raises:
        SourceError: A landing folder or a topic is not there.
        SourceUnavailableError: No broker answers. Transient.
    """
    match flow.source:
        case ChangeFeed(table=table):
            return _of_table(layout.table(table), table)
        case FileSource():
            return _of_files(layout, pipeline, flow, flow.source, window)
        case KafkaSource():
            known = topic.noted(layout, pipeline, flow.name, flow.checkpoint_version)
            return _of_topic(environment.kafka, flow.source, layout.table(flow.target.name), window, known)


def sized(
    environment: Environment, pipeline: Pipeline, request: RunRequest, extents: Iterable[Extent] | None = None
) -> RunRequest:
    """A request of a manual mode, completed: whether it reads so little that C1-only compilation pays.

    Of tables all rows count, not those of the window: the log tells their size without a look at them. What cannot be
    measured is not small.

    Args:
        environment: Places, and where the broker is.
        pipeline: The pipeline.
        request: Checked.
        extents: What its flows read, if `tidegate.planning.preview.preview` has measured it.
    """
    layout = Layout.of(environment)
    try:
        if extents is None:
            concerned = [flow for flow in request.chosen(pipeline) if request.concerns(flow)]
            extents = [of_source(environment, layout, pipeline.name, flow, request.window) for flow in concerned]
        sizes = [extent.size for extent in extents]
    except TidegateError:
        # The run itself says what is wrong.
        sizes = [None]
    small = None not in sizes and sum(size or 0 for size in sizes) < SMALL_FIRST_BYTES
    return dataclasses.replace(request, small=small)


def rows_and_bytes(path: Path) -> tuple[int | None, int | None]:
    """Of a table, by its log; None where there is no table, or a file's statistics are missing."""
    if delta.current_version(path) is None:
        return None, None
    found = delta.snapshot_files(path)
    rows = None if any(file.rows is None for file in found) else sum(file.rows or 0 for file in found)
    return rows, sum(file.size for file in found)


def _of_table(path: Path, table: str) -> Extent:
    rows, size = rows_and_bytes(path)
    version = delta.current_version(path)
    what = f"{table}, which is not there yet" if version is None else f"{table} at version {version}"
    return Extent(what=what, rows=rows, size=size)


def _of_files(layout: Layout, pipeline: str, flow: Flow, source: FileSource, window: Window | None) -> Extent:
    landed = files.list_files(layout.landing(source.path), source.glob).files
    if window is not None:
        landed = files.modified_within(landed, window)
    held = _held_files(layout.table(flow.target.name), layout.quarantine(pipeline, flow.name), window)
    lacking = tuple(file for file in landed if (file.path, file.modified_ms) not in held)
    when = f" of {window.told()}" if window is not None else ""
    rows = 0 if not lacking else None
    if lacking and source.format in ("csv", "json"):
        rows = files.estimate_rows(lacking, has_header=source.format == "csv" and source.dialect.header)
    return Extent(
        what=f"{len(lacking):,} of {count(len(landed), 'landed file')}{when}, those that bronze lacks",
        rows=rows,
        size=sum(file.size for file in lacking),
        rows_exact=not lacking,
    )


def _held_files(bronze: Path, quarantine: Path, window: Window | None) -> set[tuple[str, int]]:
    """Path and modification time (milliseconds) of the files that bronze, in the window, or its quarantine hold."""
    held: set[tuple[str, int]] = set()
    if {"_path", "_modified_at"} <= set(query.columns(bronze)):
        where = "true"
        if window is not None:
            # The log's statistics tell which files of the table need not be read.
            first, behind = (
                moment.in_timezone("UTC").format("YYYY-MM-DD HH:mm:ss") for moment in (window.first, window.behind)
            )
            where = f"_modified_at >= TIMESTAMP '{first}' AND _modified_at < TIMESTAMP '{behind}'"
        for row in store.select(bronze, f"SELECT DISTINCT _path, _modified_at FROM held WHERE {where}"):
            held.add((row["_path"].removeprefix("file://"), round(row["_modified_at"].timestamp() * 1000)))
    for row in store.select(quarantine, "SELECT _row_id FROM held WHERE level = 'file'"):
        path, _, modified_ms = row["_row_id"].rpartition("@")
        held.add((path, int(modified_ms)))
    return held


def _of_topic(
    bootstrap: str, source: KafkaSource, bronze: Path, window: Window | None, known: topic.Noted | None
) -> Extent:
    if window is None:
        ranges = kafka.offset_bounds(bootstrap, source.topic, isolation=source.isolation)
    else:
        ranges = kafka.offsets_within(bootstrap, source.topic, window.first, window.behind, isolation=source.isolation)
    offsets = sum(end - begin for begin, end in ranges.values())
    told = offsets_told(ranges)
    # Compaction and transactions leave offsets without a message, which bronze will never hold.
    lacking = max(0, offsets - _held_messages(bronze, source.topic, ranges, known))
    return Extent(
        what=f"offsets {told or 'none'} of {source.topic}, of which bronze lacks {lacking:,} or fewer",
        rows=offsets,
        size=round(offsets * (delta.row_bytes(bronze) or BYTES_PER_MESSAGE)),
        size_exact=not offsets,
    )


def _held_messages(bronze: Path, name: str, ranges: dict[int, tuple[int, int]], known: topic.Noted | None) -> int:
    if not {"_topic", "_partition", "_offset"} <= set(query.columns(bronze)) or not ranges:
        return 0
    within = " OR ".join(
        f"(_partition = {partition} AND _offset >= {begin} AND _offset < {end})"
        for partition, (begin, end) in ranges.items()
    )
    own = f"_topic = '{name}'" if known is None else of_that_topic(bronze, known)
    found = store.select(bronze, f"SELECT count(*) AS messages FROM held WHERE {own} AND ({within})")
    return sum(int(row["messages"]) for row in found)
