"""The processes that stand in for containers of pods: the entrypoint of the shipped image, with the folder of the pod."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devstack.ports import LOOPBACK
from tidegate.runtime import java

TOKEN, AUTHORITY = "token", "ca.crt"
"""Files of a driver: of its account, and of the API server."""
_ENTRYPOINT = Path(__file__).parents[1] / "deploy" / "entrypoint.sh"
_CONF = "/opt/spark/conf"
"""Where the container of a driver has its settings."""
_ACCOUNT = "spark.kubernetes.authenticate.driver.mounted"
_SERVICE = re.compile(r"[\w-]+-driver-svc\.[\w-]+\.svc")


def is_driver(container: Mapping[str, Any]) -> bool:
    """Whether a container is that of a driver, not of an executor."""
    return bool(container["args"][0] == "driver")


def command(container: Mapping[str, Any], folder: Path) -> list[str]:
    """The command of a container, in whose folder volumes are mounted."""
    words = list(container["args"])
    if is_driver(container):
        (mounted,) = (each["name"] for each in container["volumeMounts"] if each["mountPath"] == _CONF)
        words = [word.replace(_CONF, str(folder / mounted)) for word in words]
        account = {"oauthTokenFile": TOKEN, "caCertFile": AUTHORITY}
        words[1:1] = [word for key, file in account.items() for word in ("--conf", f"{_ACCOUNT}.{key}={folder / file}")]
    return [str(_ENTRYPOINT), *words]


def mount(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a volume. The names of services are those of this machine."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(_SERVICE.sub(LOOPBACK, text))


def variables(pod: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """The environment of the container of a pod: that of its image, and what it is given."""
    fields = {"status.podIP": LOOPBACK, "metadata.name": pod["metadata"]["name"]}
    image = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "JAVA_HOME": str(java.find().executable.resolve().parents[1]),
    }
    given = {
        each["name"]: fields[each["valueFrom"]["fieldRef"]["fieldPath"]] if "valueFrom" in each else each.get("value")
        for each in pod["spec"]["containers"][0]["env"]
    }
    # The settings of a driver are where they are mounted; `command` has them.
    given.pop("SPARK_CONF_DIR", None)
    return {**image, **{key: value for key, value in given.items() if value}, "SPARK_LOCAL_DIRS": str(folder)}
