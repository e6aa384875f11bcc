"""The fork server of guides: programs that use one JVM one after the other."""

from __future__ import annotations

import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession

from tests.docs import fork_server
from tests.waiting import TIMEOUT_SECONDS

_PROGRAM = """
    import os, sys
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import SparkSession

    class Task:
        def call(self):
            return "called"

        class Java:
            implements = ["java.util.concurrent.Callable"]

    spark = SparkSession.builder.getOrCreate()
    gateway = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    task = gateway.jvm.java.util.concurrent.FutureTask(Task())
    if sys.argv[1] == "collected":
        # Until the JVM has collected the objects of the program before.
        for _ in range(20):
            gateway.jvm.System.gc()
            gateway.jvm.System.runFinalization()
    task.run()
    print(task.get(), flush=True)
    os._exit(0)
"""


@pytest.mark.nightly
@pytest.mark.jvm
def test_an_object_that_the_jvm_calls_survives_the_collection_of_those_of_the_program_before(
    tmp_path: Path, spark: SparkSession
) -> None:
    program = tmp_path / "program.py"
    program.write_text(dedent(_PROGRAM))
    with fork_server.running(tmp_path, spark) as server:
        for state in ("kept", "collected"):
            command = [server.commands / "spark-submit", program, state]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
            assert done.stdout == "called\n", done.stderr
