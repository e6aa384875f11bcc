"""Where things are and how large this machine is: read once from environment variables, never from a run's input.

============================  =================================================  ==============================
variable                      meaning                                            without it
============================  =================================================  ==============================
``TIDEGATE_PROJECT``          the project's folder                               the folder this package lies in
``TIDEGATE_LAKE``             root of tables, checkpoints, reports               ``<project>/.data/lake``
``TIDEGATE_LANDING``          root of the file landing zones                     ``<project>/.data/landing``
``TIDEGATE_KAFKA``            bootstrap servers                                  ``127.0.0.1:9092``
``TIDEGATE_REGISTRY``         address of a schema registry for Kafka values      none
``TIDEGATE_MASTER``           Spark master of ``tidegate run``                   ``local[2]``
``TIDEGATE_DRIVER_MEMORY``    heap of the driver                                 ``2g``
``TIDEGATE_SPARK_HISTORY``    URL of the Spark history server that pages link    no link
``TIDEGATE_CACHE``            jars that `make setup` fetched, for all clones     ``~/.cache/tidegate``, or where XDG says
============================  =================================================  ==============================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tidegate.errors import SetupError


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The places and limits of one deployment."""

    project: Path
    lake: Path
    landing: Path
    kafka: str
    registry: str = ""
    master: str = "local[2]"
    driver_memory: str = "2g"
    spark_history: str | None = None

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Self:
        """From environment variables.

        Args:
            variables: Instead of the process's own.

        Raises:
            SetupError: A place is not on a local file system; the lease holds only there for now. Or a URL is none.
        """
        given = os.environ if variables is None else variables
        project = Path(given.get("TIDEGATE_PROJECT") or Path(__file__).resolve().parent.parent)
        return cls(
            project=project,
            lake=_local("TIDEGATE_LAKE", given.get("TIDEGATE_LAKE") or str(project / ".data/lake")),
            landing=_local("TIDEGATE_LANDING", given.get("TIDEGATE_LANDING") or str(project / ".data/landing")),
            kafka=given.get("TIDEGATE_KAFKA") or "127.0.0.1:9092",
            registry=given.get("TIDEGATE_REGISTRY") or "",
            master=given.get("TIDEGATE_MASTER") or "local[2]",
            driver_memory=given.get("TIDEGATE_DRIVER_MEMORY") or "2g",
            spark_history=_web("TIDEGATE_SPARK_HISTORY", given.get("TIDEGATE_SPARK_HISTORY")),
        )

    def variables(self) -> dict[str, str]:
        """What a child process needs in order to read the same environment."""
        return {
            "TIDEGATE_PROJECT": str(self.project),
            "TIDEGATE_LAKE": str(self.lake),
            "TIDEGATE_LANDING": str(self.landing),
            "TIDEGATE_KAFKA": self.kafka,
            "TIDEGATE_REGISTRY": self.registry,
            "TIDEGATE_MASTER": self.master,
            "TIDEGATE_DRIVER_MEMORY": self.driver_memory,
            "TIDEGATE_SPARK_HISTORY": self.spark_history or "",
        }


def _local(name: str, value: str) -> Path:
    scheme, separator, rest = value.partition("://")
    if not separator:
        return Path(value).absolute()
    if scheme == "file" and rest.startswith("/"):
        return Path(rest)
    raise SetupError(
        f"{name}={value!r} is not on a local file system. One writer per table is kept by a file lock, which other "
        "storage does not have; give a local or mounted POSIX path."
    )


def _web(name: str, value: str | None) -> str | None:
    if not value:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(f"{name}={value!r} is not the URL of a server; give one such as http://spark:18080")
    return value.rstrip("/")
