"""Landing flows of messages: each message of a topic is stored once, raw, in bronze."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate.ops import ledger
from tidegate.probes import kafka
from tidegate.spark.batch import raw
from tidegate.spark.intake import sources
from tidegate.spark.kinds.kind import Kind
from tidegate.spec import KafkaSource
from tidegate.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.kinds.kind import Parts
    from tidegate.spark.reprocessing.reingest import Piece


class Messages(Kind):
    """Messages of a topic. None is ever refused, so a batch that is in bronze lacks at most its ledger line."""

    one_write = True

    def read_stream(self, context: FlowContext) -> DataFrame:
        """The connector's columns."""
        return sources.topic_stream(context, _source(context))

    def split(self, context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
        """All messages are appended that bronze does not have."""
        planned_ms = context.work.planned_ms(context, batch_id)
        return raw.split_messages(context, batch, batch_id, decision, planned_ms)

    def needs_refresh(self, context: FlowContext) -> bool:
        """If the next messages were deleted and a person accepted the gap: a new checkpoint starts after it."""
        ledger.record_gaps(context.layout, context.pipeline.name, context.flow.name)
        return sources.needs_refresh_for_gap(context, _source(context))

    def parts(self, context: FlowContext, window: Window, earlier: Sequence[Piece]) -> Iterator[Parts]:
        """The window's offsets; each part contains a share of every partition."""
        source = _source(context)
        ranges = kafka.offsets_within(
            context.stores.kafka, source.topic, window.since, window.until, isolation=source.isolation
        )
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

    def read_piece(self, context: FlowContext, piece: Piece) -> DataFrame:
        """The piece's messages with a timestamp in the window, with the connector's columns."""
        from pyspark.sql import functions as F

        source, window = _source(context), Window(**piece.window)
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


def _source(context: FlowContext) -> KafkaSource:
    assert isinstance(context.flow.source, KafkaSource)
    return context.flow.source


KIND = Messages()
