"""The Airflow connection of type Spark: where jobs are submitted, and with which options. Needs no provider.

Its fields have the meaning that Airflow's Spark provider gives them, so that a connection works with and without it.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Self

from airflow.sdk import BaseHook

from tidegate.airflow.compat import AirflowNotFoundException
from tidegate.airflow.failure import TaskFailure
from tidegate.errors import EX_CONFIG

_PROGRAMS = ("spark-submit", "spark2-submit", "spark3-submit")
_HOST_IS_MASTER = ("spark", "generic", "")
"""Types of connections whose host is the whole master, such as ``local[2]``; of others the type is its scheme."""


@dataclass(frozen=True, kw_only=True)
class SparkConnection:
    """One connection."""

    conn_id: str
    master: str
    """``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://…``."""
    deploy_mode: str = "client"
    program: str = "spark-submit"
    """The name of the program that submits."""
    queue: str | None = None
    """Of YARN."""
    namespace: str | None = None
    """Of Kubernetes."""
    principal: str | None = None
    """Of Kerberos."""
    keytab: bytes | None = field(default=None, repr=False)
    resource_manager: str | None = None
    """The URL of YARN's resource manager."""

    @classmethod
    def read(cls, conn_id: str) -> Self:
        """Ask Airflow for a connection.

        Raises:
            TaskFailure: There is none, or an option of it is wrong.
        """
        try:
            connection = BaseHook.get_connection(conn_id)
        except AirflowNotFoundException:
            raise TaskFailure(
                f"there is no Airflow connection {conn_id!r}; create one of type Spark with the master, "
                'for example host \'local[2]\' with the extra {"deploy-mode": "client"}',
                # Airflow says the same when its API server does not answer.
                retry=True,
                exit_code=EX_CONFIG,
            ) from None
        extra = connection.extra_dejson
        return cls(
            conn_id=conn_id,
            master=_master(connection),
            deploy_mode=_one_of(conn_id, extra, "deploy-mode", ("client", "cluster")),
            program=_one_of(conn_id, extra, "spark-binary", _PROGRAMS),
            queue=extra.get("queue") or None,
            namespace=extra.get("namespace") or None,
            principal=extra.get("principal") or None,
            keytab=_keytab(conn_id, extra.get("keytab")),
            resource_manager=extra.get("yarn_resourcemanager_webapp_address") or None,
        )

    @property
    def is_cluster_mode(self) -> bool:
        """Whether the driver runs on the cluster, and outlives spark-submit."""
        return self.deploy_mode == "cluster"


def _master(connection: Any) -> str:
    host, port = connection.host or "", f":{connection.port}" if connection.port else ""
    # Of a connection that was written as a URI the type is the scheme: spark://master:7077, k8s://cluster:6443.
    if (connection.conn_type or "") in _HOST_IS_MASTER and host and ("://" in host or not port):
        return f"{host}{port}"
    return f"{connection.conn_type}://{host}{port}"


def _one_of(conn_id: str, extra: dict[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = extra.get(name) or allowed[0]
    if value not in allowed:
        raise TaskFailure(
            f"connection {conn_id!r}: the extra {name!r} is {value!r}; set it to one of {', '.join(allowed)}",
            exit_code=EX_CONFIG,
        )
    return str(value)


def _keytab(conn_id: str, value: str | None) -> bytes | None:
    try:
        return base64.b64decode(value) if value else None
    except binascii.Error:
        raise TaskFailure(
            f"connection {conn_id!r}: the extra 'keytab' is not the content of a keytab in base64; write it anew with `base64 FILE`",
            exit_code=EX_CONFIG,
        ) from None
