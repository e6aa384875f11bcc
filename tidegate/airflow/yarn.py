"""Asks YARN's resource manager for an application, by its REST API.

Needs no connection of Airflow and no lake: what it needs is in a trigger, which another process runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.advice import Edit, OutsideAct, Then
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.errors import MachineUnavailableError, SetupError

ANSWER_SECONDS = 30.0
_ENDED = ("FINISHED", "FAILED", "KILLED")
FORGOTTEN = "FORGOTTEN"
"""The state of an application that the resource manager does not know: it was restarted, or ended long ago."""


@dataclass(frozen=True, kw_only=True)
class End:
    """How an application ended."""

    state: str
    """Of YARN: FINISHED, FAILED or KILLED; or `FORGOTTEN`."""
    result: str = ""
    """What the application has said of itself: SUCCEEDED or FAILED."""
    diagnostics: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether its driver ended with 0."""
        return (self.state, self.result) == ("FINISHED", "SUCCEEDED")

    def describe(self, application: str) -> str:
        """One line for people."""
        if self.state == FORGOTTEN:
            return f"YARN does not know application {application} any more."
        result = f" and result {self.result}" if self.state == "FINISHED" else ""
        # Of several lines the first says what happened; a stack of the JVM follows.
        reason = f": {self.diagnostics.strip().splitlines()[0][:500]}" if self.diagnostics.strip() else ""
        return f"Application {application} ended with state {self.state}{result}{reason}"


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
        return (
            End(state=state, result=result, diagnostics=str(app.get("diagnostics") or "")) if state in _ENDED else None
        )

    def is_alive(self, application: str) -> bool:
        """Whether an application waits or runs; raises as `end`."""
        return self.end(application) is None

    def kill(self, application: str) -> None:
        """Let YARN end an application; raises as `end`."""
        answer = self._send("PUT", f"/{application}/state", json={"state": "KILLED"})
        if not answer.ok and answer.status_code != 404:
            raise self._unavailable(f"answers {answer.status_code} when it is to kill {application}")

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
