"""What a kind of flow provides. `read_stream` and `split` are all that an increment needs."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.reprocessing.backfill import Backfill
    from tidegate.spark.reprocessing.reingest import Piece
    from tidegate.spec import Flow
    from tidegate.window import Window

Parts = Mapping[str, Any]


class Kind(ABC):
    """One kind of flow. A method that a mode needs is called only for flows that the mode applies to (`tidegate.runs`)."""

    one_write = False
    """A batch writes its target only. If it is there, only the ledger line is missing, and the source is not read again."""

    @abstractmethod
    def read_stream(self, context: FlowContext) -> DataFrame:
        """The source as a stream with bounded micro-batches."""

    @abstractmethod
    def split(self, context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
        """Steps 1 and 2 of a micro-batch; None for an empty one.

        Args:
            batch: Rows of the source; their session is not that of ``context``.
            decision: What an earlier attempt wrote: what it quarantined is not judged again.

        Raises:
            TidegateError: The batch is refused, or does not balance. Nothing was written.
        """

    def needs_refresh(self, context: FlowContext) -> bool:
        """Whether the checkpoint cannot go on, and only a new refresh of it can."""
        return False

    def parts(self, context: FlowContext, window: Window, earlier: Sequence[Piece]) -> Iterator[Parts]:
        """Reingest: the window in parts as large as a micro-batch, as fields of `Piece`, without those of earlier pieces."""
        raise NotImplementedError

    def read_piece(self, context: FlowContext, piece: Piece) -> DataFrame:
        """Reingest: the rows of a piece, for `split`."""
        raise NotImplementedError

    def keys_in_window(self, context: FlowContext, window: Window, pending: Backfill) -> DataFrame:
        """Backfill: the keys that have a row in the window, in the present table or in the output of the present code."""
        raise NotImplementedError

    def split_keys(self, context: FlowContext, keys: DataFrame, pending: Backfill, decision: Decision) -> Split | None:
        """Backfill: steps 1 and 2 for everything that these keys are derived from."""
        raise NotImplementedError

    def read_entries(
        self, context: FlowContext, spark: SparkSession, entries: Sequence[Mapping[str, str]]
    ) -> DataFrame:
        """Replay: the source rows of quarantine entries, for `split`; none for entries that are files."""
        return spark.range(0).toDF("_row_id")

    def returned(self, rules: Mapping[str, Any], entries: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
        """Replay: the broken rules by the id of the entry, from those by the id of the refused row."""
        return rules


def load(flow: Flow) -> Kind:
    """The kind of a flow."""
    kind: Kind = importlib.import_module(flow.kind.code).KIND
    return kind
