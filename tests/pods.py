"""The processes that stand in for containers of pods: what the entrypoint of Spark's image would start, with the folder of the pod."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devstack.ports import LOOPBACK
from tidegate.runtime import java, job_environment

TOKEN, AUTHORITY = "token", "ca.crt"
"""Files of a driver: of its account, and of the API server."""
_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_CONF = "/opt/spark/conf"
"""Where the container of a driver has its settings."""
_SERVICE = re.compile(r"[\w-]+-driver-svc\.[\w-]+\.svc")


def executor(container: Mapping[str, Any], pod: str) -> list[str]:
    """The command of an executor."""
    given = _environment(container)
    options = [value for key, value in sorted(given.items()) if key.startswith("SPARK_JAVA_OPT_")]
    return [
        *(str(java.find().executable), *options, f"-Xmx{given['SPARK_EXECUTOR_MEMORY']}"),
        *("-cp", f"{job_environment.spark_home()}/jars/*", _BACKEND),
        *("--driver-url", given["SPARK_DRIVER_URL"], "--executor-id", given["SPARK_EXECUTOR_ID"]),
        *("--cores", given["SPARK_EXECUTOR_CORES"], "--app-id", given["SPARK_APPLICATION_ID"]),
        *("--hostname", LOOPBACK, "--resourceProfileId", given["SPARK_RESOURCE_PROFILE_ID"], "--podName", pod),
    ]


def driver(container: Mapping[str, Any], folder: Path) -> list[str]:
    """The command of a driver, in whose folder its settings are mounted."""
    (mounted,) = (each["name"] for each in container["volumeMounts"] if each["mountPath"] == _CONF)
    account = "spark.kubernetes.authenticate.driver.mounted"
    conf = {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executorEnv.SPARK_DRIVER_POD_IP": LOOPBACK,
        f"{account}.oauthTokenFile": str(folder / TOKEN),
        f"{account}.caCertFile": str(folder / AUTHORITY),
    }
    words = (word.replace(_CONF, str(folder / mounted)) for word in container["args"][1:])
    settings = (word for key, value in conf.items() for word in ("--conf", f"{key}={value}"))
    return [str(job_environment.spark_home() / "bin" / "spark-submit"), *settings, "--deploy-mode", "client", *words]


def mount(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a volume. The names of services are those of this machine."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(_SERVICE.sub(LOOPBACK, text))


def variables(container: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """The environment of a container: that of its image, and what it is given."""
    image = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "JAVA_HOME": str(java.find().executable.resolve().parents[1]),
        "SPARK_HOME": str(job_environment.spark_home()),
    }
    given = {key: value for key, value in _environment(container).items() if value}
    given.pop("SPARK_CONF_DIR", None)
    return {**image, **given, "SPARK_LOCAL_DIRS": str(folder)}


def _environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value") or "" for each in container["env"]}
