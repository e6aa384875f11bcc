"""The Spark session of a job: Delta, UTC, sized for a small machine, no UI.

docs/architecture.md, "Spark settings", has the reason for each setting.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from tidegate.environment import Environment

SETTINGS: dict[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # By default INT96, whose instants delta-rs reads as nanoseconds: 9999-12-31 becomes 1816.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Days and instants before 1582 in the calendar of ISO 8601 in every file, read as written. EXCEPTION, the default, fails at them.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # With false, filters that Spark pushes down to files go through the old calendar: no row of 1582-10-05 to 14 is found.
    "spark.sql.datetime.java8API.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The text of each plan for the UI and the history server: `formatted`, the default, takes twice as long.
    "spark.sql.ui.explainMode": "simple",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    # Rows are persisted for one batch and read two or three times; compressing them costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # 50 by default: a count over three small tables took 40 s with 50, 2-12 s with 2.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
    # A stream may begin with the next commit of a table, which need not exist yet.
    "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": "true",
    "spark.databricks.delta.properties.defaults.logRetentionDuration": "interval 30 days",
    "spark.databricks.delta.properties.defaults.deletedFileRetentionDuration": "interval 30 days",
    # Only a fallback: `tidegate.spark.lake.writes` sets and unsets the transaction ids itself.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.databricks.delta.write.txnVersion.autoReset.enabled": "true",
    # With true, Spark silently reads part of a truncated file and skips a missing one.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # State of stateful flows: outside of the heap, and of a batch only its changes are stored. All flows together have this memory.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "256",
    # 60 s by default: a run that is shorter would never store a snapshot, and the next ones would read ever more changes.
    "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|credential|sasl|jaas|sas",
}

NAMES = (
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "PythonSQLUtils",
    "PythonUtils",
    "org",
    "java",
    "scala",
)
"""Names in the JVM that PySpark and this package look up for each expression or call."""


def build_session(environment: Environment, app_name: str, extra: dict[str, str] | None = None) -> SparkSession:
    """The session of this process, created on first use.

    Under spark-submit the JVM already runs, with the class path and the flags of `tidegate.requests.launch`. In a plain Python
    process (tests, a notebook) they are set here, before the JVM starts.

    Args:
        environment: Has the master and the driver's memory.
        app_name: Shown by Spark's history server.
        extra: Settings that override `SETTINGS`.
    """
    from tidegate.requests.launch import submit_conf

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    settings = dict(SETTINGS)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings |= {"spark.master": environment.master, **submit_conf(environment, small=False)}
    for name, value in (settings | (extra or {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Below FATAL, Spark logs the text of errors, which quotes data; the failure of a flow is written to the lake instead.
    session.sparkContext.setLogLevel("FATAL")
    # py4j and PySpark log exceptions with the same texts.
    for name in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    keep_names(session)
    return session


def keep_names(session: SparkSession) -> None:
    """Look up `NAMES` once: py4j asks the JVM at each use, which then opens every jar for a name without its package."""
    names: Any = session._jvm
    for name in NAMES:
        setattr(names, name, getattr(names, name))
