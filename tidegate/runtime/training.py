"""The training job for the class data archive: it loads the classes that a small increment loads.

Run by ``spark-submit`` with Delta on the class path. It reads lines of text, parses them, writes a Delta table with a
change feed, and streams that feed through ``foreachBatch`` into a MERGE, twice, as bronze and silver do. Its results are
deleted; only the set of classes that the JVM loads matters.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import hidden

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
    "spark.sql.session.timeZone": "UTC",
}
_ROWS = 200


def session() -> SparkSession:
    """A local session with Delta, with the settings of spark-submit."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("tidegate-archive-training")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def increment(spark: SparkSession, folder: Path) -> None:
    """Write one file and run it through bronze and silver below a folder. Each call adds the next file."""
    number = len(list(folder.glob("landing/*")))
    (folder / "landing").mkdir(exist_ok=True)
    lines = "".join(f"{number * _ROWS + row},name {row},2026-01-{row % 28 + 1:02}\n" for row in range(_ROWS))
    (folder / f"landing/{number}.csv").write_text(lines, encoding="utf-8")
    if number == 0:
        spark.sql(f"CREATE TABLE delta.`{folder}/bronze` (value STRING, source STRING, batch BIGINT) USING delta")
        spark.sql(f"CREATE TABLE delta.`{folder}/silver` (id BIGINT, name STRING, day DATE) USING delta")
    landed = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(f"{folder}/landing")
    landed = landed.selectExpr("value", "_metadata.file_path AS source", "CAST(0 AS BIGINT) AS batch")
    changes = spark.readStream.format("delta").option("readChangeFeed", "true").load(f"{folder}/bronze")
    _run(landed, lambda frame, batch: _append(frame, batch, folder), folder / "checkpoints/bronze")
    _run(changes, lambda frame, batch: _merge(frame, batch, folder), folder / "checkpoints/silver")


def _run(frame: DataFrame, write: object, checkpoint: Path) -> None:
    stream = frame.writeStream.foreachBatch(write)  # type: ignore[arg-type]
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def _append(frame: DataFrame, batch: int, folder: Path) -> None:
    writer = frame.write.format("delta").mode("append").option("txnAppId", "training").option("txnVersion", str(batch))
    writer.save(f"{folder}/bronze")


def _merge(frame: DataFrame, batch: int, folder: Path) -> None:
    spark = frame.sparkSession
    spark.conf.set("spark.databricks.delta.write.txnAppId", "training/silver")
    spark.conf.set("spark.databricks.delta.write.txnVersion", str(batch))
    spark.conf.set("spark.databricks.delta.write.txnVersion.autoReset.enabled", "true")
    parsed = frame.where(f"{hidden.CHANGE_TYPE} IN ('insert', 'update_postimage')").selectExpr(
        "from_csv(value, 'id BIGINT, name STRING, day DATE', map('mode', 'PERMISSIVE')) AS row",
        f"{hidden.COMMIT_VERSION} AS at",
    )
    parsed = parsed.selectExpr("row.*", "row_number() OVER (PARTITION BY row.id ORDER BY at DESC) AS newest").persist()
    try:
        parsed.groupBy("newest").count().collect()
        parsed.where("newest = 1").drop("newest").createOrReplaceTempView("changed")
        spark.sql(
            f"MERGE INTO delta.`{folder}/silver` AS t USING changed AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        parsed.unpersist()


def main() -> int:
    """Run the training job in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tidegate-training-") as folder:
        spark = session()
        spark.sparkContext.setLogLevel("ERROR")
        for _ in range(2):
            increment(spark, Path(folder))
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
