"""The processes that stand in for containers of pods: the entrypoint of the shipped image, with the folder of the pod."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devstack.ports import LOOPBACK
from tests.standalone import QUICK_JAVA
from tidegate.runtime import java

TOKEN, AUTHORITY = "token", "ca.crt"
"""Files of a driver: of its account, and of the API server."""
_ENTRYPOINT = Path(__file__).parents[1] / "deploy" / "entrypoint.sh"
_ACCOUNT = "spark.kubernetes.authenticate.driver.mounted"
_SERVICE = re.compile(r"[\w-]+-driver-svc\.[\w-]+\.svc")


def is_driver(container: Mapping[str, Any]) -> bool:
    """Whether a container is that of a driver, not of an executor."""
    return bool(container["args"][0] == "driver")


def command(container: Mapping[str, Any], folder: Path) -> list[str]:
    """The command of a container, in whose folder volumes are mounted."""
    words = [_of_this_machine(word, container, folder) for word in container["args"]]
    if is_driver(container):
        account = {"oauthTokenFile": TOKEN, "caCertFile": AUTHORITY}
        words[1:1] = [word for key, file in account.items() for word in ("--conf", f"{_ACCOUNT}.{key}={folder / file}")]
    return [str(_ENTRYPOINT), *words]


def mount(volume: Mapping[str, Any], data: Mapping[str, str], container: Mapping[str, Any], folder: Path) -> None:
    """Write the files of a volume that has settings."""
    items = volume["configMap"].get("items") or [{"key": key, "path": key} for key in data]
    (folder / volume["name"]).mkdir(exist_ok=True)
    for item in items:
        text = _of_this_machine(data[item["key"]], container, folder)
        (folder / volume["name"] / item["path"]).write_text(text)


def _of_this_machine(text: str, container: Mapping[str, Any], folder: Path) -> str:
    """A text of a container with the paths of its volumes and the names of services as they are here."""
    for each in container.get("volumeMounts", []):
        text = text.replace(each["mountPath"], str(folder / each["name"]))
    return _SERVICE.sub(LOOPBACK, text)


def variables(pod: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """The environment of the container of a pod: that of its image, and what it is given."""
    fields = {"status.podIP": LOOPBACK, "metadata.name": pod["metadata"]["name"]}
    image = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "JAVA_HOME": str(java.find().executable.resolve().parents[1]),
        "JAVA_TOOL_OPTIONS": QUICK_JAVA,
    }
    given = {
        each["name"]: fields[each["valueFrom"]["fieldRef"]["fieldPath"]] if "valueFrom" in each else each.get("value")
        for each in pod["spec"]["containers"][0]["env"]
    }
    # The settings of a driver are where they are mounted; `command` has them.
    given.pop("SPARK_CONF_DIR", None)
    return {**image, **{key: value for key, value in given.items() if value}, "SPARK_LOCAL_DIRS": str(folder)}
