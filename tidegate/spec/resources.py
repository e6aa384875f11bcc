"""The resources that the Spark application of a pipeline requests. Only pipelines that declare them import this module."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.errors import FieldError
from tidegate.spec.checks import check_positive, fits

CONF = (
    "spark.driver.maxResultSize",
    "spark.driver.memoryOverhead",
    "spark.driver.memoryOverheadFactor",
    "spark.dynamicAllocation.executorIdleTimeout",
    "spark.dynamicAllocation.initialExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.executor.memoryOverhead",
    "spark.executor.memoryOverheadFactor",
    "spark.kubernetes.authenticate.driver.serviceAccountName",
    "spark.kubernetes.container.image",
    "spark.kubernetes.driver.limit.cores",
    "spark.kubernetes.driver.request.cores",
    "spark.kubernetes.executor.limit.cores",
    "spark.kubernetes.executor.request.cores",
    "spark.locality.wait",
    "spark.memory.fraction",
    "spark.memory.storageFraction",
    "spark.network.timeout",
    "spark.reducer.maxSizeInFlight",
    "spark.task.maxFailures",
    "spark.yarn.executor.nodeLabelExpression",
)
"""The keys that ``conf`` may have. None of them changes which rows are read or written, or what code a process loads."""
_SIZE = re.compile(r"[1-9][0-9]{0,9}[kmgt]", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What the application of a pipeline requests.

    What is None is as in the settings (``spark.driver_memory``, ``spark.executors``, …), else Spark's own default. A run is one application
    for all of its flows (docs/adr/0010), so a flow has no resources of its own. A key that does not apply to the master is left out, and
    plans name it: on a local master all that is about executors.
    """

    driver_memory: str | None = None
    """Heap of the driver, such as ``4g``."""
    driver_cores: int | None = None
    """Only for a driver on the cluster."""
    executors: int | None = None
    """How many; with ``dynamic`` how many at most."""
    executor_memory: str | None = None
    executor_cores: int | None = None
    """On a standalone cluster 1, if ``executors`` is given."""
    dynamic: bool | None = None
    """Executors are started and ended with the tasks that wait. Needs no shuffle service."""
    pod_template: str | None = None
    """A file with the template of pods, for Kubernetes: of the driver and of executors."""
    conf: Mapping[str, str] = field(default_factory=dict, hash=False)
    """More settings of Spark: sizes, limits and timeouts. Other keys are refused, with the nearest one that is allowed."""

    def __post_init__(self) -> None:
        for name in ("driver_memory", "executor_memory"):
            value = getattr(self, name)
            if value is not None and not fits(_SIZE, value):
                raise FieldError("Resources", name, value, "a size such as 4g or 1500m")
        for name in ("driver_cores", "executors", "executor_cores"):
            if getattr(self, name) is not None:
                check_positive(self, name, getattr(self, name))
        if self.dynamic is not None and not isinstance(self.dynamic, bool):
            raise FieldError("Resources", "dynamic", self.dynamic, "True or False")
        if self.pod_template is not None and not _is_line(self.pod_template):
            raise FieldError("Resources", "pod_template", self.pod_template, "the path of a file")
        if not isinstance(self.conf, Mapping):
            raise FieldError("Resources", "conf", self.conf, "a dict of texts")
        for key, value in self.conf.items():
            if key not in CONF:
                raise FieldError("Resources", "conf", key, _nearest(key))
            if not _is_line(value):
                raise FieldError("Resources", f"conf[{key!r}]", value, "a text of one line")


def check_resources(owner: str, value: object) -> None:
    """Refuse what is no `Resources`."""
    if not isinstance(value, Resources):
        raise FieldError(owner, "resources", value, "Resources(…)")


def _is_line(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _nearest(key: object) -> str:
    near = difflib.get_close_matches(str(key), CONF, 1, 0.75)
    return f"{near[0]}, or another one of docs/guides/settings.md" if near else ", ".join(CONF)
