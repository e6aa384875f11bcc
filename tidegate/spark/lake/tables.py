"""Reads from a Delta table its versions, its transaction ids and the commit of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit, new_version
from tidegate.errors import LedgerImbalanceError, SpecError
from tidegate.probes import delta, delta_log
from tidegate.spark.lake import comparable
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.times.window import Window

JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options for keys and rows as JSON: every column, times with microseconds. Ids of sent changes contain a
hash of it, so these options never change."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One commit of the log."""

    version: int
    metrics: dict[str, int]
    """Delta's ``operationMetrics``."""
    metadata: dict[str, Any]
    """The ``userMetadata`` of the batch, with its prepared ledger line; empty where there is none."""


def exists(address: Address) -> bool:
    """Whether the folder has a Delta table."""
    return any(entry.name.endswith(".json") for entry in (address / "_delta_log").list())


def is_logged(address: Address, number: int) -> bool:
    """Whether the table's log still has the commit of a version."""
    return delta_log.entry(address, number).exists()


def read(spark: SparkSession, address: Address, version: int | None = None) -> DataFrame:
    """The table's rows, of the newest version or of ``version``."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(str(address))


def net_changes(spark: SparkSession, address: Address, versions: Sequence[int], keys: tuple[str, ...]) -> DataFrame:
    """What some commits together changed in the rows of a table, by their change feed.

    Where another commit changed a row between two of them, only the commits after that change count.

    Args:
        versions: The commits, ascending; at least one.
        keys: The columns that identify a row.

    Returns:
        One row per changed row of the table: the ``keys``, and its columns as the structs ``before`` and ``after``; NULL where
        there was no row.
    """
    columns = read(spark, address).columns
    feeds = [
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", number)
        .option("endingVersion", number)
        .load(str(address))
        for number in versions
    ]
    row = F.struct(*[F.col(f"`{column}`") for column in columns])
    was, at = F.col(hidden.CHANGE_TYPE).isin("delete", "update_preimage"), hidden.COMMIT_VERSION
    by_commit = (
        reduce(DataFrame.unionByName, feeds)
        .groupBy(*keys, at)
        .agg(
            F.first(F.when(was, row), ignorenulls=True).alias("before"),
            F.first(F.when(~was, row), ignorenulls=True).alias("after"),
        )
    )
    in_order = SparkWindow.partitionBy(*keys).orderBy(at)
    row_before = F.lag(_comparable(by_commit, "after")).over(in_order)
    continues = (F.row_number().over(in_order) > 1) & row_before.eqNullSafe(_comparable(by_commit, "before"))
    changes = (
        by_commit.withColumn("_first", F.when(~continues, F.col(at)))
        .groupBy(*keys)
        .agg(F.max_by("before", "_first").alias("before"), F.max_by("after", at).alias("after"))
    )
    return changes.where(~_comparable(changes, "before").eqNullSafe(_comparable(changes, "after")))


def changed_since(spark: SparkSession, address: Address, versions: Sequence[int]) -> DataFrame | None:
    """The change feed of the commits after the first of some commits, without them; None if there are none."""
    first = versions[0] + 1
    if version(spark, address) < first:
        return None
    feed = (
        spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", first).load(str(address))
    )
    return feed.where(~F.col(hidden.COMMIT_VERSION).isin(list(versions)))


def compare(changes: DataFrame, table: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Changes as from `net_changes` with the table's present row as ``now``, and what putting them back means, as ``_state``.

    ``_state`` is ``update``, ``insert`` or ``delete`` for a row that is still as after the changes, ``as_before`` for one that is
    again as before them, and ``changed`` for any other.
    """
    present = table.select(
        *[F.col(f"`{key}`").alias(f"_now_{key}") for key in keys],
        F.struct(*[F.col(f"`{name}`") for name in table.columns]).alias("now"),
    )
    same_key = [F.col(f"`{key}`").eqNullSafe(F.col(f"`_now_{key}`")) for key in keys]
    joined = changes.join(present, same_key, "left").drop(*[f"_now_{key}" for key in keys])
    now, before, after = (_comparable(joined, name) for name in ("now", "before", "after"))
    state = (
        F.when(now.eqNullSafe(before), "as_before")
        .when(~now.eqNullSafe(after), "changed")
        .when(F.col("after").isNull(), "insert")
        .when(F.col("before").isNull(), "delete")
        .otherwise("update")
    )
    return joined.withColumn(hidden.STATE, state)


def _comparable(rows: DataFrame, column: str) -> Column:
    return F.expr(comparable.sql(column, rows.schema[column].dataType))


def version(spark: SparkSession, address: Address) -> int:
    """The newest version."""
    return int(_snapshot(spark, address).version())


def size(spark: SparkSession, address: Address) -> int:
    """Bytes of the newest version's files, from its checksum file; 0 where it has none."""
    checksum = _snapshot(spark, address).checksumOpt()
    return int(checksum.get().tableSizeBytes()) if checksum.isDefined() else 0


def transactions(spark: SparkSession, address: Address) -> dict[str, int]:
    """The last ``txnVersion`` of every ``txnAppId`` that wrote to the table; empty without a table.

    Delta writes them into the checksum file of each version (Delta protocol, "Version Checksum File"). Where there is
    none, as after a commit of delta-rs, or it is damaged, Spark collects them from the log, which takes about a second.
    """
    newest = delta.current_version(address)
    return {} if newest is None else _transactions(spark, address, newest)


def _transactions(spark: SparkSession, address: Address, newest: int) -> dict[str, int]:
    # The file is read here and not by the JVM, which would list the log again, and take five calls for each transaction.
    if (listed := delta_log.transactions(address, newest)) is not None:
        return listed
    jvm: Any = spark._jvm
    versions = jvm.scala.jdk.javaapi.CollectionConverters.asJava(_snapshot(spark, address).transactions())
    return {str(app_id): int(versions[app_id]) for app_id in versions}


def committed(
    spark: SparkSession, address: Address, app_id: str, batch_id: int, after: int | None
) -> tuple[int | None, Commit | None]:
    """The last batch of a transaction id in a table, and the commit of a batch, if that is the last one.

    Args:
        after: A version that the table had before the batch was written: its commit is among the next ones, or Delta has skipped it.

    Raises:
        LedgerImbalanceError: As `find_commit`.
    """
    if after is not None and (commit := _next_commit(address, app_id, batch_id, after)) is not None:
        return batch_id, commit
    newest = delta.current_version(address)
    last = None if newest is None else _transactions(spark, address, newest).get(app_id)
    if newest is None or last != batch_id:
        return last, None
    return last, find_commit(address, app_id, batch_id, newest)


def _next_commit(address: Address, app_id: str, batch_id: int, after: int) -> Commit | None:
    """The commit of a transaction behind a version, without a listing; None without one."""
    number = after + 1
    while (info := delta_log.commit_info(address, number)) is not None:
        commit = _commit(number, info)
        if (commit.metadata.get("app_id"), commit.metadata.get("batch_id")) == (app_id, batch_id):
            return commit
        number += 1
    return None


def version_of(address: Address, app_id: str, batch_id: int, newest: int) -> int | None:
    """The version of the commit of a transaction that is still in the log; None without one."""
    wanted = (app_id, batch_id)
    matches = (
        commit.version
        for commit in commits(address, 0, newest)
        if (commit.metadata.get("app_id"), commit.metadata.get("batch_id")) == wanted
    )
    return next(matches, None)


def find_commit(address: Address, app_id: str, batch_id: int, newest: int) -> Commit:
    """The commit of the transaction (``app_id``, ``batch_id``), searched from version ``newest`` backwards.

    It is read from the log, because Delta skips the write of a rerun and then returns no metrics (Delta protocol,
    "Commit Provenance Information").

    Raises:
        LedgerImbalanceError: The log has no such commit, although the table has the transaction (the log was cleaned).
    """
    for commit in _backwards(address, newest):
        if (commit.metadata.get("app_id"), commit.metadata.get("batch_id")) == (app_id, batch_id):
            return commit
    raise LedgerImbalanceError(
        app_id,
        batch_id,
        {},
        f"the table at {address} has the batch, but its log no longer has the commit",
        new_version(says="raise checkpoint_version"),
    )


def source_versions(spark: SparkSession, address: Address, app_id: str) -> Mapping[str, int]:
    """The versions of the sources that the newest commit of a transaction id was computed from; empty without one in the log."""
    newest = version(spark, address) if exists(address) else -1
    of_id = (each.metadata for each in _backwards(address, newest) if each.metadata.get("app_id") == app_id)
    versions: Mapping[str, int] = next(of_id, {}).get("prepared", {}).get("source_versions", {})
    return versions


def commits(address: Address, first: int, last: int) -> Iterator[Commit]:
    """The commits of versions ``first`` to ``last`` that are still in the log, oldest first."""
    for number in range(first, last + 1):
        if (info := delta_log.commit_info(address, number)) is not None:
            yield _commit(number, info)


def _backwards(address: Address, newest: int) -> Iterator[Commit]:
    """The commits up to version ``newest``, newest first, to the first that is no longer in the log."""
    for number in range(newest, -1, -1):
        if (info := delta_log.commit_info(address, number)) is None:
            return
        yield _commit(number, info)


def _commit(number: int, info: dict[str, Any]) -> Commit:
    metrics = {name: int(value) for name, value in info.get("operationMetrics", {}).items() if str(value).isdigit()}
    return Commit(version=number, metrics=metrics, metadata=delta.user_metadata(info))


def _snapshot(spark: SparkSession, address: Address) -> Any:
    jvm: Any = spark._jvm
    # For `jvm.org.apache...` py4j would search all jars for a class at each part of the name, in every call.
    log = getattr(jvm, "org.apache.spark.sql.delta.DeltaLog").forTable(spark._jsparkSession, str(address))
    option = getattr(jvm, "scala.Option")
    return log.update(False, option.empty(), option.empty())


def within(rows: DataFrame, column: str, window: Window, table: str) -> Column:
    """Whether the event time of a row is in a window.

    Args:
        column: A date or a timestamp.
        table: The name of the table, for the error.

    Raises:
        SpecError: The column is missing or has another type.
    """
    kind = dict(rows.dtypes).get(column)
    if kind == "date":
        first, last = window.dates
        # As text: py4j writes a year before 1000 without its zeros, which Java refuses.
        return F.col(column).between(F.lit(str(first)).cast("date"), F.lit(str(last)).cast("date"))
    if kind in ("timestamp", "timestamp_ntz"):
        start, end = (F.lit(moment).cast("timestamp").cast(kind) for moment in (window.start, window.end))
        return (F.col(column) >= start) & (F.col(column) < end)
    raise SpecError(
        f"event_time={column!r} of table {table!r} is {kind or 'not among its columns'}",
        Edit("declare a date or timestamp column", "declaration"),
    )
