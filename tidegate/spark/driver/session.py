"""The Spark session of a job: sized to a small machine, Delta on, UTC, nothing listening.

Reasons for each setting stand in docs/architecture.md, "Spark settings".
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.environment import Environment

SETTINGS: dict[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # 50 by default: a count over three small tables took 40 s with 50, 2-12 s with 2.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
    "spark.databricks.delta.properties.defaults.logRetentionDuration": "interval 30 days",
    "spark.databricks.delta.properties.defaults.deletedFileRetentionDuration": "interval 30 days",
    # A safety net only: the sinks set and unset the transaction ids themselves.
    "spark.databricks.delta.write.txnVersion.autoReset.enabled": "true",
    # True would pass half of a truncated file, or lose one, in silence.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|credential|sasl|jaas|sas",
}


def build_session(environment: Environment, app_name: str, extra: dict[str, str] | None = None) -> SparkSession:
    """The session of this process, made on first use.

    Under spark-submit the JVM is there already, with the class path and the flags of `tidegate.launch`; in a process
    of its own (tests, a notebook) they are given here, before the JVM starts.

    Args:
        environment: Where the master and the driver's memory come from.
        app_name: As Spark's history shows it.
        extra: Settings over ours.
    """
    from pyspark.sql import SparkSession

    from tidegate.launch import submit_conf

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    settings = dict(SETTINGS)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings |= {"spark.master": environment.master, **submit_conf(environment, small=False)}
    for name, value in (settings | (extra or {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Below FATAL, Spark logs the text of errors, which quotes data; a flow's failure is kept in the lake instead.
    session.sparkContext.setLogLevel("FATAL")
    # py4j logs what a micro-batch raised, with the same texts.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return session
