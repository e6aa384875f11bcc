"""Asks YARN's resource manager for an application, by its REST API.

Needs no connection of Airflow and no lake: what it needs is in a trigger, which another process runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.advice import Edit, OutsideAct, Then
from tidegate.airflow.cluster import FORGOTTEN, End
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.errors import MachineUnavailableError, SetupError

ANSWER_SECONDS = 30.0
_ENDED = ("FINISHED", "FAILED", "KILLED")


@dataclass(frozen=True)
class Yarn:
    """One resource manager."""

    address: str
    """Of its web application, for example ``http://manager:8088``."""
    kerberos: bool = False
    """Whether requests need the ticket of this process."""

    @classmethod
    def of(cls, connection: SparkConnection) -> Yarn | None:
        """That of a connection; None where it names none."""
        address = connection.resource_manager
        if not connection.is_cluster_mode or not connection.master.startswith("yarn") or address is None:
            return None
        address = address.strip().rstrip("/")
        return cls(
            address if "://" in address else f"http://{address}", bool(connection.keytab and connection.principal)
        )

    def end(self, application: str) -> End | None:
        """How an application ended; None while it waits or runs.

        Raises:
            MachineUnavailableError: The resource manager does not answer. Transient.
            SetupError: A package that it needs is missing.
        """
        answer = self._send("GET", f"/{application}")
        if answer.status_code == 404:
            return End(state=FORGOTTEN)
        if not answer.ok:
            raise self._unavailable(f"answers {answer.status_code} when it is asked for {application}")
        try:
            app = answer.json()["app"]
            state, result = str(app["state"]), str(app.get("finalStatus", ""))
        except (ValueError, KeyError, TypeError):
            raise self._unavailable(f"does not say how {application} is") from None
        if state not in _ENDED:
            return None
        return End(
            state=state,
            result=result if state == "FINISHED" else "",
            diagnostics=str(app.get("diagnostics") or ""),
            succeeded=(state, result) == ("FINISHED", "SUCCEEDED"),
        )

    def is_alive(self, application: str) -> bool:
        """Whether an application waits or runs; raises as `end`."""
        return self.end(application) is None

    def kill(self, application: str) -> None:
        """Let YARN end an application; raises as `end`."""
        answer = self._send("PUT", f"/{application}/state", json={"state": "KILLED"})
        if not answer.ok and answer.status_code != 404:
            raise self._unavailable(f"answers {answer.status_code} when it is to kill {application}")

    def output_command(self, application: str) -> str:
        """As `DriverCluster.output_command`."""
        return f"yarn logs -applicationId {application}"

    def poll_seconds(self) -> float:
        """A question is one small request."""
        return 5.0

    def _send(self, method: str, path: str, **content: Any) -> Any:
        import requests

        url = f"{self.address}/ws/v1/cluster/apps{path}"
        try:
            return requests.request(method, url, auth=self._auth(), timeout=ANSWER_SECONDS, **content)
        except requests.exceptions.RequestException as error:
            raise self._unavailable(f"does not answer ({type(error).__name__})") from error

    def _auth(self) -> Any:
        if not self.kerberos:
            return None
        try:
            from requests_kerberos import HTTPKerberosAuth
        except ImportError:
            raise SetupError(
                "the connection has a keytab, and the package requests-kerberos, by which YARN is asked, is missing",
                Edit("install requests-kerberos where Airflow runs", "setting"),
            ) from None
        return HTTPKerberosAuth()

    def _unavailable(self, what: str) -> MachineUnavailableError:
        return MachineUnavailableError(
            f"YARN's resource manager at {self.address} {what}",
            Then(OutsideAct("see whether it runs, and whether this machine may ask it"), OutsideAct("try again")),
        )
