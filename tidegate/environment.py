"""Locations and resource limits of a deployment: read once from environment variables, never from a run's input.

==============================  =================================================  ==============================
variable                        meaning                                            without it
==============================  =================================================  ==============================
``TIDEGATE_PROJECT``            the project's folder                               the folder of this package
``TIDEGATE_LAKE``               root of tables, checkpoints, reports               ``<project>/.data/lake``
``TIDEGATE_LANDING``            root of the file landing zones                     ``<project>/.data/landing``
``TIDEGATE_KAFKA``              bootstrap servers                                  ``127.0.0.1:9092``
``TIDEGATE_REGISTRY``           URL of a schema registry for Kafka values          none
``TIDEGATE_MASTER``             Spark master of ``tidegate run``                   ``local[2]``
``TIDEGATE_DRIVER_MEMORY``      heap of the driver                                 ``2g``
``TIDEGATE_CONNECTION``         Airflow connection by which DAGs submit jobs       ``spark_default``
``TIDEGATE_POOL``               Airflow pool of the tasks that submit jobs         Airflow's default
``TIDEGATE_JOB_PYTHON``         Python of the environment in which jobs run        the Python of this process
``TIDEGATE_SPARK_HISTORY``      URL of a Spark history server that pages link to   no link
``TIDEGATE_MAVEN_REPOSITORY``   Maven repository: a URL, or a folder with jars      Maven Central
``TIDEGATE_CACHE``              jars and class data archives of this user          ``$XDG_CACHE_HOME/tidegate``, or ``~/.cache/tidegate``
==============================  =================================================  ==============================

The two roots are each a path or ``s3://<bucket>/<prefix>``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tidegate.advice import Edit
from tidegate.errors import SetupError
from tidegate.store import Store
from tidegate.store.location import Location, Stores, parse_location


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The locations and limits of one deployment."""

    project: Path
    lake_at: Location
    landing_at: Location
    kafka: str
    registry: str = ""
    master: str = "local[2]"
    driver_memory: str = "2g"
    connection: str = "spark_default"
    pool: str = ""
    job_python: Path = Path(sys.executable)
    """The Python of the environment in which jobs run, which has PySpark; a process without it may start them."""
    spark_history: str | None = None
    store_of: Callable[[Location], Store] = field(default_factory=Stores, compare=False, repr=False)
    """Makes the store of the lake or of the landing zone from its root."""

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Self:
        """Read the environment variables.

        Args:
            variables: Used in place of ``os.environ``.

        Raises:
            SetupError: A location is of a kind for which there is no store, or a URL is invalid.
        """
        values = os.environ if variables is None else variables
        project = Path(values.get("TIDEGATE_PROJECT") or Path(__file__).resolve().parent.parent)
        return cls(
            project=project,
            lake_at=parse_location("TIDEGATE_LAKE", values.get("TIDEGATE_LAKE") or str(project / ".data/lake")),
            landing_at=parse_location(
                "TIDEGATE_LANDING", values.get("TIDEGATE_LANDING") or str(project / ".data/landing")
            ),
            kafka=values.get("TIDEGATE_KAFKA") or "127.0.0.1:9092",
            registry=values.get("TIDEGATE_REGISTRY") or "",
            master=values.get("TIDEGATE_MASTER") or "local[2]",
            driver_memory=values.get("TIDEGATE_DRIVER_MEMORY") or "2g",
            connection=values.get("TIDEGATE_CONNECTION") or "spark_default",
            pool=values.get("TIDEGATE_POOL") or "",
            job_python=_program("TIDEGATE_JOB_PYTHON", values.get("TIDEGATE_JOB_PYTHON")),
            spark_history=_server_url("TIDEGATE_SPARK_HISTORY", values.get("TIDEGATE_SPARK_HISTORY")),
            store_of=Stores(variables),
        )

    @property
    def lake(self) -> Path:
        """The folder of a local lake; for programs on this machine. Raises TypeError for another one."""
        return _folder(self.lake_at)

    @property
    def landing(self) -> Path:
        """The folder of local landing zones; as `lake`."""
        return _folder(self.landing_at)

    def variables(self) -> dict[str, str]:
        """The variables from which a child process reads the same environment."""
        return {
            "TIDEGATE_PROJECT": str(self.project),
            "TIDEGATE_LAKE": str(self.lake_at),
            "TIDEGATE_LANDING": str(self.landing_at),
            "TIDEGATE_KAFKA": self.kafka,
            "TIDEGATE_REGISTRY": self.registry,
            "TIDEGATE_MASTER": self.master,
            "TIDEGATE_DRIVER_MEMORY": self.driver_memory,
            "TIDEGATE_CONNECTION": self.connection,
            "TIDEGATE_POOL": self.pool,
            "TIDEGATE_JOB_PYTHON": str(self.job_python),
            "TIDEGATE_SPARK_HISTORY": self.spark_history or "",
        }


def _folder(location: Location) -> Path:
    if not isinstance(location, Path):
        raise TypeError(f"{location} is not in the local file system")
    return location


def _program(name: str, value: str | None) -> Path:
    if not value:
        return Path(sys.executable)
    path = Path(value)
    if not path.is_absolute():
        raise SetupError(
            f"{name}={value!r} is not an absolute path", Edit("set one such as /opt/jobs/bin/python", "setting")
        )
    return path


def _server_url(name: str, value: str | None) -> str | None:
    if not value:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(
            f"{name}={value!r} is not the URL of a server", Edit("set one such as http://spark:18080", "setting")
        )
    return value.rstrip("/")
