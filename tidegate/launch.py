"""How a job is started: the settings that must stand before the JVM does, and the command. Imports no Spark.

The jars stand on the driver's class path and are never resolved at job start. An AppCDS archive for exactly this class
path and JVM is used when set-up built one; where it does not match, the JVM runs without it and says nothing. C1-only
compilation halves a small run and loses beyond about a minute, so it is chosen by what is pending, and always with a
code cache that it cannot fill.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tidegate.embedded import archive, jars
from tidegate.environment import Environment
from tidegate.errors import SetupError
from tidegate.request import RunRequest

_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")


def submit_conf(environment: Environment, *, small: bool) -> dict[str, str]:
    """Settings for ``spark-submit`` that only work before the driver's JVM starts.

    Args:
        environment: Places and limits.
        small: Little is pending: compile with C1 only.

    Raises:
        SetupError: The jars are not there; says how to fetch them.
    """
    if jars.missing(environment.project):
        raise SetupError("the Spark jars are not there yet; run `make setup` (it fetches them once, with checksums)")
    options = [*archive.options(environment.project), *(_QUICK if small else ())]
    conf = {
        "spark.driver.extraClassPath": jars.class_path(environment.project, "spark"),
        "spark.driver.memory": environment.driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.pyspark.python": sys.executable,
    }
    if options:
        conf["spark.driver.extraJavaOptions"] = " ".join(options)
    return conf


def submit_environment(environment: Environment) -> dict[str, str]:
    """Environment variables that the job needs beside its caller's."""
    return {
        **environment.variables(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Without it the script's own folder comes first and a user's `kafka.py` would shadow the library.
        "PYTHONSAFEPATH": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "GX_ANALYTICS_ENABLED": "false",
    }


def application(environment: Environment) -> Path:
    """The script that spark-submit runs."""
    return environment.project / "spark_jobs" / "run_pipeline.py"


def arguments(request: RunRequest, request_id: str, attempt: str) -> list[str]:
    """What the script is given: ids only."""
    return ["--dag-id", request.dag_id, "--run-key", request.run_key, "--request", request_id, "--attempt", attempt]


def command(environment: Environment, request: RunRequest, request_id: str, attempt: str) -> list[str]:
    """The whole ``spark-submit`` command of one attempt, for a run without Airflow."""
    submit = Path(sys.executable).parent / "spark-submit"
    conf = submit_conf(environment, small=request.small)
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    return [
        str(submit),
        "--master",
        environment.master,
        "--name",
        f"tidegate {request.dag_id}",
        *settings,
        str(application(environment)),
        *arguments(request, request_id, attempt),
    ]


def start(
    environment: Environment, request: RunRequest, request_id: str, attempt: str, log: Path
) -> subprocess.Popen[bytes]:
    """Start one attempt in a process group of its own, its raw output in ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command(environment, request, request_id, attempt),
            env={**os.environ, **submit_environment(environment)},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
