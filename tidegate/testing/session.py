"""The Spark session of the tests of a process."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.environment import Environment
from tidegate.requests.launch import ONLY_C1, prepare, submit_conf
from tidegate.runtime import java
from tidegate.spark.driver.session import build_session
from tidegate.testing.local_files import use_system_calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_DATA_CONF = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.buffer.pageSize": "1m",
    "spark.broadcast.blockSize": "128k",
    "spark.sql.ui.explainMode": "simple",
}
"""For few rows, code generation costs more than it saves.

Each aggregation and each broadcast allocates a page or a block first, by default 32 and 4 MB: in a JVM that runs tests for minutes,
the collections of the full heap took a tenth of the processor time, with smaller ones half of that. Spark describes the plan of each
query for its pages, which nobody opens here: a seventh of the samples in a profile of small increments, in the long form.
"""
ONE_TASK = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}
"""For few rows, a task costs more than its rows: with two in place of one, tests of flows took a tenth to a quarter more processor time."""
_COMPILE_HOT = " ".join(
    f"-XX:Tier4{name}Threshold={count}"
    for name, count in {"Invocation": 20_000, "MinInvocation": 2_400, "Compile": 60_000, "BackEdge": 160_000}.items()
)
"""C2 compiles methods that are called four times as often as by default: it took 28 % of the processor time of 25 runs, then 19 %."""


@cache
def session() -> SparkSession:
    """The session of this process, with the settings of a job for few rows; started when it is first needed.

    As before a job, jars that this machine lacks are fetched first.

    Raises:
        SetupError: A jar cannot be fetched, or there is no Java.
    """
    environment = Environment.read()
    prepare(environment)
    # PySpark starts the JVM of this process, by its variables.
    os.environ.update(java.find().variables)
    folder = Path(tempfile.gettempdir()) / f"tidegate-testing-{os.getpid()}"
    conf = submit_conf(environment, small=True)
    # Tests fill a heap with plans that are soon garbage: in one that grows step by step, collections took a fifth of the time.
    heap = f"-Xms{environment.driver_memory} -XX:NewRatio=1 -XX:MetaspaceSize=256m"
    # One JVM runs tests for many minutes: what they repeat often is worth to be compiled well.
    options = conf["spark.driver.extraJavaOptions"].replace(ONLY_C1, _COMPILE_HOT)
    conf["spark.driver.extraJavaOptions"] = f"{options} {heap}"
    settings = {"spark.sql.warehouse.dir": str(folder), **conf, **SMALL_DATA_CONF, **ONE_TASK}
    started = build_session(environment, "tidegate testing", settings)
    use_system_calls(started)
    return started
