"""What a recovery cannot bring back, because no source has it any more: counted before anything runs. Starts no JVM."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.checkpoints import checkpoint, landing_folder, progress, reingested
from tidegate.errors import CheckpointCorruptError
from tidegate.formatting import count
from tidegate.lake.file_id import FileId
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import store
from tidegate.probes import delta_history, delta_table, files, kafka
from tidegate.reports.impact import acceptance
from tidegate.sources.topics import measure as topics
from tidegate.sources.topics import unread
from tidegate.spec import FileSource, KafkaSource
from tidegate.status import changed_files

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidegate.environment.clusters import Cluster, Clusters
    from tidegate.lake.layout import Layout
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.status.damage import Damage
    from tidegate.store import Address

_NAMED = 5
"""How many files are named; the others are only counted."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Something that a table had and that cannot be read or derived again."""

    flow: str
    number: int
    what: str
    """For people, with the number."""

    @property
    def acceptance(self) -> str:
        """The name by which a person accepts it: ``bronze:lost=12``."""
        return acceptance(self.flow, "lost", self.number)


def of_flow(layout: Layout, clusters: Clusters, resolved: ResolvedFlow, damages: tuple[Damage, ...]) -> Loss | None:
    """What is lost if a damaged flow reads its source again, or derives its table again; None if nothing is.

    A landing flow loses something only with its table: the checkpoint alone has no rows.

    Raises:
        SourceError: The source cannot be read, so it is not known what it has.
        SourceUnavailableError: No broker answers. Transient.
    """
    flow = resolved.flow
    if not flow.feeds and all(each.kind != "table" for each in damages):
        return None
    if isinstance(flow.source, FileSource):
        return _of_files(layout, resolved, flow.source)
    if isinstance(flow.source, KafkaSource):
        return _of_messages(clusters(flow.source.cluster), layout, resolved, flow.source)
    if flow.target.write_mode == "append" and flow.state is None and _has_keys(resolved):
        return _of_changes(layout, resolved)
    return None


def _of_files(layout: Layout, resolved: ResolvedFlow, source: FileSource) -> Loss | None:
    """The files that were read, that bronze has lost, and that are not landed any more as they were read."""
    pipeline, flow = resolved.pipeline.name, resolved.flow
    place = FlowPlace(layout, pipeline, flow.name)
    source_folder = landing_folder.of(place, source)
    read = set(map(source_folder.identity, _read_files(place)))
    landed = {
        source_folder.identity(file.id) for file in files.list_files(layout.landing(source.path), source.glob).files
    }
    gone = read - landed
    if gone:
        gone -= set(
            map(source_folder.identity, _stored(layout.table(flow.target.name)) | _quarantined(place.quarantine))
        )
    lost = sorted(gone)
    if not lost:
        return None
    folder = layout.landing(source.path)
    names = ", ".join(path.removeprefix(f"{folder}/") for path, _ in lost[:_NAMED]) + (
        ", …" if len(lost) > _NAMED else ""
    )
    what = f"{count(len(lost), 'file')} of {source.path}, removed or changed since: {names}"
    return Loss(flow=flow.name, number=len(lost), what=what)


def _read_files(place: FlowPlace) -> set[FileId]:
    """The files that any checkpoint of a flow, or a reingest, has read and whose records were written."""
    read = reingested.read(place)
    for each in checkpoint.of_flow(place):
        folder = each.checkpoint
        try:
            committed = progress.read(folder).last_committed
            up_to = -1 if committed is None else progress.planned_batch(folder, committed).log_offset
            listed = progress.source_files(folder, up_to=up_to)
        except CheckpointCorruptError:
            # What it had read is known as far as the files of its own log can be read.
            listed = progress.readable_source_files(folder)
        read |= {file.id for file in listed if not file.path.rpartition("/")[2].startswith("_")}
    return read


def _stored(bronze: Address) -> set[FileId]:
    """The files with records in bronze, as far as its log can be read."""
    return changed_files.states(_rows(bronze, changed_files.STORED, changed_files.COLUMNS))


def _quarantined(quarantine: Address) -> set[FileId]:
    """The files that are in quarantine: their entries stay."""
    entries = _rows(
        quarantine, f"SELECT {hidden.ROW_ID} FROM delta_table WHERE level = 'file'", {hidden.ROW_ID, "level"}
    )
    return {FileId.parse(row[hidden.ROW_ID]) for row in entries}


def _of_messages(cluster: Cluster, layout: Layout, resolved: ResolvedFlow, source: KafkaSource) -> Loss | None:
    """The offsets that were read, that bronze has lost, and that the topic does not have any more."""
    flow, lost, offsets = resolved.flow, 0, list[str]()
    read = [progress.offsets_read(place.checkpoint) for place in checkpoint.of_flow(resolved.place(layout))]
    for name in source.topics:
        if source.prefix(name) and not any(name in each for each in read):
            continue
        bounds = kafka.offset_bounds(cluster, name, isolation=source.isolation)
        gone: dict[int, tuple[int, int]] = {}
        for partition, (first, end) in itertools.chain.from_iterable(each.get(name, {}).items() for each in read):
            begin = bounds.get(partition, (end, end))[0]
            known_first, known_end = gone.get(partition, (first, first))
            gone[partition] = (min(first, known_first), max(known_end, min(end, begin)))
        gone = {partition: (first, end) for partition, (first, end) in sorted(gone.items()) if first < end}
        # Compaction and transactions leave offsets without a message, so that this is the largest possible number.
        number = sum(end - first for first, end in gone.values())
        if not number:
            continue
        distinct = f"count(DISTINCT concat({hidden.PARTITION}, '/', {hidden.OFFSET}))"
        of_topic = f"{hidden.TOPIC} = '{name}' AND ({unread.ranges_condition(gone)})"
        sql = f"SELECT {distinct} AS stored FROM delta_table WHERE {of_topic}"
        stored = _rows(layout.table(flow.target.name), sql, {hidden.PARTITION, hidden.OFFSET})
        number -= sum(int(row["stored"]) for row in stored)
        if number > 0:
            lost += number
            offsets.append(f"the offsets {topics.format_offsets(gone)}, which topic {name} no longer has")
    if not lost:
        return None
    return Loss(flow=flow.name, number=lost, what=f"at most {count(lost, 'message')} of {' and of '.join(offsets)}")


def _of_changes(layout: Layout, resolved: ResolvedFlow) -> Loss | None:
    """Rows of a table that has one for each change of a keyed table: of earlier changes, the keyed table has no rows any more."""
    pipeline, flow = resolved.pipeline.name, resolved.flow
    sql = f"SELECT coalesce(sum(written), 0)::BIGINT AS written FROM delta_table WHERE flow = '{flow.name}' AND kind = 'append'"
    written = sum(int(row["written"]) for row in store.select(PipelinePlace(layout, pipeline).ops("ledger"), sql))
    (table,) = flow.source_tables
    present = sum(
        int(row["rows"]) for row in _rows(layout.read_table(table), "SELECT count(*) AS rows FROM delta_table", set())
    )
    number = max(0, written - present)
    if not number:
        return None
    what = f"about {count(number, 'row')} of earlier changes of {table}, of which that table has only the newest rows"
    return Loss(flow=flow.name, number=number, what=what)


def _has_keys(resolved: ResolvedFlow) -> bool:
    """Whether the source of a flow is a keyed table."""
    return resolved.writer is not None and bool(resolved.writer.target.keys)


def _rows(address: Address, sql: str, columns: Collection[str]) -> list[dict[str, Any]]:
    """The rows of a query over a table as far as its log can be read; none without it, or without these columns."""
    version = delta_history.readable_version(address)
    if version is None:
        return []
    table = delta_table.before_damage(address, version)
    if not set(columns) <= {field.name for field in table.schema().fields}:
        return []
    with delta_table.reading(address):
        batches: Any = delta_table.query_builder().register("delta_table", table).execute(sql).read_all()
    rows: list[dict[str, Any]] = batches.to_struct_array().to_pylist()
    return rows
