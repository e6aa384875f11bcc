"""Asks Kubernetes for the pod of a driver, and deletes it, by spark-submit: with the account that ``KUBECONFIG`` names.

Needs no client of Kubernetes, no connection of Airflow and no lake: what it needs is in a trigger, which another process runs.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass

from tidegate.advice import OutsideAct, Then
from tidegate.airflow.cluster import FORGOTTEN, End
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submission import without_secrets
from tidegate.errors import MachineUnavailableError

ANSWER_SECONDS = 120.0
"""For a JVM that starts, on a machine at work."""
_PHASE = re.compile(r"^\s*phase: (\w+)", re.MULTILINE)
_EXIT_CODE = re.compile(r"^\s*exit code: (\d+)", re.MULTILINE)
_UNKNOWN = ("No applications found", "Application not found")


@dataclass(frozen=True)
class Pods:
    """The pods of one Kubernetes. An application is named by its pod, with the namespace if the connection has one: ``etl:name``."""

    master: str
    program: str
    """spark-submit."""

    @classmethod
    def of(cls, connection: SparkConnection, program: str) -> Pods | None:
        """That of a connection; None where drivers are not in pods."""
        in_pods = connection.is_cluster_mode and connection.master.startswith("k8s")
        return cls(connection.master, program) if in_pods else None

    @property
    def address(self) -> str:
        """The URL of the API server."""
        return self.master.removeprefix("k8s://")

    def end(self, application: str) -> End | None:
        """How the driver in a pod ended; None while it waits or runs.

        Raises:
            MachineUnavailableError: The API server does not answer. Transient.
        """
        output = self._ask("--status", application)
        phases, codes = _PHASE.findall(output), _EXIT_CODE.findall(output)
        if phases and phases[-1] in ("Succeeded", "Failed"):
            code = f"its driver ended with exit code {codes[-1]}" if codes else ""
            return End(state=phases[-1], diagnostics=code, succeeded=phases[-1] == "Succeeded")
        if phases:
            return None
        if any(text in output for text in _UNKNOWN):
            return End(state=FORGOTTEN)
        raise self._unavailable(f"does not say how pod {application} is", output)

    def is_alive(self, application: str) -> bool:
        """Whether a driver waits or runs; raises as `end`."""
        return self.end(application) is None

    def kill(self, application: str) -> None:
        """Delete the pod of a driver; raises as `end`."""
        self._ask("--kill", application)

    def output_command(self, application: str) -> str:
        """As `DriverCluster.output_command`."""
        namespace, _, pod = application.rpartition(":")
        return f"kubectl logs {pod}" + (f" --namespace {namespace}" if namespace else "")

    def poll_seconds(self) -> float:
        """Each question starts a JVM."""
        return 20.0

    def _ask(self, question: str, application: str) -> str:
        try:
            answer = subprocess.run(
                [self.program, "--master", self.master, question, application],
                env=without_secrets(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=ANSWER_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._unavailable("does not answer", "") from None
        except OSError as error:
            raise self._unavailable(f"cannot be asked: {error}", "") from error
        if answer.returncode:
            raise self._unavailable(f"does not answer to {question} of pod {application}", answer.stdout)
        return answer.stdout

    def _unavailable(self, what: str, output: str) -> MachineUnavailableError:
        causes = [line.strip() for line in output.splitlines() if "Exception" in line or "Caused by" in line]
        reason = f" ({causes[-1][:300]})" if causes else ""
        return MachineUnavailableError(
            f"the API server of Kubernetes at {self.address} {what}{reason}",
            Then(OutsideAct("see whether it runs, and what the account of KUBECONFIG may do"), OutsideAct("try again")),
        )
