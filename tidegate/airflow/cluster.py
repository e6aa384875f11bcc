"""A cluster that can be asked for an application whose driver it runs: `tidegate.airflow.yarn` and `tidegate.airflow.pods`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

FORGOTTEN = "FORGOTTEN"
"""The state of an application that the cluster does not know: it was removed, or ended long ago."""


@dataclass(frozen=True, kw_only=True)
class End:
    """How an application ended."""

    state: str
    """As the cluster names it, for example FINISHED, FAILED or KILLED; or `FORGOTTEN`."""
    result: str = ""
    """What the application has said of itself, if the state does not say it."""
    diagnostics: str = ""
    succeeded: bool = False
    """Whether its driver ended with 0."""

    def describe(self, application: str) -> str:
        """One line for people."""
        if self.state == FORGOTTEN:
            return f"The cluster does not know application {application} any more."
        result = f" and result {self.result}" if self.result else ""
        # Of several lines the first says what happened; a stack of the JVM follows.
        reason = f": {self.diagnostics.strip().splitlines()[0][:500]}" if self.diagnostics.strip() else ""
        return f"Application {application} ended with state {self.state}{result}{reason}"


class DriverCluster(Protocol):
    """One cluster; a frozen dataclass of JSON values, which a trigger stores. Without an answer its operations raise a transient error."""

    @property
    def address(self) -> str:
        """Where it is."""

    def end(self, application: str) -> End | None:
        """How an application ended; None while it waits or runs."""

    def is_alive(self, application: str) -> bool:
        """Whether an application waits or runs."""

    def kill(self, application: str) -> None:
        """Let the cluster end an application; one that has ended is left as it is."""

    def output_command(self, application: str) -> str:
        """The command by which people see what a driver has printed."""

    def poll_seconds(self) -> float:
        """The pause between two questions for the end of an application."""
