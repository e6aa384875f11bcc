"""The Spark settings that request memory, cores and executors for an application: the pipeline's, else the environment's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
_ON_CLUSTERS = ("spark.executor.", "spark.dynamicAllocation.", "spark.locality.", "spark.pyspark.")


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """The resources that an application requests from one master."""

    master: str
    conf: Mapping[str, str]
    """For spark-submit."""
    not_applicable: tuple[str, ...]
    """What is declared or set and means nothing on this master: fields of `Resources` and keys of its ``conf``."""

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
        driver_on_cluster: In the cluster mode of YARN and Kubernetes.
    """
    master = master or environment.master
    settings = {"spark.driver_memory": environment.driver_memory, **dict(environment.resource_settings)}
    given = {name: value for name in _KEYS if (value := _declared(resources, name) or settings.get(f"spark.{name}"))}
    more = dict(resources.conf) if resources is not None else {}
    conf: dict[str, str] = {}
    left: list[str] = []
    for name, value in given.items():
        applies = driver_on_cluster if name == "driver_cores" else _applies(_KEYS[name][0], master)
        if applies:
            conf |= dict.fromkeys(_KEYS[name], value)
        else:
            left.append(name)
    for key, value in more.items():
        if _applies(key, master):
            conf[key] = value
        else:
            left.append(key)
    return Allocation(master=master, conf=_as_the_master_counts(conf, master), not_applicable=tuple(left))


def _declared(resources: Resources | None, name: str) -> str:
    """A field as Spark writes it; empty if it is not declared."""
    value = getattr(resources, name, None)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _applies(key: str, master: str) -> bool:
    if key.startswith("spark.kubernetes."):
        return master.startswith("k8s")
    if key.startswith("spark.yarn."):
        return master.startswith("yarn")
    return not (master.startswith("local") and key.startswith(_ON_CLUSTERS))


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
