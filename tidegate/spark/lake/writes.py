"""Writes to Delta tables: one DML per table and batch, idempotent by (``txnAppId``, ``txnVersion``).

An append takes the ids as options. A MERGE takes them from the settings of the session in which its table was opened, so this is a
copy of the batch's session for the one write. After each write the table must have the transaction (app id, batch id).

Longer than 300 lines: every way to change a table is here, so that none lacks the transaction and its check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden, json_codec
from tidegate.advice import Edit, Either, OutsideAct, new_version
from tidegate.checkpoints import lease
from tidegate.errors import DeclarationConflictError, LedgerImbalanceError, WriteConflictError
from tidegate.lake.table_history import STANDS_ON, Position
from tidegate.spark.lake import column_types, comparable, tables
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


_APP = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_PARTITIONS = "spark.sql.shuffle.partitions"
_LARGE_BYTES = 256 * 1024 * 1024
_SMALL_BYTES = 32 * 1024 * 1024
"""One partition of input (`tidegate.spark.driver.session`)."""
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """The batch and the checkpoint of a write."""

    app_id: str
    batch_id: int
    prepared: dict[str, Any]
    """The ledger line, prepared before the write; it travels in the commit's ``userMetadata``."""
    attempt: str = ""
    """The attempt that writes."""
    stands_on: Mapping[str, Position] = field(default_factory=dict)
    """The positions in the tables that were read, and in those that are written before it (`tidegate.spark.batch.proofs`)."""

    def metadata(self) -> str:
        """The ``userMetadata`` of the commit."""
        ids = {"app_id": self.app_id, "batch_id": self.batch_id, "attempt": self.attempt}
        metadata = {**ids, "prepared": self.prepared}
        return json.dumps({**metadata, STANDS_ON: json_codec.to_plain(dict(self.stands_on))}, default=str)


def append(rows: DataFrame, address: Address, txn: Transaction) -> tables.Commit:
    """Append rows. New columns are added to the table; removed and retyped ones are refused.

    Raises:
        DeclarationConflictError: The rows lack a column of the table or change its type.
    """
    spark = rows.sparkSession
    _check_columns(spark, rows, address)
    return _save(rows, address, txn, mode="append", mergeSchema="true")


def upsert(rows: DataFrame, address: Address, keys: tuple[str, ...], txn: Transaction) -> tables.Commit:
    """Insert new keys and update keys whose stored ``_order`` is lower. ``rows`` has each key at most once.

    Raises:
        DeclarationConflictError: The rows lack a column of the table or change its type.
    """
    spark = rows.sparkSession
    if not tables.exists(address):
        return append(rows, address, txn)
    _check_columns(spark, rows, address)
    column_types.admit(rows, address)

    same_key = " AND ".join(f"t.`{key}` = s.`{key}`" for key in keys)
    (
        _merge_into(address, rows, same_key, txn)
        .withSchemaEvolution()
        .whenMatchedUpdateAll(f"s.{hidden.ORDER} > t.{hidden.ORDER}")
        .whenNotMatchedInsertAll()
        .execute()
    )
    return _committed(spark, address, txn)


def replace_groups(
    changes: DataFrame, address: Address, keys: tuple[str, ...], txn: Transaction, ignored: tuple[str, ...] = ()
) -> tables.Commit:
    """Replace the rows of some keys in one MERGE that changes only rows that differ.

    Args:
        changes: One row per key, with ``_op``: ``upsert``, or ``delete`` for a key without new row.
        ignored: Columns that are not compared (bookkeeping).

    Raises:
        DeclarationConflictError: The groups lack a column of the table or change its type.
    """
    spark = changes.sparkSession
    groups = changes.drop(hidden.OP)
    if not tables.exists(address):
        return append(changes.where(f"{hidden.OP} = 'upsert'").drop(hidden.OP), address, txn)
    _check_columns(spark, groups, address)
    column_types.admit(groups, address)

    compared = [column for column in groups.columns if column not in (*keys, *ignored)]
    changed = differs(compared, groups.schema, tables.read(spark, address).schema)
    same_key = " AND ".join(f"t.`{key}` <=> s.`{key}`" for key in keys)
    values: dict[str, str | Column] = {column: f"s.`{column}`" for column in groups.columns}
    merger = (
        _merge_into(address, changes, same_key, txn)
        .withSchemaEvolution()
        .whenMatchedDelete(f"s.{hidden.OP} = 'delete'")
    )
    if changed:
        merger = merger.whenMatchedUpdate(f"s.{hidden.OP} = 'upsert' AND ({changed})", set=values)
    merger.whenNotMatchedInsert(f"s.{hidden.OP} = 'upsert'", values=values).execute()
    return _committed(spark, address, txn)


def merge(
    rows: DataFrame,
    address: Address,
    match: str,
    txn: Transaction,
    *,
    updates: dict[str, dict[str, Column]],
    inserts: tuple[str, list[str]],
) -> tables.Commit:
    """One MERGE with the clauses of the caller.

    Args:
        rows: The source, with alias ``s``.
        path: The table, with alias ``t``.
        match: The match condition.
        updates: The assignments by condition; the first condition that is true applies.
        inserts: The condition for inserting an unmatched row, and the inserted columns.
    """
    spark = rows.sparkSession
    merger = _merge_into(address, rows, match, txn)
    for condition, values in updates.items():
        merger = merger.whenMatchedUpdate(condition, set=dict(values))
    condition, columns = inserts
    merger = merger.whenNotMatchedInsert(condition, values={name: F.col(f"s.{name}") for name in columns})
    merger.execute()
    return _committed(spark, address, txn)


def put_back(changes: DataFrame, address: Address, keys: tuple[str, ...], txn: Transaction) -> tables.Commit:
    """Give rows back the content that they had before some commits, in one MERGE, where they are still as these made them.

    Args:
        changes: The changes of these commits, as from `tables.net_changes`. A row without ``before`` is deleted, one without
            ``after`` is inserted unless its key is in the table.
    """
    spark = changes.sparkSession
    columns = tables.read(spark, address).schema
    named = [f"`{key}` AS `_key_{key}`" for key in keys]
    source = changes.selectExpr(*named, "before", "after")
    same_key = " AND ".join(f"t.`{key}` <=> s.`_key_{key}`" for key in keys)
    same = [_equals(column.dataType, f"t.`{column.name}`", f"s.after.`{column.name}`") for column in columns]
    untouched = " AND ".join(["s.after IS NOT NULL", *same])
    before: dict[str, str | Column] = {column.name: f"s.before.`{column.name}`" for column in columns}
    (
        _merge_into(address, source, same_key, txn)
        .whenMatchedDelete(f"s.before IS NULL AND {untouched}")
        .whenMatchedUpdate(f"s.before IS NOT NULL AND {untouched}", set=before)
        .whenNotMatchedInsert("s.after IS NULL", values=before)
        .execute()
    )
    return _committed(spark, address, txn)


def swap(
    staged: DataFrame, address: Address, keys: tuple[str, ...], txn: Transaction, ignored: tuple[str, ...]
) -> tables.Commit:
    """Make the live table equal to the staged one with one MERGE that changes only rows that differ.

    Readers see the old or the new table, never an empty one, and the change feed has only real changes.

    Args:
        staged: All rows of the new table, whose columns fit those of the live one (`fits`).
        keys: The key columns of both.
        txn: The transaction of the last staged batch.
        ignored: Columns that are not compared (bookkeeping).
    """
    spark = staged.sparkSession
    live = tables.read(spark, address).schema
    column_types.admit(staged, address)

    same_key = " AND ".join(f"t.`{key}` <=> s.`{key}`" for key in keys)
    compared = [column for column in staged.columns if column not in (*keys, *ignored)]
    changed = differs(compared, staged.schema, live)
    merge = (
        _merge_into(address, staged, same_key, txn)
        .withSchemaEvolution()
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceDelete()
    )
    (merge.whenMatchedUpdateAll(changed) if changed else merge).execute()
    return _committed(spark, address, txn)


def replace_table(rows: DataFrame, address: Address, txn: Transaction) -> tables.Commit:
    """Replace all rows and the schema of a table in one commit. The change feed cannot be read across that commit."""
    return _save(rows, address, txn, mode="overwrite", overwriteSchema="true")


def _save(rows: DataFrame, address: Address, txn: Transaction, *, mode: str, **options: str) -> tables.Commit:
    column_types.admit(rows, address)
    if mode == "append":
        # Delta needs nothing else of the table's state for an append. Other writes compute it anyway, for the files of the table.
        jvm: Any = rows.sparkSession._jvm
        jvm.io.tidegate.delta.KnownTransactions.reuse(rows.sparkSession._jsparkSession, address.written_uri)
    lease.expect_certain()
    transaction: dict[str, Any] = {"txnAppId": txn.app_id, "txnVersion": txn.batch_id, "userMetadata": txn.metadata()}
    rows.write.format("delta").mode(mode).options(**transaction, **options).save(address.written_uri)
    return _committed(rows.sparkSession, address, txn)


def fits(rows: DataFrame, live: DataFrame) -> bool:
    """Whether the rows have every column of the live table with the same type; more columns are allowed."""
    types = {column.name: column.dataType.simpleString() for column in rows.schema}
    return all(types.get(column.name) == column.dataType.simpleString() for column in live.schema)


def differs(columns: Sequence[str], new: StructType, live: StructType) -> str:
    """The condition that a new row ``s`` differs from the row ``t`` of the table; empty without columns to compare.

    Args:
        columns: Those that are compared.
        new: The schema of the new rows.
        live: That of the table; it has NULL in a column that it lacks.
    """
    return " OR ".join(
        f"NOT ({_equals(new[column].dataType, f't.`{column}`', f's.`{column}`')})"
        if column in live.names
        else f"s.`{column}` IS NOT NULL"
        for column in columns
    )


def _equals(kind: DataType, left: str, right: str) -> str:
    """SQL for two values of a type being the same, or both NULL."""
    return f"{comparable.sql(left, kind)} <=> {comparable.sql(right, kind)}"


def _merge_into(address: Address, source: DataFrame, match: str, txn: Transaction) -> DeltaMergeBuilder:
    """A MERGE of the source, with alias ``s``, into the table ``t``, with the transaction: no other write can read these settings."""
    spark = source.sparkSession
    session: Any = spark._jsparkSession.cloneSession()
    settings = {_APP: txn.app_id, _VERSION: str(txn.batch_id), _METADATA: txn.metadata()}
    # A small run disables adaptive execution (`tidegate.requests.launch`), but its few rows are joined with a table.
    if (size := tables.size(spark, address)) > _LARGE_BYTES:
        settings[_ADAPTIVE] = "true"
    elif 0 < size <= _SMALL_BYTES and spark.sparkContext.getConf().get(_ADAPTIVE) == "false":
        # Each partition of a MERGE becomes a file, which costs its writer and each reader several requests in a bucket.
        settings[_PARTITIONS] = "1"
    for name, value in settings.items():
        session.conf().set(name, value)
    jvm: Any = spark._jvm
    lease.expect_certain()
    table = DeltaTable(spark, jvm.io.delta.tables.DeltaTable.forPath(session, address.written_uri))
    return table.alias("t").merge(source.alias("s"), match)


def _committed(spark: SparkSession, address: Address, txn: Transaction) -> tables.Commit:
    before = txn.stands_on.get(address.key)
    after = None if before is None else before.version
    last_batch, commit = tables.committed(spark, address, txn.app_id, txn.batch_id, after)
    if commit is None:
        raise LedgerImbalanceError(
            txn.app_id,
            txn.batch_id,
            txn.prepared,
            f"the table at {address} has batch {last_batch} of {txn.app_id} after batch {txn.batch_id} was written: "
            "checkpoint and table do not match.",
            Either(OutsideAct("restore the one that was replaced"), new_version(says="raise checkpoint_version")),
        )
    # Delta skips the write of a transaction that the table has.
    if (attempt := commit.metadata.get("attempt", "")) != txn.attempt:
        raise WriteConflictError(
            f"attempt {attempt or 'of an earlier release'} has written batch {txn.batch_id} of {txn.app_id} to the table at {address}, "
            "while this one was at work on it or stopped. This one has not written it.",
            OutsideAct("run again: what is left of the batch is written then"),
        )
    return commit


def _check_columns(spark: SparkSession, rows: DataFrame, address: Address) -> None:
    if not tables.exists(address):
        return
    live = {column.name: column.dataType for column in tables.read(spark, address).schema}
    missing = [name for name in live if name not in rows.columns]
    if missing:
        raise DeclarationConflictError(
            f"the table at {address} has {', '.join(missing)}, which the rows do not have: the transform no longer returns it, "
            "or another writer added it.",
            Either(
                Edit("return it (as NULL, if it is another writer's)", "transform"),
                new_version(says="raise checkpoint_version to derive the table again"),
            ),
        )
    _check_types(rows, live, address)


def _check_types(rows: DataFrame, live: dict[str, Any], address: Address) -> None:
    for column in rows.schema:
        old = live.get(column.name)
        if old is not None and old.simpleString() != column.dataType.simpleString():
            raise DeclarationConflictError(
                f"column {column.name!r} of the table at {address} is {old.simpleString()}, but the transform "
                f"returns {column.dataType.simpleString()}.",
                Either(Edit(f"cast it to {old.simpleString()}", "transform"), Edit("rename it", "declaration")),
            )
