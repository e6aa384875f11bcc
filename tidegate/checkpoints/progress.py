"""Reads the progress of a checkpoint from Spark's own files, without a JVM.

Spark logs a batch's offsets before it runs (``offsets/N``) and its commit after (``commits/N``); a batch with offsets
and no commit is run again with the same offsets (Spark: ``CommitLog.scala``). The file source logs the files of each batch
in ``sources/0/N``; every tenth log is compacted with all earlier ones (``CompactibleFileStreamLog.scala``).

Longer than 300 lines: it knows the files that Spark writes, and no other module does.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tidegate.advice import Either, OutsideAct, recover_command
from tidegate.errors import CheckpointCorruptError
from tidegate.lake.file_id import FileId, path_of_spark
from tidegate.store import Address

KafkaOffsets = dict[str, dict[int, int]]
"""By topic: partition to offset."""
KafkaRanges = dict[str, dict[int, tuple[int, int]]]
"""By topic: partition to the first offset and the offset after the last one; only those with messages between them."""


@dataclass(frozen=True, kw_only=True)
class DeltaPosition:
    """The position of a stream in a Delta table."""

    table_id: str
    """The table's own id (Delta's ``reservoirId``); another one means that the table was replaced."""
    version: int
    """The commit that is read next, or that was read in part."""
    index: int
    """Index of the last file of that commit, or of its snapshot, that was read; -1 when none was."""
    of_snapshot: bool
    """Whether the files of the table's snapshot at ``version`` are read (the first load) instead of that commit's changes."""

    @property
    def pin(self) -> int:
        """The newest version of which something was read."""
        return self.version if self.of_snapshot or self.index >= 0 else self.version - 1

    def summary(self) -> str:
        """The last version that was read, or the file within a version; files are counted from 1."""
        if self.of_snapshot:
            return f"first load of version {self.version}, file {self.index + 1}"
        return f"version {self.version - 1}" if self.index < 0 else f"version {self.version}, file {self.index + 1}"


@dataclass(frozen=True, kw_only=True)
class PlannedBatch:
    """A batch of Spark's offset log."""

    batch_id: int
    timestamp_ms: int
    """When it was planned; the same in every rerun."""
    offsets: tuple[dict[str, Any] | None, ...]
    """The end offset of each source, in the order of the query: ``logOffset`` of files, topic to partition to offset of Kafka,
    ``reservoirVersion`` and ``index`` of a Delta table; None for one that nothing was read of."""
    path: Address
    """The file of the offset log, for error messages."""
    watermark_ms: int = 0
    """The watermark of the query in this batch, in milliseconds since 1970; 0 without one."""

    @property
    def offset(self) -> dict[str, Any]:
        """The end offset of the first source."""
        return self.offsets[0] or {}

    @property
    def log_offset(self) -> int:
        """For a file source: the last batch of its own log that belongs to this batch.

        Raises:
            CheckpointCorruptError: The offsets are those of another kind of source.
        """
        try:
            return int(self.offset["logOffset"])
        except (KeyError, TypeError, ValueError):
            raise _corrupt(self.path, "it does not hold the position of a file source") from None

    def kafka_offsets(self, topics: Collection[str] | None = None) -> KafkaOffsets:
        """For a Kafka source: the offset that is read next of each partition, by topic. A topic that the batch has not is left out.

        Args:
            topics: The declared ones; None for whichever it has.

        Raises:
            CheckpointCorruptError: The offsets are those of another kind of source, or of no declared topic.
        """
        return _kafka_offsets(self.path, self.offset, topics)

    @property
    def delta(self) -> DeltaPosition:
        """For a change feed: the position in its Delta table.

        Raises:
            CheckpointCorruptError: The offsets are those of another kind of source.
        """
        return self._position(self.offset)

    def delta_positions(self, number: int) -> tuple[DeltaPosition | None, ...]:
        """For several change feeds: the position in each Delta table; None for one that nothing was read of.

        Raises:
            CheckpointCorruptError: The offsets are those of another kind of source, or of another number of sources.
        """
        if len(self.offsets) != number:
            raise _corrupt(self.path, f"it holds the positions of {len(self.offsets)} sources, not of {number}")
        return tuple(None if offset is None else self._position(offset) for offset in self.offsets)

    def _position(self, offset: dict[str, Any]) -> DeltaPosition:
        try:
            return DeltaPosition(
                table_id=str(offset["reservoirId"]),
                version=int(offset["reservoirVersion"]),
                index=int(offset["index"]),
                of_snapshot=bool(offset["isStartingVersion"]),
            )
        except (KeyError, TypeError, ValueError):
            raise _corrupt(self.path, "it does not hold the position of a Delta table") from None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The state of one checkpoint."""

    last_planned: int | None
    last_committed: int | None

    @property
    def pending_batch(self) -> int | None:
        """The batch that was planned and not committed; None when there is none."""
        if self.last_planned is None or self.last_planned == self.last_committed:
            return None
        return self.last_planned


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedFile:
    """A file that the stream listed for a batch."""

    path: str
    """As `FileId.path`."""
    modified_ms: int
    log_batch: int
    """The batch of the source's log, comparable with the ``logOffset`` of the stream's batches."""

    @property
    def id(self) -> FileId:
        """Its identity."""
        return FileId(self.path, self.modified_ms)


def read(checkpoint: Address) -> Progress:
    """Last planned and last committed batch; both None for a checkpoint that was never used.

    Raises:
        CheckpointCorruptError: The newest entry of either log is incomplete, or commits are ahead of offsets.
    """
    # Commits first: otherwise a running job could commit between the two reads, and commits would seem ahead of offsets.
    committed, planned = _newest(checkpoint / "commits"), _newest(checkpoint / "offsets")
    if planned is not None:
        planned_batch(checkpoint, planned)
    # Where a content is always whole, its name is enough.
    if committed is not None and checkpoint.store.may_be_cut:
        _json(checkpoint / "commits" / str(committed), _lines(checkpoint / "commits" / str(committed), 2)[1])
    if committed is not None and (planned is None or committed > planned):
        raise _corrupt(checkpoint / "offsets", f"commits go up to {committed}, offsets only to {planned}")
    metadata = checkpoint / "metadata"
    if planned is not None and (checkpoint.store.may_be_cut or not metadata.exists()):
        _json(metadata, _lines(metadata, 1)[0])
    return Progress(last_planned=planned, last_committed=committed)


def settled(checkpoint: Address) -> PlannedBatch | None:
    """The last batch, if it is committed; None for a checkpoint without a batch, or with one that is planned and not committed.

    Raises:
        CheckpointCorruptError: As `read`.
    """
    state = read(checkpoint)
    if state.last_committed is None or state.pending_batch is not None:
        return None
    return planned_batch(checkpoint, state.last_committed)


def commit_format(checkpoint: Address) -> int | None:
    """The format of the newest commit: from 2 on it names the files of state that belong to it; None without a commit.

    Raises:
        CheckpointCorruptError: It is incomplete.
    """
    committed = _newest(checkpoint / "commits")
    if committed is None:
        return None
    path = checkpoint / "commits" / str(committed)
    version = _lines(path, 2)[0]
    if not version[1:].isdigit():
        raise _corrupt(path, f"it has format {version!r}")
    return int(version[1:])


def planned_batch(checkpoint: Address, batch_id: int) -> PlannedBatch:
    """The offsets of one batch.

    Raises:
        CheckpointCorruptError: The file is missing or incomplete.
    """
    path = checkpoint / "offsets" / str(batch_id)
    lines = _lines(path, 3)
    if lines[0] != "v1":
        raise _corrupt(path, f"it has format {lines[0]!r}; this version of Tidegate reads v1")
    metadata = _json(path, lines[1])
    # Spark writes "-" for a source that it has no offset of.
    offsets = tuple(None if line == "-" else _json(path, line) for line in lines[2:] if line)
    if not offsets:
        raise _corrupt(path, "it is empty or incomplete")
    try:
        timestamp_ms, watermark_ms = int(metadata["batchTimestampMs"]), int(metadata.get("batchWatermarkMs", 0))
    except (KeyError, TypeError, ValueError):
        raise _corrupt(path, "it does not say when the batch was planned") from None
    return PlannedBatch(
        batch_id=batch_id, timestamp_ms=timestamp_ms, offsets=offsets, path=path, watermark_ms=watermark_ms
    )


def oldest_planned(checkpoint: Address, since: int) -> int:
    """The first batch from ``since`` on whose offsets are still there: Spark keeps those of the last 100 batches.

    ``since`` itself if there is none.
    """
    return min((number for number in (checkpoint / "offsets").numbers() if number >= since), default=since)


def batch_offsets(checkpoint: Address, batch_id: int, topics: Collection[str]) -> KafkaRanges:
    """The messages of one batch of a Kafka source.

    Args:
        topics: The declared ones.

    Raises:
        CheckpointCorruptError: A file is missing or incomplete, or of another topic.
    """
    ends = planned_batch(checkpoint, batch_id).kafka_offsets(topics)
    firsts = (
        initial_offsets(checkpoint, topics)
        if batch_id == 0
        else planned_batch(checkpoint, batch_id - 1).kafka_offsets(topics)
    )
    return _kafka_ranges(firsts, ends)


def initial_offsets(checkpoint: Address, topics: Collection[str] | None = None) -> KafkaOffsets:
    """Where the stream of a Kafka source began. Spark writes a zero byte first, for its version 2.1."""
    # ``KafkaSourceInitialOffsetWriter.scala``
    path = checkpoint / "sources" / "0" / "0"
    lines = _lines(path, 2)
    if lines[0] != "\0v1":
        raise _corrupt(path, f"it has format {lines[0]!r}; this version of Tidegate reads v1")
    return _kafka_offsets(path, _json(path, lines[1]), topics)


def _kafka_offsets(path: Address, entry: Mapping[str, Any], topics: Collection[str] | None) -> KafkaOffsets:
    with suppress(AttributeError, TypeError, ValueError):
        offsets = {
            topic: {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in entry.items()
        }
        if topics is None or not offsets.keys().isdisjoint(topics):
            return offsets
    raise _corrupt(path, f"it does not hold offsets of topic {', '.join(map(repr, topics or ()))}")


def _kafka_ranges(firsts: KafkaOffsets, ends: KafkaOffsets) -> KafkaRanges:
    """The offsets between two positions. A partition that was added meanwhile is read from its beginning."""
    ranges: KafkaRanges = {}
    for topic, partitions in ends.items():
        begins = firsts.get(topic, {})
        cuts = {partition: (begins.get(partition, 0), end) for partition, end in partitions.items()}
        ranges[topic] = {partition: (first, end) for partition, (first, end) in cuts.items() if first < end}
    return {topic: cuts for topic, cuts in ranges.items() if cuts}


def batch_files(
    checkpoint: Address, batch_id: int, planned: Callable[[int], PlannedBatch] | None = None
) -> list[ListedFile]:
    """The files of one batch of a file source.

    Args:
        planned: Gives the offsets of a batch, where they were read before; by default `planned_batch` reads them.

    Raises:
        CheckpointCorruptError: A log file is missing or incomplete.
    """
    planned = functools.partial(planned_batch, checkpoint) if planned is None else planned
    up_to = planned(batch_id).log_offset
    after = planned(batch_id - 1).log_offset if batch_id else -1
    return source_files(checkpoint, after=after, up_to=up_to)


def source_files(checkpoint: Address, *, after: int = -1, up_to: int | None = None) -> list[ListedFile]:
    """The files that the source logged for batches ``after`` < batch <= ``up_to``.

    Raises:
        CheckpointCorruptError: A log file is missing or incomplete.
    """
    folder = checkpoint / "sources" / "0"
    names = {entry.name for entry in folder.list()}
    logs = {int(name) for name in names if name.isdigit()}
    compacted = {int(stem) for name in names if (stem := name.removesuffix(".compact")).isdigit() and stem != name}
    newest = max(logs | compacted, default=-1)
    last = newest if up_to is None else up_to
    if last > newest:
        raise _corrupt(folder, f"it goes up to {newest}, the offset log needs {last}")
    # Spark deletes compacted log files some minutes after the compaction, so older ones are not opened.
    base = max(compacted, default=-1)
    if base <= after:
        base = -1
    files: list[ListedFile] = []
    if base >= 0:
        files = [file for file in _read_log(folder / f"{base}.compact") if after < file.log_batch <= last]
    for number in range(max(base, after) + 1, last + 1):
        if number not in logs:
            raise _corrupt(folder / str(number), "it is missing")
        files += [file for file in _read_log(folder / str(number)) if after < file.log_batch <= last]
    return files


def newest_source_files(checkpoint: Address) -> list[ListedFile]:
    """The files that the source logged last; none if it never logged any. Raises as `source_files`."""
    return source_files(checkpoint, after=newest_log_batch(checkpoint) - 1)


def _read_log(path: Address) -> list[ListedFile]:
    files = []
    lines = _lines(path, 1)
    if lines[0] != "v1":
        raise _corrupt(path, f"it has format {lines[0]!r}; this version of Tidegate reads v1")
    for line in lines[1:]:
        entry = _json(path, line)
        try:
            files.append(
                ListedFile(
                    path=path_of_spark(entry["path"]),
                    modified_ms=int(entry["timestamp"]),
                    log_batch=int(entry["batchId"]),
                )
            )
        except (KeyError, TypeError, ValueError):
            raise _corrupt(path, "an entry of it names no file") from None
    return files


def readable_source_files(checkpoint: Address) -> list[ListedFile]:
    """The files that the source logged, of all logs that can be read: of a damaged checkpoint."""
    files: list[ListedFile] = []
    folder = checkpoint / "sources" / "0"
    for log in folder.list():
        if log.name.removesuffix(".compact").isdigit():
            with suppress(CheckpointCorruptError):
                files += _read_log(folder / log.name)
    return files


def offsets_read(checkpoint: Address) -> KafkaRanges:
    """The messages that a checkpoint of a Kafka source has committed, as far as its files can be read."""
    firsts: KafkaOffsets = {}
    with suppress(CheckpointCorruptError):
        firsts = initial_offsets(checkpoint)
    for batch in reversed((checkpoint / "commits").numbers()):
        with suppress(CheckpointCorruptError):
            return _kafka_ranges(firsts, planned_batch(checkpoint, batch).kafka_offsets())
    return {}


def pending_by_name(checkpoint: Address) -> int | None:
    """The batch that was planned and not committed, by the names of Spark's files alone; None when there is none."""
    planned, committed = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
    return None if planned is None or planned == committed else planned


def newest_log_batch(checkpoint: Address) -> int:
    """The last batch in the file source's own log; -1 when the log is empty.

    After a crash between listing and planning it is higher than the last planned batch's ``log_offset``.
    """
    folder = checkpoint / "sources" / "0"
    names = (entry.name.removesuffix(".compact") for entry in folder.list())
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _newest(folder: Address) -> int | None:
    return max(folder.numbers(), default=None)


def _lines(path: Address, at_least: int) -> list[str]:
    try:
        raw = path.read().data
        lines = raw.decode("utf-8").split("\n")
    except FileNotFoundError:
        raise _corrupt(path, "it is missing") from None
    except UnicodeDecodeError:
        raise _corrupt(path, "it is not text") from None
    if len(lines) < at_least or not lines[0]:
        raise _corrupt(path, "it is empty or incomplete")
    if path.store.may_be_cut and not _fits_checksum(path, raw):
        raise _corrupt(path, "it is incomplete or was changed: its checksum does not match")
    return lines


def _fits_checksum(path: Address, raw: bytes) -> bool:
    """Whether the file matches the checksums that Hadoop writes next to it (``ChecksumFileSystem``).

    A list of files that was cut at the end of a line can still be parsed. A file without checksums counts as complete.
    """
    try:
        sums = (path.parent / f".{path.name}.crc").read().data
    except FileNotFoundError:
        return True
    if sums[:4] != b"crc\0" or len(sums) < 8:
        return True
    step = int.from_bytes(sums[4:8], "big")
    written = [int.from_bytes(sums[at : at + 4], "big") for at in range(8, len(sums), 4)]
    return step > 0 and written == [zlib.crc32(raw[at : at + step]) for at in range(0, len(raw), step)]


def _json(path: Address, line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        raise _corrupt(path, "it is incomplete") from None
    if not isinstance(entry, dict):
        raise _corrupt(path, "it does not have the content that Spark writes")
    return entry


def _corrupt(path: Address, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"checkpoint file {path} cannot be used: {why}.",
        Either(OutsideAct("restore it from a backup"), recover_command()),
        path=str(path),
    )
