"""The position of the snapshot with which a table begins: changes up to it are in the snapshot already, and count no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.spark.batch import groups
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.sources.snapshots.beside import Positioned
    from tidegate.spark.job import Job


def base_of(job: Job) -> Positioned | None:
    """The snapshot with which the target of the job begins; None for a flow without snapshots, or before the first one."""
    if job.flow.snapshots is None:
        return None
    from tidegate.sources.snapshots import beside

    known = beside.read(job.place)
    begun = known.begun
    if begun is not None and is_written(job, begun):
        return begun
    return known.base


def is_written(job: Job, begun: Positioned) -> bool:
    """Whether the target of the job has a snapshot that was begun."""
    written = tables.transactions(job.spark, job.target).get(job.place.snapshots_app_id)
    return written == begun.snapshot.number


def is_covered(job: Job, rows: DataFrame) -> Column:
    """Whether a change, by its ``_order``, is not after the snapshot with which the target of the job begins."""
    base = base_of(job)
    if base is None:
        return F.lit(False)
    declared = F.struct(*[F.col(f"{hidden.ORDER}.`{name}`") for name in job.flow.target.sequence_by])
    return F.coalesce(declared <= literal(base.position, order_type(rows)), F.lit(False))


def order_type(rows: DataFrame) -> types.StructType:
    """The type of the ``_order`` of rows."""
    kind = rows.schema[hidden.ORDER].dataType
    assert isinstance(kind, types.StructType)
    return kind


def with_base(job: Job, written: DataFrame, base: DataFrame | None, keys: DataFrame | None = None) -> DataFrame:
    """The rows that changes make, and of other keys those of the snapshot with which the table begins.

    Args:
        base: Its rows; None without one.
        keys: Those that are wanted; None for all.
    """
    if base is None:
        return written
    names = job.flow.target.keys
    if keys is not None:
        base = groups.join_on_keys(base, keys, names, "left_semi")
    others = groups.join_on_keys(base, written, names, "left_anti")
    return written.unionByName(others, allowMissingColumns=True)


def literal(position: Sequence[str], order: types.StructType) -> Column:
    """A position as a struct of the declared fields of an ``_order``, which are its first."""
    return F.struct(*_fields(position, order))


def order_at(position: Sequence[str], order: types.StructType) -> Column:
    """The ``_order`` of rows of a snapshot: they have no coordinates of the changes' source, so that they are before those of a change."""
    rest = [F.lit(None).cast(field.dataType).alias(field.name) for field in order.fields[len(position) :]]
    return F.struct(*_fields(position, order), *rest)


def _fields(position: Sequence[str], order: types.StructType) -> list[Column]:
    return [
        F.lit(value).cast(field.dataType).alias(field.name)
        for value, field in zip(position, order.fields, strict=False)
    ]
