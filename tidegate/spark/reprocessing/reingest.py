"""Reingest of a window: files or messages of some days that bronze does not contain are read again.

Without a window, a reingest opens the next refresh, whose stream reads the whole source. The checkpoint of a stream that
ended with a window would leave a gap before the next increment. So a window is read outside of the stream: first an
ordinary increment, then the window in pieces within the source's limits. Each piece goes through the steps of a
micro-batch, under the transaction id of the flow's windows.

A piece is stored before it is read, like a backfill (`tidegate.spark.reprocessing.backfill`). If the process dies after a
piece has written something, the flow's next run finishes the piece. A retry of the run continues after the last piece of
its request.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate.probes import files, kafka
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.raw import split_landing_files, split_messages
from tidegate.spark.intake.sources import kafka_options, max_offsets_per_batch
from tidegate.spark.reprocessing import pending_work
from tidegate.spec import FileSource, KafkaSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.window import Window


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a window, at most as large as a micro-batch."""

    number: int
    """Also the ``txnVersion`` of its writes."""
    request_id: str
    window: dict[str, str]
    planned_at_ms: int
    requested_by: str
    files: dict[str, int] = field(default_factory=dict)
    """Path to modification time in milliseconds."""
    offsets: dict[str, list[int]] = field(default_factory=dict)
    """Partition to its first offset (included) and its last (excluded)."""
    done: bool = False


def reingest(context: FlowContext, window: Window) -> None:
    """Read the files or messages of a window that bronze does not contain, once per request.

    The flow's stream has read everything new before.

    Args:
        window: Of the files' modification times, or of the messages' timestamps.

    Raises:
        TidegateError: As for a micro-batch. The flow's next run finishes the piece.
    """
    pieces = _pieces(context)
    earlier = [each for each in pieces if each.request_id == context.request.request_id]
    number = pieces[-1].number + 1 if pieces else 0
    for part in _parts(context, window, earlier):
        piece = Piece(
            number=number,
            request_id=context.request.request_id,
            window=dataclasses.asdict(window),
            planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
            requested_by=context.request.requested_by,
            **part,
        )
        pending_work.write(context, piece)
        _run(context, piece)
        number += 1


def finish_pending(context: FlowContext) -> None:
    """Finish a piece that crashed after its first write; delete one that wrote nothing."""
    pieces = _pieces(context)
    if not pieces or (last := pieces[-1]).done:
        return
    if pending_work.has_begun(context, last.number):
        _run(context, last)
    else:
        pending_work.drop(context, last.number)


def _run(context: FlowContext, piece: Piece) -> None:
    own = context.for_windows()

    def split(decision: Decision) -> Split | None:
        if isinstance(own.flow.source, FileSource):
            return split_landing_files(own, own.spark, piece.number, piece.files, piece.planned_at_ms, decision)
        return split_messages(own, _messages(own, piece), piece.number, decision, piece.planned_at_ms)

    micro_batch.run_steps(own, piece.number, split, lambda: piece.planned_at_ms)
    pending_work.write(context, dataclasses.replace(piece, done=True))


def _parts(context: FlowContext, window: Window, earlier: list[Piece]) -> Iterator[dict[str, Any]]:
    source = context.flow.source
    if isinstance(source, FileSource):
        return _files(context, source, window, earlier)
    assert isinstance(source, KafkaSource)
    return _offsets(context, source, window, earlier)


def _files(
    context: FlowContext, source: FileSource, window: Window, earlier: list[Piece]
) -> Iterator[dict[str, dict[str, int]]]:
    """The window's files in pieces, ordered by modification time."""
    done = {(path, modified) for piece in earlier for path, modified in piece.files.items()}
    landed = files.list_files(context.layout.landing(source.path), source.glob).files
    pending = sorted(
        (file.modified_ms, file.path)
        for file in files.modified_within(landed, window)
        if (file.path, file.modified_ms) not in done
    )
    for start in range(0, len(pending), source.max_files_per_trigger):
        part = pending[start : start + source.max_files_per_trigger]
        yield {"files": {path: modified for modified, path in part}}


def _offsets(
    context: FlowContext, source: KafkaSource, window: Window, earlier: list[Piece]
) -> Iterator[dict[str, dict[str, list[int]]]]:
    """The window's offsets in pieces; each piece contains a share of every partition."""
    ranges = kafka.offsets_within(context.kafka, source.topic, window.since, window.until, isolation=source.isolation)
    for piece in earlier:
        for partition, (_, done) in piece.offsets.items():
            begin, end = ranges.get(int(partition), (0, 0))
            ranges[int(partition)] = (min(max(begin, done), end), end)
    total = sum(end - begin for begin, end in ranges.values())
    firsts = {partition: begin for partition, (begin, end) in ranges.items() if begin < end}
    pieces = -(-total // max_offsets_per_batch(context, source, firsts)) if total else 0
    for nth in range(pieces):
        cuts = {
            str(partition): [begin + (end - begin) * nth // pieces, begin + (end - begin) * (nth + 1) // pieces]
            for partition, (begin, end) in ranges.items()
        }
        yield {"offsets": {partition: cut for partition, cut in cuts.items() if cut[1] > cut[0]}}


def _messages(context: FlowContext, piece: Piece) -> DataFrame:
    """The piece's messages with a timestamp in the window, with the connector's columns."""
    from pyspark.sql import functions as F

    from tidegate.window import Window

    source, window = context.flow.source, Window(**piece.window)
    assert isinstance(source, KafkaSource)
    begin, end = ({partition: cut[side] for partition, cut in piece.offsets.items()} for side in (0, 1))
    rows = (
        context.spark.read.format("kafka")
        .options(**kafka_options(context, source))
        .option("assign", json.dumps({source.topic: [int(partition) for partition in piece.offsets]}))
        .option("startingOffsets", json.dumps({source.topic: begin}))
        .option("endingOffsets", json.dumps({source.topic: end}))
        .load()
    )
    start, end_time = (F.lit(moment).cast("timestamp") for moment in (window.start, window.end))
    return rows.where((F.col("timestamp") >= start) & (F.col("timestamp") < end_time))


def _pieces(context: FlowContext) -> list[Piece]:
    return [pending_work.read(context, number, Piece) for number in pending_work.numbers(context)]
