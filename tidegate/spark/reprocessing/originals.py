"""The records behind quarantined entries, as their flow once read them.

They are read from bronze, or from the table behind the change feed, and not from the entry, whose text lacks a file's
header, a message's key, and the last digits of some types.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate.probes import delta
from tidegate.spark.intake import parse
from tidegate.spark.lake import tables
from tidegate.spec import FileSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.spark.context import FlowContext

_FEW_PLACES = 500
"""Up to so many files of landing are named to Delta, which then skips the files of bronze that hold none of them."""


def read(context: FlowContext, session: SparkSession) -> DataFrame:
    """The rows behind the entries that a replay has in hand; what is no longer there is missing.

    Args:
        context: The flow, with its replay.
        session: Where to read.

    Returns:
        What the flow's source gives, with ``_row_id``; without a source table no rows at all.
    """
    from pyspark.sql import functions as F

    assert context.replay is not None
    entries = context.replay.entries
    if context.source_table is None:
        return session.range(0).toDF("_row_id")
    ids = session.createDataFrame([(entry["_row_id"],) for entry in entries], "_row_id string")
    if context.landing is None:
        rows = _changes(context, session, ids, [int(json.loads(entry["source"])["version"]) for entry in entries])
    else:
        bronze = tables.read(session, context.source_table).where(_places(context, entries))
        rows = bronze.join(F.broadcast(ids), "_row_id", "left_semi").withColumn("_change_type", F.lit("insert"))
    rows = rows.persist()
    context.persisted.append(rows)
    return rows


def _places(context: FlowContext, entries: Sequence[Mapping[str, str]]) -> Column:
    """A condition that lets Delta skip files of bronze by their statistics."""
    from pyspark.sql import functions as F

    sources = [json.loads(entry["source"]) for entry in entries]
    if isinstance(context.landing, FileSource):
        paths = sorted({source["path"] for source in sources})
        return F.col("_path").isin(paths) if len(paths) <= _FEW_PLACES else F.lit(True)
    offsets = [source["offset"] for source in sources]
    return F.col("_offset").between(min(offsets), max(offsets)) if offsets else F.lit(False)


def _changes(context: FlowContext, session: SparkSession, ids: DataFrame, versions: list[int]) -> DataFrame:
    """Changes of a keyed table by their ids: from its feed, or, of a first load, from the version that was loaded.

    What neither the feed nor the table's log goes back to is missing.
    """
    from pyspark.sql import functions as F

    path = context.source_table
    assert path is not None

    def wanted(rows: DataFrame) -> DataFrame:
        return rows.withColumn("_row_id", parse.change_id(context.source_keys)).join(ids, "_row_id", "left_semi")

    def feed(first: int, last: int) -> DataFrame:
        return (
            session.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", first)
            .option("endingVersion", last)
            .load(str(path))
            .where("_change_type != 'update_preimage'")
        )

    # An entry may be older than the retention of the log: asked for one such version, Delta would refuse all others too.
    served = [part for part in delta.served_ranges(path, min(versions), max(versions)) if _holds_any(part, versions)]
    newest = tables.version(session, path)
    found = wanted(feed(*served[0]) if served else feed(newest, newest).limit(0))
    for part in served[1:]:
        found = found.unionByName(wanted(feed(*part)), allowMissingColumns=True)
    missing = ids.join(found, "_row_id", "left_anti").select(F.element_at(F.split("_row_id", r"\|"), -2).alias("v"))
    for row in missing.distinct().collect():
        if not delta.is_whole(path, int(row["v"])):
            continue
        loaded = tables.read(session, path, int(row["v"])).withColumns(
            {
                "_change_type": F.lit("insert"),
                "_commit_version": F.lit(int(row["v"])).cast("bigint"),
                "_commit_timestamp": F.current_timestamp(),
            }
        )
        found = found.unionByName(
            wanted(loaded).join(found.select("_row_id"), "_row_id", "left_anti"), allowMissingColumns=True
        )
    return found


def _holds_any(part: tuple[int, int], versions: Sequence[int]) -> bool:
    return any(part[0] <= version <= part[1] for version in versions)
