"""Applications whose driver Kubernetes starts in a pod: the cluster mode of Kubernetes, by spark-submit alone.

spark-submit creates the pod, follows it and can delete it, with the account that `KUBECONFIG` names; so neither a client of Kubernetes nor
providers of Airflow are needed. Only paths of the image are given to the driver: it has the project, the packages and the jars under the
paths of this machine.
"""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import subprocess
from pathlib import Path
from typing import Any

from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submission import Application, ApplicationError, ClientSubmission, program, variables
from tidegate.requests.launch import SECRET

_PHASE = re.compile(r"\bphase: (\w+)")
_EXIT_CODE = re.compile(r"\bexit code: (\d+)")
_REPORT_INTERVAL = "60s"
"""Of the lines by which spark-submit says that the pod runs; the end is reported at once."""


class PodSubmission(ClientSubmission):
    """Creates the pod of a driver, and follows it until it ends."""

    def __init__(self, connection: SparkConnection, log: Any) -> None:
        super().__init__(connection, log)
        self.pod = f"tidegate-{secrets.token_hex(8)}-driver"
        """The name of the pod."""
        self._phase = ""
        self._exit_code: int | None = None
        self._application: Application | None = None

    def run(self, application: Application) -> None:
        """As `Submission.run`; the driver's output is that of the pod."""
        self._application = application
        super().run(application)
        if self._phase == "Succeeded":
            return
        if self._phase == "Failed":
            raise ApplicationError(f"the driver in pod {self.pod} failed", self._exit_code)
        raise ApplicationError(f"pod {self.pod} of the driver is gone; its last phase was {self._phase or 'unknown'}")

    def kill(self) -> None:
        """End spark-submit, and let another one delete the pod, which outlives this process."""
        if self._application is not None:
            subprocess.Popen(
                [
                    program(self._connection, self._application.python),
                    *("--master", self._connection.master),
                    *("--kill", ":".join(filter(None, (self._connection.namespace, self.pod)))),
                ],
                env=variables(os.environ, self._application),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        super().kill()

    def command(self, application: Application, keytab: Path | None = None) -> list[str]:
        """As `ClientSubmission.command`: what the driver needs are settings of its pod."""
        own = {
            "spark.kubernetes.driver.pod.name": self.pod,
            "spark.kubernetes.report.interval": _REPORT_INTERVAL,
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

    def read(self, line: str) -> None:
        """As `ClientSubmission.read`: the state of the pod is in lines."""
        super().read(line)
        if phase := _PHASE.search(line):
            self._phase = phase[1]
        if code := _EXIT_CODE.search(line):
            self._exit_code = int(code[1])
