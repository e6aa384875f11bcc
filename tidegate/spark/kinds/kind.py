"""What a kind of flow provides. `Kind.read_stream` and `Kind.split` are all that an increment needs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tidegate.report import BatchRecord
    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.reprocessing.backfill import Backfill
    from tidegate.spark.reprocessing.pins import Pins
    from tidegate.spark.reprocessing.reingest import Piece
    from tidegate.spec import Flow
    from tidegate.window import Window

Entries = Sequence[Mapping[str, str]]
"""``_row_id`` and ``source`` of quarantine entries."""


def _missing(*_: Any) -> Any:
    raise NotImplementedError("the mode that needs this does not apply to flows of this kind (tidegate.runs)")


def _no_rows(_context: FlowContext, spark: SparkSession, _entries: Entries) -> DataFrame:
    return spark.range(0).toDF("_row_id")


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What a verification compares."""

    expected: DataFrame
    """The rows that the source makes."""
    actual: DataFrame
    """The rows of the table."""
    keys: tuple[str, ...]
    """The columns that identify a row. Several rows may have the same key; then they are compared in any order."""
    source: str
    """As in `tidegate.verification.Verification`."""
    ignored: tuple[str, ...] = ()
    """Columns that are not compared, because they depend on how the input was divided into batches."""
    sums: bool = False
    """Whether floating-point columns are aggregates."""
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """As in `tidegate.verification.Verification`."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The code of one kind of flow."""

    read_stream: Callable[[FlowContext], DataFrame]
    """The source as a stream with bounded micro-batches."""
    split: Callable[[FlowContext, DataFrame, int, Decision], Split | None]
    """Steps 1 and 2 for the rows of a batch, with its number and what earlier attempts wrote; None for an empty batch. What
    is in quarantine is not judged again. An error that it raises refuses the batch: nothing was written."""
    start: Callable[[FlowContext, DataStreamWriter], StreamingQuery] = lambda _, writer: writer.start()
    """Starts the query of the stream."""
    evaluate: Callable[[FlowContext, DataFrame, int], DataFrame] = lambda _context, batch, _number: batch
    """What every attempt at a batch does before step 0, also for an empty batch and for one that the target has. Returns the rows
    for ``split``."""
    check_written: Callable[[FlowContext, BatchRecord], None] = lambda *_: None
    """Raises if the attempt cannot complete a batch that the target has with this ledger line."""
    bookkeeping: tuple[str, ...] = ()
    """Columns of the table that are not compared: a row in which only they differ is unchanged."""
    completed_by_target: bool = False
    """Whether another checkpoint completes a batch that the target has, with its ledger line alone: the old one would read its source
    again, which may no longer have it, or its state. A batch that only quarantine has is read again."""
    needs_refresh: Callable[[FlowContext], bool] = lambda _: False
    """Whether the checkpoint cannot go on, and only a new refresh of it can."""
    drained: Callable[[FlowContext], None] = lambda _: None
    """Called at the end of an increment, when the stream has read everything and the live table has it."""
    parts: Callable[[FlowContext, Window | None, Sequence[Piece]], Iterator[Mapping[str, Any]]] = _missing
    """Reingest: the window, or the gaps (in a window), in parts as large as a batch, as fields of `Piece`, without those of earlier
    pieces."""
    read_piece: Callable[[FlowContext, Piece], DataFrame] = _missing
    """Reingest: the rows of a piece, for ``split``."""
    keys_in_window: Callable[[FlowContext, Window | None, Backfill], DataFrame] = _missing
    """Backfill: the keys that have a row in the window, in the present table or in the output of the present code. Without a
    window, for a dry run of a full refresh: all keys."""
    store_raising: Callable[[FlowContext, Window | None, Backfill, str], None] = lambda *_: None
    """Backfill: after ``keys_in_window`` raised an exception of this class on a value, find and store the rows of the source on
    which it does; they have no key. From then on ``keys_in_window`` and ``split_keys`` leave them out."""
    split_keys: Callable[[FlowContext, DataFrame, Backfill, Decision], Split | None] = _missing
    """Backfill: steps 1 and 2 for all rows that these keys are derived from."""
    read_entries: Callable[[FlowContext, SparkSession, Entries], DataFrame] = _no_rows
    """Replay: the source rows of quarantine entries, for ``split``; none for entries that are files."""
    returned: Callable[[FlowContext, Mapping[str, Any], Entries], Mapping[str, Any]] = lambda _context, rules, _: rules
    """Replay: the broken rules by the id of the entry, from those by the id of the refused row."""
    sides: Callable[[FlowContext, Pins], Sides] = _missing
    """Verification: the rows that the source makes at the pinned versions, and those that the table has."""


def load(flow: Flow) -> Kind:
    """The kind of a flow."""
    kind: Kind = importlib.import_module(flow.kind.code).KIND
    return kind
