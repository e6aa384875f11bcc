"""The Spark settings that request memory, cores and executors for an application: the pipeline's, else the environment's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.spec.resources import Resources

_KEYS = {
    "driver_memory": ("spark.driver.memory",),
    "driver_cores": ("spark.driver.cores",),
    "executors": ("spark.executor.instances",),
    "executor_memory": ("spark.executor.memory",),
    "executor_cores": ("spark.executor.cores",),
    "dynamic": ("spark.dynamicAllocation.enabled",),
    "executor_python": ("spark.pyspark.python",),
    "pod_template": ("spark.kubernetes.driver.podTemplateFile", "spark.kubernetes.executor.podTemplateFile"),
}
"""Spark's keys of each field of `Resources`, and of the environment alone; the settings have the same names after ``spark.``."""
DRIVER_MASTER = "spark.kubernetes.driver.master"
"""The master of a driver in a pod: a local one where no executors are requested, so that the application is one pod."""
_ON_CLUSTERS = ("spark.executor.", "spark.dynamicAllocation.", "spark.locality.", "spark.pyspark.")


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """The resources that an application requests from one master."""

    master: str
    conf: Mapping[str, str]
    """For spark-submit."""
    not_applicable: tuple[str, ...]
    """What is declared or set and means nothing on this master: fields of `Resources` and keys of its ``conf``."""
    driver_in_pod: bool = False
    """Whether Kubernetes starts the driver, from an image that has all files under the paths of this machine."""

    def path_for_driver(self, path: Path) -> str:
        """A file as spark-submit takes it: it would upload a plain path for a driver in a pod."""
        return f"local://{path}" if self.driver_in_pod else str(path)

    def line(self) -> str:
        """For messages."""
        settings = ", ".join(f"{key.removeprefix('spark.')} {value}" for key, value in self.conf.items())
        left = f"; not applicable there: {', '.join(self.not_applicable)}" if self.not_applicable else ""
        return f"requests {settings} from {self.master}{left}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"master": self.master, "conf": dict(self.conf), "not_applicable": list(self.not_applicable)}


def allocation(
    environment: Environment, resources: Resources | None, *, master: str | None = None, driver_on_cluster: bool = False
) -> Allocation:
    """The resources that the application of a pipeline requests.

    Args:
        resources: The pipeline's.
        master: Spark's master, if not the environment's.
        driver_on_cluster: In the cluster mode of YARN and Kubernetes. On Kubernetes a driver without executors, whose number is neither
            given nor dynamic, runs the tasks by itself.
    """
    master = master or environment.master
    settings = {"spark.driver_memory": environment.driver_memory, **dict(environment.resource_settings)}
    given = {name: value for name in _KEYS if (value := _declared(resources, name) or settings.get(f"spark.{name}"))}
    in_pod = driver_on_cluster and master.startswith("k8s")
    alone = in_pod and not _has_executors(given)
    more = dict(resources.conf) if resources is not None else {}
    conf: dict[str, str] = {}
    left: list[str] = []
    for name, value in given.items():
        applies = driver_on_cluster if name == "driver_cores" else _applies(_KEYS[name][0], master, alone=alone)
        if applies:
            conf |= dict.fromkeys(_KEYS[name], value)
        else:
            left.append(name)
    for key, value in more.items():
        if _applies(key, master, alone=alone):
            conf[key] = value
        else:
            left.append(key)
    if alone:
        conf[DRIVER_MASTER] = f"local[{given.get('driver_cores', 1)}]"
    conf = _as_the_master_counts(conf, master)
    return Allocation(master=master, conf=conf, not_applicable=tuple(left), driver_in_pod=in_pod)


def _declared(resources: Resources | None, name: str) -> str:
    """A field as Spark writes it; empty if it is not declared."""
    value = getattr(resources, name, None)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _has_executors(given: Mapping[str, str]) -> bool:
    return "executors" in given or given.get("dynamic") == "true"


def _applies(key: str, master: str, *, alone: bool) -> bool:
    """Whether a setting means something on a master.

    Args:
        alone: Whether the driver has no executors beside it.
    """
    if key.startswith("spark.kubernetes."):
        return master.startswith("k8s")
    if key.startswith("spark.yarn."):
        return master.startswith("yarn")
    return not ((alone or master.startswith("local")) and key.startswith(_ON_CLUSTERS))


def _as_the_master_counts(conf: dict[str, str], master: str) -> dict[str, str]:
    """With dynamic allocation a number of executors is the most; a standalone master counts cores, not executors."""
    executors = conf.get("spark.executor.instances")
    if executors and master.startswith("spark://"):
        # Without a number each executor gets all cores of its worker.
        conf.setdefault("spark.executor.cores", "1")
        conf["spark.cores.max"] = str(int(executors) * int(conf["spark.executor.cores"]))
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        # Files of shuffles stay with the executors that have them, so no service of the cluster is needed.
        conf["spark.dynamicAllocation.shuffleTracking.enabled"] = "true"
        if executors:
            conf["spark.dynamicAllocation.maxExecutors"] = conf.pop("spark.executor.instances")
    return conf
