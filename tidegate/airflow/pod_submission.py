"""Applications whose driver Kubernetes starts in a pod: the cluster mode of Kubernetes, by spark-submit alone.

spark-submit creates the pod with the account that ``KUBECONFIG`` names, and ends; `tidegate.airflow.pods` follows the pod. So neither a
client of Kubernetes nor providers of Airflow are needed. Only paths of the image are given to the driver: it has the project, the
packages and the jars under the paths of this machine.
"""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path
from typing import Any

from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submission import Application, ClientSubmission
from tidegate.requests.launch import SECRET


class PodSubmission(ClientSubmission):
    """Creates the pod of a driver."""

    def __init__(self, connection: SparkConnection, log: Any) -> None:
        super().__init__(connection, log)
        self._pod = f"tidegate-{secrets.token_hex(8)}-driver"

    @property
    def application(self) -> str:
        """As `Submission.application`, as `tidegate.airflow.pods.Pods` takes it: known before there is a pod."""
        return ":".join(filter(None, (self._connection.namespace, self._pod)))

    def command(self, application: Application, keytab: Path | None = None) -> list[str]:
        """As `ClientSubmission.command`: what the driver needs are settings of its pod."""
        own = {
            "spark.kubernetes.driver.pod.name": self._pod,
            "spark.kubernetes.submission.waitAppCompletion": "false",
            # They become settings of the application, which its pages and logs show.
            **{
                f"spark.kubernetes.driverEnv.{name}": text
                for name, text in application.variables.items()
                if not name.startswith(SECRET)
            },
        }
        script = f"local://{application.script}"
        return super().command(
            dataclasses.replace(application, conf={**application.conf, **own}, script=script), keytab
        )
