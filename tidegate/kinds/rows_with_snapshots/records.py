"""The records of a snapshot beside changes, as rows of the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.kinds.snapshots import compare
from tidegate.schema.contract import DEFAULT_CONTRACT
from tidegate.schema.ddl import Column as DeclaredColumn
from tidegate.schema.ddl import parse_ddl
from tidegate.sources.snapshots.announcements import Snapshot
from tidegate.spark.batch import position, rows
from tidegate.spark.batch.rows import JudgedRows
from tidegate.spark.batch.split import Decision
from tidegate.spark.batch.work import BatchWork
from tidegate.spark.lake import local, tables
from tidegate.spec import FileSource
from tidegate.times import dates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.lake.place import Place
    from tidegate.spark.job import Job
    from tidegate.store import Address


@dataclass(frozen=True)
class OfSnapshot(BatchWork):
    """The comparison of one snapshot, whose number is that of its announcement."""

    table: Address
    snapshot: Snapshot
    compares = "never"
    # No record of it goes to quarantine: with one that breaks a rule it is only compared.
    judges = False

    def app_id(self, place: Place) -> str:
        """One for all snapshots of the checkpoint."""
        return place.snapshots_app_id

    def planned_ms(self, job: Job, batch_id: int) -> int:
        """When the snapshot was announced."""
        return dates.micros(datetime.fromisoformat(self.snapshot.at)) // 1000

    def target(self, job: Job) -> Address:
        """The table that the changes are written to."""
        return self.table


@dataclass(frozen=True)
class OfBase(OfSnapshot):
    """The snapshot with which the table begins, whose rows are derived again: no suite decides about them once more."""

    split_is_final = False

    def refused_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """None was refused."""
        return local.from_rows(spark, [], f"{hidden.ROW_ID} string, rules array<string>")


def base_rows(job: Job) -> DataFrame | None:
    """The rows of the snapshot with which the table begins, with the present code and the columns of the live table."""
    base = position.base_of(job)
    if base is None:
        return None
    reading = reading_of(job.doing(OfBase(job.target, base.snapshot)))
    judged = judged_rows(reading, base.snapshot, Decision(quarantined=True, written=False))
    stored = tables.read(job.spark, job.live)
    if judged is None:
        return stored.limit(0)
    made, number = compare.written_rows(judged), base.snapshot.number
    return made.alias("s").select(*target_row(job, stored.schema, made.columns, base.position, number))


def comparable(job: Job, expected: DataFrame, actual: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Both sides of a verification: present rows, in the columns that a snapshot has. What others have depends on what came first."""
    columns = [*job.flow.target.keys, *compared_columns(job, actual.columns)]
    first, second = (
        side.where(f"NOT coalesce({hidden.DELETED}, false)").select(*[name for name in columns if name in side.columns])
        for side in (expected, actual)
    )
    return first, second


def target_row(
    job: Job, schema: types.StructType, made: Sequence[str], own: Sequence[str] | None, number: int
) -> list[Column]:
    """The columns of the table for a row ``s`` of a snapshot, or a tombstone where there is only a row ``t`` of the table.

    Args:
        made: The columns that the snapshot has.
        own: Its position; None if nothing is written.
    """
    lacking, planned = _lacking(job), F.timestamp_millis(F.lit(job.work.planned_ms(job, number)))
    columns = []
    for field in schema:
        name, value = field.name, F.lit(None).cast(field.dataType)
        if name == hidden.ORDER and own is not None:
            assert isinstance(field.dataType, types.StructType)
            value = position.order_at(own, field.dataType)
        elif name == hidden.DELETED:
            value = F.col(f"s.{hidden.ROW_ID}").isNull()
        elif name == hidden.BATCH_ID:
            value = F.lit(number).cast(field.dataType)
        elif name == hidden.INGESTED_AT:
            value = planned
        elif name in made and name not in lacking:
            value = F.col(f"s.`{name}`")
        columns.append(value.alias(name))
    return columns


def judged_rows(reading: Job, snapshot: Snapshot, decision: Decision) -> JudgedRows | None:
    """The records of a snapshot, transformed and judged as changes of the flow are."""
    records = compare.records(reading, snapshot, snapshot.number)
    return rows.judge_rows(reading, records, snapshot.number, decision, replaces=True)


def reading_of(job: Job) -> Job:
    """The job of a flow that compares the snapshots alone. Undeclared fields of them are no schema change of the flow."""
    flow = job.flow.of_snapshots
    writer = job.resolved.pipeline.writer_of(flow.source_tables[0])
    assert writer is not None and isinstance(writer.source, FileSource)
    source = dataclasses.replace(writer.source, contract=DEFAULT_CONTRACT)
    resolved = dataclasses.replace(job.resolved, flow=flow, writer=dataclasses.replace(writer, source=source))
    of_changes = {column.name: column.type for column in _schemas(job)[0]}

    def transform(records: DataFrame) -> DataFrame:
        absent = {name: F.lit(None).cast(kind) for name, kind in of_changes.items() if name not in records.columns}
        completed = records.withColumns(absent)
        return completed if job.transform is None else job.transform(completed)

    return dataclasses.replace(job, resolved=resolved, transform=transform)


def _schemas(job: Job) -> tuple[Sequence[DeclaredColumn], Sequence[DeclaredColumn]]:
    """The declared columns of the changes, and of the snapshots."""
    assert job.flow.snapshots is not None
    writers = (job.resolved.writer, job.resolved.pipeline.writer_of(job.flow.snapshots.table))
    changes, snapshots = (parse_ddl("schema", each.landed_source.schema) for each in writers)  # type: ignore[union-attr]
    return changes, snapshots


def _lacking(job: Job) -> set[str]:
    """The columns of the changes that a snapshot does not have."""
    changes, snapshots = _schemas(job)
    return {column.name for column in changes} - {column.name for column in snapshots}


def compared_columns(job: Job, columns: Sequence[str]) -> list[str]:
    """Of some columns those in which a snapshot says what a row is."""
    other = {*job.flow.target.keys, *job.flow.target.sequence_by, *_lacking(job)}
    return [name for name in columns if name not in other and not name.startswith("_")]
