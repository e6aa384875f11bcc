"""The source records of quarantine entries, as their flow read them.

They are read from bronze, or from the change feed of the source table, and not from the entry: its text lacks a file's
header, a message's key, and the full precision of some types.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.probes import delta
from tidegate.spark.intake import bronze, parse
from tidegate.spark.lake import local, tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegate.project.resolution import ResolvedFlow
    from tidegate.store import Address


def read(
    session: SparkSession, source_table: Address, resolved: ResolvedFlow, entries: Sequence[Mapping[str, str]]
) -> DataFrame:
    """The source rows of quarantine entries, without those that no longer exist.

    Args:
        entries: Their ``_row_id`` and ``source``.

    Returns:
        Rows of the flow's source table with ``_row_id``.
    """
    ids = local.from_rows(session, [(entry[hidden.ROW_ID],) for entry in entries], f"{hidden.ROW_ID} string")
    landing = resolved.landing
    if landing is None:
        rows = _changes(
            session, source_table, resolved, ids, [int(json.loads(entry["source"])["version"]) for entry in entries]
        )
    else:
        skipping = bronze.load(landing).skipping([json.loads(entry["source"]) for entry in entries])
        records = tables.read(session, source_table).where(skipping)
        rows = records.join(F.broadcast(ids), hidden.ROW_ID, "left_semi").withColumn(
            hidden.CHANGE_TYPE, F.lit("insert")
        )
    return rows


def _changes(
    session: SparkSession, path: Address, resolved: ResolvedFlow, ids: DataFrame, versions: list[int]
) -> DataFrame:
    """Changes of a keyed table by their ids: from its change feed, or from the version that a first load read.

    Changes before the retention of both the feed and the table's log are left out.
    """

    def of_entries(rows: DataFrame) -> DataFrame:
        changes = parse.of_changes(rows, resolved.source_keys, ids, "left_semi")
        return changes.withColumn(hidden.ROW_ID, F.col(hidden.CHANGE_ID))

    def feed(first: int, last: int) -> DataFrame:
        return (
            session.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", first)
            .option("endingVersion", last)
            .load(str(path))
            .where(f"{hidden.CHANGE_TYPE} != 'update_preimage'")
        )

    # For one version before the retention of the log, Delta would reject the whole read.
    served = [part for part in delta.served_ranges(path, min(versions), max(versions)) if _contains_any(part, versions)]
    newest = tables.version(session, path)
    rows = of_entries(feed(*served[0]) if served else feed(newest, newest).limit(0))
    for part in served[1:]:
        rows = rows.unionByName(of_entries(feed(*part)), allowMissingColumns=True)
    missing = ids.join(rows, hidden.ROW_ID, "left_anti").select(
        F.element_at(F.split(hidden.ROW_ID, r"\|"), -2).alias("v")
    )
    for row in missing.distinct().collect():
        if not delta.can_read_version(path, int(row["v"])):
            continue
        loaded = tables.read(session, path, int(row["v"])).withColumns(
            {
                hidden.CHANGE_TYPE: F.lit("insert"),
                hidden.COMMIT_VERSION: F.lit(int(row["v"])).cast("bigint"),
                hidden.COMMIT_TIMESTAMP: F.current_timestamp(),
            }
        )
        rows = rows.unionByName(
            of_entries(loaded).join(rows.select(hidden.ROW_ID), hidden.ROW_ID, "left_anti"), allowMissingColumns=True
        )
    return rows


def _contains_any(part: tuple[int, int], versions: Sequence[int]) -> bool:
    return any(part[0] <= version <= part[1] for version in versions)
