"""Landing flows of messages: each message of a topic is stored once, raw, in bronze. None is ever refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate.ops import ledger
from tidegate.probes import kafka
from tidegate.spark.batch import raw
from tidegate.spark.intake import sources
from tidegate.spark.kinds.kind import Kind
from tidegate.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext
    from tidegate.spark.reprocessing.reingest import Piece


def _needs_refresh(context: FlowContext) -> bool:
    """If the next messages were deleted and a person accepted the gap: a new checkpoint starts after it."""
    ledger.record_gaps(context.layout, context.pipeline.name, context.flow.name)
    return sources.needs_refresh_for_gap(context, sources.topic_of(context))


def _parts(context: FlowContext, window: Window, earlier: Sequence[Piece]) -> Iterator[Mapping[str, Any]]:
    """The window's offsets; each part contains a share of every partition."""
    source, bootstrap = sources.topic_of(context), context.stores.kafka
    ranges = kafka.offsets_within(bootstrap, source.topic, window.since, window.until, isolation=source.isolation)
    for piece in earlier:
        for partition, (_, done) in piece.offsets.items():
            begin, end = ranges.get(int(partition), (0, 0))
            ranges[int(partition)] = (min(max(begin, done), end), end)
    total = sum(end - begin for begin, end in ranges.values())
    firsts = {partition: begin for partition, (begin, end) in ranges.items() if begin < end}
    pieces = -(-total // sources.max_offsets_per_batch(context, source, firsts)) if total else 0
    for nth in range(pieces):
        cuts = {
            str(partition): [begin + (end - begin) * nth // pieces, begin + (end - begin) * (nth + 1) // pieces]
            for partition, (begin, end) in ranges.items()
        }
        yield {"offsets": {partition: cut for partition, cut in cuts.items() if cut[1] > cut[0]}}


def _read_piece(context: FlowContext, piece: Piece) -> DataFrame:
    """The piece's messages with a timestamp in the window, with the connector's columns."""
    from pyspark.sql import functions as F

    source, window = sources.topic_of(context), Window(**piece.window)
    begin, end = ({partition: cut[side] for partition, cut in piece.offsets.items()} for side in (0, 1))
    rows = (
        context.spark.read.format("kafka")
        .options(**sources.kafka_options(context, source))
        .option("assign", json.dumps({source.topic: [int(partition) for partition in piece.offsets]}))
        .option("startingOffsets", json.dumps({source.topic: begin}))
        .option("endingOffsets", json.dumps({source.topic: end}))
        .load()
    )
    start, end_time = (F.lit(moment).cast("timestamp") for moment in (window.start, window.end))
    return rows.where((F.col("timestamp") >= start) & (F.col("timestamp") < end_time))


KIND = Kind(
    read_stream=sources.topic_stream,
    split=raw.split_messages,
    one_write=True,
    needs_refresh=_needs_refresh,
    parts=_parts,
    read_piece=_read_piece,
)
