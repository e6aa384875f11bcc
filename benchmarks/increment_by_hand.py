"""The pipeline `flights` written by hand: three flows in one Spark application, without Tidegate.

`benchmarks/increment.py` compares it with ``tidegate run flights``. It reads CSV by RFC 4180, casts every field separately,
checks the six rules of the suite for every row, quarantines rows that break one, and writes each table once per batch, also
in reruns. It shares only the two transforms with the pipeline.

It has no threshold that refuses a batch, no split that is stable across code changes, no ledger that balances, no verdicts,
no pages, no checks of checkpoints and declarations, and no support for headers in another order or with a new column.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from spark_jobs.flights import clean, daily_delay

SCHEMA = """
    year INT NOT NULL, month INT NOT NULL, day INT NOT NULL,
    dep_time INT, sched_dep_time INT NOT NULL, dep_delay INT,
    arr_time INT, sched_arr_time INT NOT NULL, arr_delay INT,
    carrier STRING NOT NULL, flight INT NOT NULL, tailnum STRING,
    origin STRING NOT NULL, dest STRING NOT NULL,
    air_time INT, distance INT NOT NULL,
    hour INT, minute INT, time_hour TIMESTAMP NOT NULL,
    published_on TIMESTAMP NOT NULL
"""
CHECKS = {
    "not_be_null(scheduled_at)": "scheduled_at IS NOT NULL",
    "be_in_set(origin)": "origin IN ('EWR', 'JFK', 'LGA')",
    "be_between(distance)": "distance > 0 AND distance <= 6000",
    "be_between(dep_delay)": "dep_delay BETWEEN -120 AND 2000",
    "be_between(air_time)": "air_time BETWEEN 1 AND 1200",
    "lengths_to_equal(carrier)": "length(carrier) = 2",
}
"""Conditions that no row may violate; NULL is accepted."""


def main(lake: str, landing: str) -> None:
    """Process the new input, flow by flow."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    schema = StructType.fromDDL(SCHEMA)
    assert isinstance(schema, StructType)
    checkpoints = f"{lake}/checkpoints"
    files = _files(spark, landing, schema)
    _run(files, f"{checkpoints}/bronze", lambda batch, number: _append(batch, f"{lake}/bronze", "bronze", number))
    records = _changes(spark).load(f"{lake}/bronze")
    _run(records, f"{checkpoints}/silver", lambda batch, number: _write_silver(batch, number, lake, schema))
    flights = _changes(spark).load(f"{lake}/silver")
    _run(flights, f"{checkpoints}/gold", lambda batch, number: _write_gold(batch, number, lake))
    spark.stop()


def _write_silver(batch: DataFrame, number: int, lake: str, schema: StructType) -> None:
    """The newest version of each flight that passes; records that break a rule go to quarantine."""
    silver = f"{lake}/silver"
    checked = _checked(batch.where("_change_type = 'insert'"), schema).persist()
    refused = checked.where(F.size("errors") > 0)
    if not refused.isEmpty():
        _append(refused.select("errors", "_origin.*"), f"{lake}/quarantine", "quarantine", number)
    latest_first = Window.partitionBy("flight_id").orderBy(F.col("published_on").desc())
    passed = (
        checked.where((F.size("errors") == 0) & F.col("_filtered").isNull())
        .withColumn("_rank", F.row_number().over(latest_first))
        .where("_rank = 1")
        .drop("_rank", "_filtered", "_origin", "_row_id", "errors")
    )
    if DeltaTable.isDeltaTable(batch.sparkSession, silver):
        merge = (
            DeltaTable.forPath(batch.sparkSession, silver)
            .alias("t")
            .merge(passed.alias("s"), "t.flight_id = s.flight_id")
            .whenMatchedUpdateAll("s.published_on > t.published_on")
            .whenNotMatchedInsertAll()
        )
        _once(batch.sparkSession, "silver", number, merge.execute)
    else:
        _append(passed, silver, "silver", number)
    checked.unpersist()


def _write_gold(batch: DataFrame, number: int, lake: str) -> None:
    """The groups of the changed flights, computed again."""
    session, silver, gold = batch.sparkSession, f"{lake}/silver", f"{lake}/gold"
    # Pre-images contain the previous group of a flight.
    changed = batch.select("day", "carrier").distinct().persist()
    flights = session.read.format("delta").load(silver).join(F.broadcast(changed), ["day", "carrier"], "left_semi")
    groups = daily_delay(flights)
    if DeltaTable.isDeltaTable(session, gold):
        updates = changed.join(groups, ["day", "carrier"], "left")
        merge = (
            DeltaTable.forPath(session, gold)
            .alias("t")
            .merge(updates.alias("s"), "t.day = s.day AND t.carrier = s.carrier")
            .whenMatchedDelete("s.flights IS NULL")
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll("s.flights IS NOT NULL")
        )
        _once(session, "gold", number, merge.execute)
    else:
        _append(groups, gold, "gold", number)
    changed.unpersist()


def _files(spark: SparkSession, landing: str, schema: StructType) -> DataFrame:
    """The records of the files, all fields as text, with their path and time."""
    texts = StructType([StructField(field.name, StringType()) for field in schema])
    return (
        spark.readStream.format("csv")
        .schema(texts.add("_malformed", StringType()))
        .option("header", "true")
        .option("enforceSchema", "false")
        .option("multiLine", "true")
        .option("escape", '"')
        .option("nullValue", "NA")
        .option("emptyValue", "NA")
        .option("columnNameOfCorruptRecord", "_malformed")
        .option("maxFilesPerTrigger", 25)
        .load(landing)
        .select("*", F.col("_metadata.file_path").alias("_path"), F.current_timestamp().alias("_ingested_at"))
    )


def _changes(spark: SparkSession) -> DataStreamReader:
    return spark.readStream.format("delta").option("readChangeFeed", "true").option("maxBytesPerTrigger", "1g")


def _checked(records: DataFrame, schema: StructType) -> DataFrame:
    """The records after `clean`, with ``errors``: the rules that each breaks."""
    typed = {field.name: F.col(field.name).try_cast(field.dataType) for field in schema}
    broken: list[Column] = [F.when(F.col("_malformed").isNotNull(), F.lit("malformed"))]
    for field in schema:
        text = F.col(field.name)
        broken.append(F.when(text.isNotNull() & typed[field.name].isNull(), F.lit(f"type({field.name})")))
        if not field.nullable:
            broken.append(F.when(text.isNull(), F.lit(f"required({field.name})")))
    record = F.to_json(F.struct(*[F.col(field.name) for field in schema]))
    rows = records.select(
        *[value.alias(name) for name, value in typed.items()],
        F.lit(None).cast("string").alias("_row_id"),
        F.lit(None).cast("map<string,string>").alias("_rescued"),
        F.struct(
            F.array_compact(F.array(*broken)).alias("broken"),
            record.alias("record"),
            F.col("_path").alias("path"),
            "_ingested_at",
        ).alias("_origin"),
    )
    checks = F.array(*[F.when(~F.expr(rule), F.lit(name)) for name, rule in CHECKS.items()])
    violated = F.when(F.col("_filtered").isNull(), F.array_compact(checks)).otherwise(F.array())
    return clean(rows).withColumn(
        "errors", F.when(F.size("_origin.broken") > 0, F.col("_origin.broken")).otherwise(violated)
    )


def _run(stream: DataFrame, checkpoint: str, write: Callable[[DataFrame, int], None]) -> None:
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start().awaitTermination()


def _append(rows: DataFrame, path: str, name: str, number: int) -> None:
    """Append a batch; a rerun of the batch writes nothing."""
    writer = rows.write.format("delta").mode("append").option("txnAppId", f"flights/{name}")
    writer.option("txnVersion", number).save(path)


def _once(spark: SparkSession, name: str, number: int, write: Callable[[], object]) -> None:
    """The same for a MERGE, which reads the transaction ids from its session."""
    ids = {"txnAppId": f"flights/{name}", "txnVersion": str(number)}
    for key, value in ids.items():
        spark.conf.set(f"spark.databricks.delta.write.{key}", value)
    write()
    for key in ids:
        spark.conf.unset(f"spark.databricks.delta.write.{key}")


if __name__ == "__main__":
    main(*sys.argv[1:])
