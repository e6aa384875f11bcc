"""What is done to the rows of a flow: the batches of its stream, or what `tidegate.spark.reprocessing` does.

All of it goes through the same six steps (`tidegate.spark.batch.micro_batch`). It differs in where rows come from, which ids
they carry, and what is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tidegate import hidden
from tidegate.checkpoints import progress, refusal
from tidegate.spark.batch import quarantine
from tidegate.spark.job import Job, Work
from tidegate.spark.lake import local, tables
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.checkpoints.progress import KafkaRanges
    from tidegate.checkpoints.refusal import Action, BatchDecision
    from tidegate.lake.place import Place
    from tidegate.spark.batch.split import Split
    from tidegate.spark.lake.writes import Transaction
    from tidegate.spec import KafkaSource


class BatchWork(Work):
    """Work whose refused and late rows are found again by its transaction id and the number of the batch."""

    def write_refused(self, job: Job, split: Split, batch_id: int, txn: Transaction) -> None:
        """Step 3: write the refused rows of a split to quarantine."""
        assert split.refused is not None
        quarantine.append(job, split.refused, batch_id, txn, self.planned_ms(job, batch_id))

    def refused_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """The rows that an earlier attempt at this batch refused: ``_row_id string, rules array<string>``."""
        return quarantine.refused_in_batch(job, spark, batch_id)

    def late_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """The rows that an earlier attempt at this batch found late: ``_row_id string``."""
        if not tables.exists(job.place.late):
            return local.from_rows(spark, [], f"{hidden.ROW_ID} string")
        rows = tables.read(spark, job.place.late)
        return rows.where(quarantine.is_of_batch(job, batch_id)).select(hidden.ROW_ID).distinct()


@dataclass(frozen=True)
class Stream(BatchWork):
    """The micro-batches of the flow's stream, into the live table."""

    has_statistics = True

    def app_id(self, place: Place) -> str:
        """The checkpoint's own."""
        return place.app_id

    def planned_ms(self, job: Job, batch_id: int) -> int:
        """From Spark's offset log."""
        return job.planned_batch(batch_id).timestamp_ms

    def listed_files(self, job: Job, batch_id: int) -> dict[str, int]:
        """From the source log. Spark lists some names that begin with "_" (`_metadata.csv`, `_a=b.csv`), but reads none of them."""
        return {
            file.path: file.modified_ms
            for file in progress.batch_files(job.place.checkpoint, batch_id, job.planned_batch)
            if not Path(file.path).name.startswith("_")
        }

    def planned_offsets(self, job: Job, batch_id: int) -> KafkaRanges:
        """From Spark's offset log."""
        return progress.batch_offsets(job.place.checkpoint, batch_id, cast("KafkaSource", job.flow.source).topics)

    def is_first_read(self, job: Job) -> bool:
        """In the flow's first checkpoint: Spark's source log lists no file and no message twice."""
        return (job.place.version, job.place.refresh) == (1, 0)

    def decision(self, job: Job, batch_id: int, action: Action | None = None) -> BatchDecision | None:
        """As a person decided after the batch was refused."""
        return refusal.decision(job.place, batch_id, action)


@dataclass(frozen=True)
class Staged(Stream):
    """The micro-batches of a new checkpoint version or a full refresh, into the table that replaces the live one."""

    has_statistics = False

    def target(self, job: Job) -> Address:
        """The staging table of the checkpoint."""
        return job.place.staging
