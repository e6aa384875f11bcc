"""What is done to a flow: the batches of its stream, or one of the jobs of `tidegate.spark.reprocessing`.

Every job goes through the same six steps (`tidegate.spark.batch.micro_batch`). They differ in where rows come from, which ids
they carry, and what is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidegate.checkpoints import progress, refusal
from tidegate.spark.batch import late_rows, quarantine
from tidegate.spec import KafkaSource
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.checkpoints.refusal import Action, BatchDecision
    from tidegate.place import Place
    from tidegate.spark.batch.split import Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.lake.writes import Transaction


class Work(ABC):
    """One job. What it does not override holds for new rows of a source."""

    line_kind: Literal["", "replay"] = ""
    """The ``kind`` of its ledger lines; empty for the one that the flow's kind gives them."""
    of_entries = False
    """Its rows are quarantine entries: no sample for the gate to judge, and no new files."""
    split_is_final = True
    """Whether a row that quarantine does not hold must pass, once the split was decided; if not, it breaks the rules of today."""
    compares: Literal["in_merge", "before", "never"] = "in_merge"
    """Whether rows are compared with newer rows of the table: by the MERGE where it can, by a query before it, or not."""
    has_statistics = False
    """Whether the flow's statistics are measured: what else is read again in bulk does not resemble batches of the stream."""

    @abstractmethod
    def app_id(self, place: Place) -> str:
        """The ``txnAppId`` of its writes."""

    @abstractmethod
    def planned_ms(self, context: FlowContext, batch_id: int) -> int:
        """When the batch was planned, in milliseconds since 1970; the same on every rerun."""

    def listed_files(self, context: FlowContext, batch_id: int) -> dict[str, int]:
        """The files of a batch of a landing folder: path to modification time in milliseconds since 1970."""
        return {}

    def planned_offsets(self, context: FlowContext, batch_id: int) -> dict[int, tuple[int, int]]:
        """The messages of a batch of a topic: partition to the first offset and the offset after the last one."""
        return {}

    def target(self, context: FlowContext) -> Address:
        """The table that is written: the live table."""
        return context.live

    def is_first_read(self, context: FlowContext) -> bool:
        """Whether nothing of the batch can have been read before, so that no table is searched for it."""
        return False

    def decision(self, context: FlowContext, batch_id: int, action: Action | None = None) -> BatchDecision | None:
        """A person's decision about this refused batch, or only one for this action; None when there is none."""
        return None

    def write_refused(self, context: FlowContext, split: Split, batch_id: int, txn: Transaction) -> None:
        """Step 3: write the refused rows of a split to quarantine."""
        assert split.refused is not None
        quarantine.append(context, split.refused, batch_id, txn, self.planned_ms(context, batch_id))

    def refused_ids(self, context: FlowContext, spark: SparkSession, batch_id: int) -> DataFrame:
        """The rows that an earlier attempt at this batch refused: ``_row_id string, rules array<string>``."""
        return quarantine.refused_in_batch(context, spark, batch_id)

    def late_ids(self, context: FlowContext, spark: SparkSession, batch_id: int) -> DataFrame:
        """The rows that an earlier attempt at this batch found late: ``_row_id string``."""
        return late_rows.in_batch(context, spark, batch_id)


@dataclass(frozen=True)
class Stream(Work):
    """The micro-batches of the flow's stream, into the live table."""

    has_statistics = True

    def app_id(self, place: Place) -> str:
        """The checkpoint's own."""
        return place.app_id

    def planned_ms(self, context: FlowContext, batch_id: int) -> int:
        """From Spark's offset log."""
        return progress.planned_batch(context.checkpoint, batch_id).timestamp_ms

    def listed_files(self, context: FlowContext, batch_id: int) -> dict[str, int]:
        """From the source log. Spark lists some names that begin with "_" (`_metadata.csv`, `_a=b.csv`), but reads none of them."""
        return {
            file.path: file.modified_ms
            for file in progress.batch_files(context.checkpoint, batch_id)
            if not Path(file.path).name.startswith("_")
        }

    def planned_offsets(self, context: FlowContext, batch_id: int) -> dict[int, tuple[int, int]]:
        """From Spark's offset log."""
        assert isinstance(context.flow.source, KafkaSource)
        return progress.batch_offsets(context.checkpoint, batch_id, context.flow.source.topic)

    def is_first_read(self, context: FlowContext) -> bool:
        """In the flow's first checkpoint: Spark's source log lists no file and no message twice."""
        return (context.place.version, context.place.refresh) == (1, 0)

    def decision(self, context: FlowContext, batch_id: int, action: Action | None = None) -> BatchDecision | None:
        """As a person decided after the batch was refused."""
        return refusal.decision(context.place, batch_id, action)


@dataclass(frozen=True)
class Staged(Stream):
    """The micro-batches of a new checkpoint version or a full refresh, into the table that replaces the live one."""

    has_statistics = False

    def target(self, context: FlowContext) -> Address:
        """The staging table of the checkpoint."""
        return context.place.staging
