"""Starts a job: the settings that must be known before the JVM starts, and the command. Imports no Spark.

The jars are on the driver's class path: those of the lock, in the cache of this user, which gets those that it lacks before
the first job. Executors of a cluster get them from the driver, with the code (`tidegate.runtime.project_archive`). If there is a
class data archive for exactly this class path and JVM, it is used; the JVM silently ignores one that does not match. C1-only compilation
halves the duration of a small run but is slower for runs of more than about a minute, so it depends on the backlog; it always gets a code
cache that is large enough for it.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidegate.environment import Environment, references
from tidegate.environment.settings import CONNECTION, IAM, SETTINGS
from tidegate.errors import SetupError
from tidegate.requests.request import RunRequest
from tidegate.requests.resources import DRIVER_MASTER, Allocation, allocation
from tidegate.runtime import archive, jars, java, job_environment, repository, s3a
from tidegate.runtime.project_archive import FOLDER
from tidegate.store.location import BucketFolder
from tidegate.store.s3 import S3Server

if TYPE_CHECKING:
    from tidegate.spec.resources import Resources

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
# Adaptive execution plans a query again after each shuffle. That takes a third of a small run's time and changes nothing
# with four small partitions. `tidegate.spark.lake.writes` enables it again for a MERGE into a large table.
_STATIC = {"spark.sql.adaptive.enabled": "false"}
# In bytes: the JVM compiles no larger method, and interprets it. Spark's default (65535) leaves the casts of a wide record so.
_COMPILED = {"spark.sql.codegen.hugeMethodLimit": "8000"}
ONLY_C1 = "-XX:TieredStopAtLevel=1"
"""The option of the JVM of a small run."""
SECRET = "TIDEGATE_SECRET__"
"""How the names of variables begin that have a secret."""
_WITH_SECRETS = tuple(
    each.variable.partition("<NAME>")[0] for each in SETTINGS if {"env", CONNECTION} <= set(each.references)
)
_QUICK = (ONLY_C1, "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")


def jar_sets(environment: Environment) -> tuple[str, ...]:
    """The sets of jars that the jobs of a deployment need."""
    has_iam = _has_iam(environment)
    buckets = ("s3",) if has_iam or _has_bucket(environment) else ()
    return ("spark", *buckets, *(("msk",) if has_iam else ()))


def prepare(environment: Environment, say: Callable[[str], None] = log.info) -> None:
    """Check that the environment of the jobs can run one, and fetch the jars that this machine lacks; without any, this reads their sizes.

    Raises:
        SetupError: As `JobEnvironment.spark_submit` and `repository.fetch`.
    """
    # Before a request is written, of which a run that cannot start would leave a folder.
    _ = job_environment.of(environment.job_python).spark_submit
    lacking = jars.missing(jars.of_set(environment.project, *jar_sets(environment)))
    repository.fetch(lacking, say, python=environment.job_python)


def submit_conf(
    environment: Environment, *, small: bool, master: str | None = None, resources: Allocation | None = None
) -> dict[str, str]:
    """Settings for ``spark-submit`` that only work before the driver's JVM starts.

    Args:
        small: The backlog is small: compile with C1 only and disable adaptive execution.
        master: Spark's master, if not the environment's.
        resources: What the application requests from this master; by default as in the environment.

    Raises:
        SetupError: The jars are missing.
    """
    options = [*archive.options(environment.project, environment.job_python), *(_QUICK if small else ())]
    master = master or environment.master
    resources = resources or allocation(environment, None, master=master)
    conf = {
        "spark.driver.extraClassPath": jars.class_path(environment.project, "spark"),
        "spark.pyspark.driver.python": str(environment.job_python),
        "spark.pyspark.python": str(environment.job_python),
        **resources.conf,
        "spark.ui.enabled": "false",
        # Hadoop has its own umask, which could create files that more users may read than this process's umask allows.
        "spark.hadoop.fs.permissions.umask-mode": f"{_umask():03o}",
    }
    if _on_this_machine(master) and not resources.driver_in_pod:
        conf |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    # Not on the class path, for which the class data archive is valid; Spark gives them to each executor.
    added = [jar for name in jar_sets(environment)[1:] for jar in jars.files(environment.project, name)]
    added.append(jars.OWN_JAR)
    conf |= _STATIC if small else _COMPILED
    if server := _server(environment):
        lake = isinstance(environment.lake_at, BucketFolder)
        conf |= s3a.conf(server, checkpoints=lake)
    if _has_iam(environment):
        # AWS' SDK for Java, of which buckets have the modules, signs for the region that this variable names.
        conf["spark.executorEnv.AWS_REGION"] = environment.s3_region
    if conf.get(DRIVER_MASTER, master).startswith("local"):
        conf["spark.python.daemon.module"] = "tidegate.spark.worker_daemon"
    else:
        added = [*jars.files(environment.project, "spark"), *added]
        handed_on = {"PYTHONPATH": FOLDER, **(server.handed_on if server else {})}
        conf |= {f"spark.executorEnv.{name}": value for name, value in handed_on.items()}
    conf["spark.jars"] = ",".join(resources.path_for_driver(jar) for jar in added)
    if options:
        conf["spark.driver.extraJavaOptions"] = " ".join(options)
    return conf


def submit_environment(environment: Environment, *, master: str | None = None) -> dict[str, str]:
    """Environment variables that the job needs in addition to those of its caller.

    Args:
        master: Spark's master, if not the environment's.

    Raises:
        MissingJavaError: There is no Java.
    """
    local = {"SPARK_LOCAL_IP": _LOOPBACK} if _on_this_machine(master or environment.master) else {}
    # The job imports the project's declarations and transforms from its folder, wherever the platform is installed.
    folders = [str(environment.project), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **environment.variables(),
        **_secrets_of_airflow(environment),
        **java.find(python=environment.job_python).variables,
        **local,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(folders)),
        # AWS' SDK for Java knows no AWS_DEFAULT_REGION, and without a region asks another STS than AWS_ENDPOINT_URL_STS names.
        **({"AWS_REGION": region} if (region := _region(environment)) else {}),
        "PYSPARK_PYTHON": str(environment.job_python),
        "PYSPARK_DRIVER_PYTHON": str(environment.job_python),
        # Without it the script's folder is first on sys.path, where a user's `kafka.py` would shadow the library.
        "PYTHONSAFEPATH": "1",
        "GX_ANALYTICS_ENABLED": "false",
    }


def _secrets_of_airflow(environment: Environment) -> dict[str, str]:
    """The secrets that only this process resolves, as variables of the job, and the references to these.

    One that is not there is an error of the flows that need it.
    """
    passed: dict[str, str] = {}
    for variable, reference in environment.variables().items():
        if not reference.startswith(f"{CONNECTION}:") or not variable.startswith(_WITH_SECRETS):
            continue
        with suppress(SetupError):
            secret = f"{SECRET}{variable.removeprefix('TIDEGATE_')}"
            passed |= {secret: references.resolve(variable, reference), variable: f"env:{secret}"}
    return passed


def _server(environment: Environment) -> S3Server | None:
    """The server of lake or landing zone; None if neither is in a bucket."""
    return S3Server({**os.environ, **environment.variables()}) if _has_bucket(environment) else None


def _has_bucket(environment: Environment) -> bool:
    return any(isinstance(each, BucketFolder) for each in (environment.lake_at, environment.landing_at))


def _has_iam(environment: Environment) -> bool:
    return any(key.endswith(".mechanism") and text == IAM for key, text in environment.kafka_settings)


def _region(environment: Environment) -> str:
    """Of the buckets and of the clusters of Kafka with `IAM`; empty for none."""
    server = _server(environment)
    if server is not None:
        return server.region
    return environment.s3_region if _has_iam(environment) else ""


def _on_this_machine(master: str) -> bool:
    """Whether the whole of Spark runs on this machine, so that the driver can listen on the loopback interface only."""
    host = urlsplit(master).hostname
    return master.startswith("local") or host in (_LOOPBACK, "localhost")


def _umask() -> int:
    """The umask of this process; reading it requires setting one."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def application() -> Path:
    """The script that spark-submit runs."""
    return Path(__file__).parents[1] / "spark" / "run_pipeline.py"


def arguments(request: RunRequest, request_id: str, attempt: str, *, recorded: bool = False) -> list[str]:
    """The arguments of the script: ids only, the request itself is in the lake.

    Args:
        recorded: Whether the attempt is recorded in the lake (`tidegate.checkpoints.recorded_attempt`): that of a driver on a cluster.
    """
    ids = ["--dag-id", request.dag_id, "--run-key", request.run_key, "--request", request_id, "--attempt", attempt]
    return ["--recorded", *ids] if recorded else ids


def command(
    environment: Environment, request: RunRequest, request_id: str, attempt: str, resources: Resources | None = None
) -> list[str]:
    """The full ``spark-submit`` command of one attempt, for a run without Airflow."""
    submit = job_environment.of(environment.job_python).spark_submit
    conf = submit_conf(environment, small=request.small, resources=allocation(environment, resources))
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    return [
        str(submit),
        "--master",
        environment.master,
        "--name",
        f"tidegate {request.dag_id}",
        *settings,
        str(application()),
        *arguments(request, request_id, attempt),
    ]


def start(
    environment: Environment,
    request: RunRequest,
    request_id: str,
    attempt: str,
    log: Path,
    resources: Resources | None = None,
) -> subprocess.Popen[bytes]:
    """Start one attempt in a process group of its own and append its output to ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command(environment, request, request_id, attempt, resources),
            env={**os.environ, **submit_environment(environment)},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
