"""The Spark session of a job: Delta, UTC, sized for a small machine, no UI.

docs/architecture/spark.md has the settings before the JVM starts.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from tidegate.environment import Environment

REASONED_SETTINGS: tuple[tuple[str, str, str], ...] = (
    ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension", "Delta's commands and rules"),
    ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog", "the same"),
    ("spark.sql.session.timeZone", "UTC", "transforms give the same rows on every machine"),
    (
        "spark.sql.parquet.outputTimestampType",
        "TIMESTAMP_MICROS",
        "by default INT96, which delta-rs reads as nanoseconds: 9999-12-31 becomes 1816 (docs/adr/0043)",
    ),
    (
        "spark.sql.parquet.datetimeRebaseModeInWrite",
        "CORRECTED",
        "days and instants before 1582 are in the calendar of ISO 8601 in every file; with Spark's default, "
        "`EXCEPTION`, a file of unknown calendar is an error",
    ),
    ("spark.sql.parquet.datetimeRebaseModeInRead", "CORRECTED", "the same"),
    ("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED", "the same"),
    ("spark.sql.parquet.int96RebaseModeInRead", "CORRECTED", "the same"),
    (
        "spark.sql.datetime.java8API.enabled",
        "true",
        "with `false` filters that Spark pushes down to files go through the old calendar, and find no row of 5 to 14 "
        "October 1582",
    ),
    ("spark.ui.enabled", "false", "no open port, and a job starts sooner"),
    ("spark.ui.showConsoleProgress", "false", "no progress bars in task logs"),
    (
        "spark.sql.ui.explainMode",
        "simple",
        "Spark writes the text of each plan for its UI and the history server; with `formatted`, its default, that "
        "took a tenth of the driver's CPU in small batches, with `simple` less than two thirds of it",
    ),
    (
        "spark.python.sql.dataFrameDebugging.enabled",
        "false",
        "PySpark would record for every expression the line that made it: five more calls into the JVM each, half of "
        "all calls of an increment. Errors of values have no such line, since their texts are not shown; errors of "
        "analysis have a traceback",
    ),
    ("spark.sql.shuffle.partitions", "4", "an increment is small; a run that is not has `shuffle_partitions`"),
    (
        "spark.sql.inMemoryColumnarStorage.compressed",
        "false",
        "rows are persisted for one batch and read two or three times: compressing them costs more than it saves",
    ),
    ("spark.sql.sources.parallelPartitionDiscovery.parallelism", "4", "an increment is small, also for listing files"),
    (
        "spark.databricks.delta.snapshotPartitions",
        "2",
        "50 by default: a count over three small tables took about 40 s with 50, 2 to 12 s with 2",
    ),
    (
        "spark.databricks.delta.properties.defaults.enableChangeDataFeed",
        "true",
        "downstream flows read it; appends cost nothing extra",
    ),
    (
        "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled",
        "true",
        "a flow with several sources reads all but the first from the next commit on, which need not exist yet; with "
        "false Delta raises `DELTA_VERSION_NOT_FOUND`",
    ),
    (
        "spark.databricks.delta.properties.defaults.logRetentionDuration",
        "interval 30 days",
        "the longest outage after which a reader continues without a full refresh",
    ),
    (
        "spark.databricks.delta.properties.defaults.deletedFileRetentionDuration",
        "interval 30 days",
        "the same for data files, if VACUUM is run",
    ),
    (
        "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
        "false",
        "what is still there is read: after a longer outage, or when the clock is set, Delta would refuse the "
        "versions of a batch although no file of them was removed",
    ),
    (
        "spark.databricks.delta.write.txnVersion.autoReset.enabled",
        "true",
        "additional protection: `writes.py` sets and unsets transaction ids itself",
    ),
    (
        "spark.sql.files.ignoreCorruptFiles",
        "false",
        "with `true` half of a truncated file would be accepted without an error",
    ),
    ("spark.sql.files.ignoreMissingFiles", "false", "with `true` a missing file would be skipped without an error"),
    (
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "state is not in the heap",
    ),
    (
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "a batch stores the changes of the state, not the state",
    ),
    (
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage",
        "true",
        "all operators and partitions of a driver share one bound; what does not fit is on the local disk",
    ),
    ("spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB", "256", "the bound"),
    (
        "spark.sql.streaming.stateStore.maintenanceInterval",
        "2s",
        "60 s by default: a run that is shorter would never store a snapshot, and the next ones would read ever more "
        "changes",
    ),
    (
        "spark.redaction.regex",
        "(?i)secret|password|token|access[.]?key|credential|sasl|jaas|sas",
        "settings with such names are redacted in logs",
    ),
)
"""Name, value and reason of each setting; the reference shows them."""

SETTINGS: dict[str, str] = {name: value for name, value, _ in REASONED_SETTINGS}

_OVERRIDES: dict[str, str] = {}
"""Of the session of this process."""

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

_PARTITION_BYTES = 32 * 1024**2
"""Of input as it is stored: in memory it is several times larger, and Spark's advice for a partition there is 64 MiB."""
_MOST_PARTITIONS = 2_000
"""Above it Spark keeps only averages of the sizes of parts of a shuffle."""


def shuffle_partitions(size: int | None, cores: int) -> int:
    """Into how many partitions a run shuffles: one per 32 MiB of input, in whole waves of tasks, and at least 4.

    A stateful flow has its declared number, which its checkpoint fixes.

    Args:
        size: Bytes that the run is to read; None if unknown: then one wave.
        cores: How many tasks run at a time.
    """
    least = int(SETTINGS["spark.sql.shuffle.partitions"])
    if size is None:
        return max(least, min(cores, _MOST_PARTITIONS))
    wanted = min(max(least, -(-size // _PARTITION_BYTES)), _MOST_PARTITIONS)
    # The last wave would leave cores idle.
    return wanted if wanted <= cores else min(-(-wanted // cores) * cores, _MOST_PARTITIONS)


def cores_of(spark: SparkSession) -> int:
    """How many tasks run at a time, also before the executors have registered."""
    conf, dynamic = spark.sparkContext.getConf(), "spark.dynamicAllocation.maxExecutors"
    executors = conf.get(dynamic) or conf.get("spark.executor.instances")
    if executors and not str(conf.get("spark.master")).startswith("local"):
        return int(executors) * int(conf.get("spark.executor.cores") or "1")
    return spark.sparkContext.defaultParallelism


def build_session(environment: Environment, app_name: str, extra: dict[str, str] | None = None) -> SparkSession:
    """The session of this process, created on first use.

    Under spark-submit the JVM already runs, with the class path and the flags of `tidegate.requests.launch`. In a plain Python
    process (tests, a notebook) they are set here, before the JVM starts.

    Args:
        environment: Has the master and the driver's memory.
        app_name: Shown by Spark's history server.
        extra: Settings that override `SETTINGS`, also in later calls of this process, which use the same session.
    """
    _OVERRIDES.update(extra or {})
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    settings = dict(SETTINGS)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        from tidegate.requests.launch import submit_conf

        settings |= {"spark.master": environment.master, **submit_conf(environment, small=False)}
    follow_executors = "PYSPARK_GATEWAY_PORT" in os.environ and _is_cluster()
    if follow_executors:
        from tidegate.spark.driver import executor_wait, executors

        # Before there is a session, too: executors that cannot be started have all failed in a tenth of a second.
        executors.follow()
    for name, value in (settings | _OVERRIDES).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Below FATAL, Spark logs the text of errors, which quotes data; the failure of a flow is written to the lake instead.
    session.sparkContext.setLogLevel("FATAL")
    # py4j and PySpark log exceptions with the same texts.
    for name in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if follow_executors:
        executors.follow()
        executor_wait.start(session.sparkContext, environment)
    keep_names(session)
    return session


def _is_cluster() -> bool:
    """Whether the master of this process's JVM is not local. If so, Spark's logging is configured."""
    SparkContext._ensure_initialized()
    conf: Any = SparkConf()
    if str(conf.get("spark.master")).startswith("local"):
        return False
    # Otherwise the session does it, which removes appenders.
    conf._jconf.initializeLogIfNecessary(False)
    return True


def give_project(spark: SparkSession, project: Path) -> str | None:
    """Give the executors of a cluster the project's code (`tidegate.runtime.project_archive`).

    Returns:
        The hash of the archive; None on a local master.

    Raises:
        OSError: A file of the project cannot be read, or the archive cannot be written.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return None
    from tidegate.runtime.project_archive import FOLDER, ProjectArchive

    archive = ProjectArchive.read(project)
    # Spark serves it from there, and removes the folder at the end.
    path = archive.write(Path(SparkFiles.getRootDirectory()))
    context.addArchive(f"{path.as_uri()}#{FOLDER}")
    return archive.sha256


def keep_names(session: SparkSession) -> None:
    """Look up `NAMES` once: py4j asks the JVM at each use, which then opens every jar for a name without its package."""
    names: Any = session._jvm
    for name in NAMES:
        setattr(names, name, getattr(names, name))
