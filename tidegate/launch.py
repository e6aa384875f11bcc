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
from urllib.parse import urlsplit

from tidegate.embedded import archive, jars
from tidegate.environment import Environment
from tidegate.errors import SetupError
from tidegate.request import RunRequest

_LOOPBACK = "127.0.0.1"
# Adaptive execution plans a query anew behind each shuffle: a third of a small run's time, for choices that do not matter
# where four partitions hold all there is. `tidegate.spark.lake.sinks` puts it on again where a large table is merged into.
_STATIC = {"spark.sql.adaptive.enabled": "false"}
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")


def submit_conf(environment: Environment, *, small: bool, master: str | None = None) -> dict[str, str]:
    """Settings for ``spark-submit`` that only work before the driver's JVM starts.

    Args:
        environment: Places and limits.
        small: Little is pending: compile with C1 only, and plan each query once.
        master: Spark's master, where it is another than the environment's.

    Raises:
        SetupError: The jars are not there; says how to fetch them.
    """
    if jars.missing(environment.project):
        raise SetupError("the Spark jars are not there yet; run `make setup` (it fetches them once, with checksums)")
    options = [*archive.options(environment.project), *(_QUICK if small else ())]
    master = master or environment.master
    class_path = jars.class_path(environment.project, "spark")
    conf = {
        "spark.driver.extraClassPath": class_path,
        "spark.driver.memory": environment.driver_memory,
        "spark.ui.enabled": "false",
        "spark.pyspark.python": sys.executable,
        # Hadoop has a mask of its own, and would open to everybody what this process keeps to itself.
        "spark.hadoop.fs.permissions.umask-mode": f"{_umask():03o}",
    }
    if _on_this_machine(master):
        conf |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    if not master.startswith("local"):
        conf["spark.executor.extraClassPath"] = class_path
    if small:
        conf |= _STATIC
    if options:
        conf["spark.driver.extraJavaOptions"] = " ".join(options)
    return conf


def submit_environment(environment: Environment, *, master: str | None = None) -> dict[str, str]:
    """Environment variables that the job needs beside its caller's.

    Args:
        environment: Places and limits.
        master: Spark's master, where it is another than the environment's.
    """
    local = {"SPARK_LOCAL_IP": _LOOPBACK} if _on_this_machine(master or environment.master) else {}
    return {
        **environment.variables(),
        **local,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Without it the script's own folder comes first and a user's `kafka.py` would shadow the library.
        "PYTHONSAFEPATH": "1",
        "GX_ANALYTICS_ENABLED": "false",
    }


def _on_this_machine(master: str) -> bool:
    """Whether all of Spark runs here, so that nothing of it has to listen to other machines."""
    host = urlsplit(master).hostname
    return master.startswith("local") or host in (_LOOPBACK, "localhost")


def _umask() -> int:
    """The mask of this process; it can only be read by setting one."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


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
