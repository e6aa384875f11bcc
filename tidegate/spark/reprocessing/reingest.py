"""A reingest of a window: what bronze lacks of the files, or of the messages, of some days is read again.

Without a window a reingest opens the next refresh, whose stream reads the whole source. A window has an end, and a stream
that stopped there would leave the next increment a hole. So a window is read beside the stream: first an ordinary
increment, then the window in pieces that keep the source's limits, each through the steps of a micro-batch under the
transaction id of the flow's windows.

A piece is written down before it is read, as a replay is (`tidegate.spark.reprocessing.replay`): one that had written something when the
process died is finished by the flow's next run; a retry of the run goes on with what no piece of its request holds.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate.probes import files, kafka
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.raw import split_landed, split_messages
from tidegate.spark.intake.sources import kafka_options, offsets_at_once
from tidegate.spark.reprocessing import written_plan
from tidegate.spec import FileSource, KafkaSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.window import Window


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a window, as large as one micro-batch may be."""

    number: int
    """Its ``txnVersion``."""
    request_id: str
    window: dict[str, str]
    planned_at_ms: int
    requested_by: str
    files: dict[str, int] = field(default_factory=dict)
    """Path to modification time in milliseconds."""
    offsets: dict[str, list[int]] = field(default_factory=dict)
    """Partition to the first offset and the one behind the last."""
    done: bool = False


def reingest(context: FlowContext, window: Window) -> None:
    """Read what a window of the source holds and bronze lacks, once per request however often its run is tried.

    Args:
        context: The flow, whose source is drained.
        window: When files were changed last, or when messages were sent.

    Raises:
        TidegateError: As a micro-batch; what is in hand is finished by the flow's next run.
    """
    pieces = _pieces(context)
    taken = [each for each in pieces if each.request_id == context.request.request_id]
    number = pieces[-1].number + 1 if pieces else 0
    for part in _parts(context, window, taken):
        piece = Piece(
            number=number,
            request_id=context.request.request_id,
            window=dataclasses.asdict(window),
            planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
            requested_by=context.request.requested_by,
            **part,
        )
        written_plan.write(context, piece)
        _take(context, piece)
        number += 1


def finish_pending(context: FlowContext) -> None:
    """Finish a piece that a crash left half-written; forget one that wrote nothing."""
    pieces = _pieces(context)
    if not pieces or (last := pieces[-1]).done:
        return
    if written_plan.has_begun(context, last.number):
        _take(context, last)
    else:
        written_plan.drop(context, last.number)


def _take(context: FlowContext, piece: Piece) -> None:
    own = context.of_windows()

    def split(decision: Decision) -> Split | None:
        if isinstance(own.flow.source, FileSource):
            return split_landed(own, own.spark, piece.number, piece.files, piece.planned_at_ms, decision)
        return split_messages(own, _messages(own, piece), piece.number, decision, piece.planned_at_ms)

    micro_batch.take(own, piece.number, split, lambda: piece.planned_at_ms)
    written_plan.write(context, dataclasses.replace(piece, done=True))


def _parts(context: FlowContext, window: Window, taken: list[Piece]) -> Iterator[dict[str, Any]]:
    source = context.flow.source
    if isinstance(source, FileSource):
        return _files(context, source, window, taken)
    assert isinstance(source, KafkaSource)
    return _offsets(context, source, window, taken)


def _files(
    context: FlowContext, source: FileSource, window: Window, taken: list[Piece]
) -> Iterator[dict[str, dict[str, int]]]:
    """The window's files in pieces, in the order in which they were changed."""
    known = {(path, modified) for piece in taken for path, modified in piece.files.items()}
    landed = files.list_files(context.layout.landing(source.path), source.glob).files
    within = sorted(
        (file.modified_ms, file.path)
        for file in files.modified_within(landed, window)
        if (file.path, file.modified_ms) not in known
    )
    for start in range(0, len(within), source.max_files_per_trigger):
        part = within[start : start + source.max_files_per_trigger]
        yield {"files": {path: modified for modified, path in part}}


def _offsets(
    context: FlowContext, source: KafkaSource, window: Window, taken: list[Piece]
) -> Iterator[dict[str, dict[str, list[int]]]]:
    """The window's offsets in pieces, each with its share of every partition."""
    ranges = kafka.offsets_within(context.kafka, source.topic, window.first, window.behind, isolation=source.isolation)
    for piece in taken:
        for partition, (_, behind) in piece.offsets.items():
            begin, end = ranges.get(int(partition), (0, 0))
            ranges[int(partition)] = (min(max(begin, behind), end), end)
    total = sum(end - begin for begin, end in ranges.values())
    firsts = {partition: begin for partition, (begin, end) in ranges.items() if begin < end}
    pieces = -(-total // offsets_at_once(context, source, firsts)) if total else 0
    for nth in range(pieces):
        cuts = {
            str(partition): [begin + (end - begin) * nth // pieces, begin + (end - begin) * (nth + 1) // pieces]
            for partition, (begin, end) in ranges.items()
        }
        yield {"offsets": {partition: cut for partition, cut in cuts.items() if cut[1] > cut[0]}}


def _messages(context: FlowContext, piece: Piece) -> DataFrame:
    """The piece's messages whose time lies in the window, with the connector's columns."""
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
    start, behind = (F.lit(moment).cast("timestamp") for moment in (window.start, window.end))
    return rows.where((F.col("timestamp") >= start) & (F.col("timestamp") < behind))


def _pieces(context: FlowContext) -> list[Piece]:
    return [Piece(**written_plan.read(context, number)) for number in written_plan.numbers(context)]
