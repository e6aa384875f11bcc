"""Waits for the end of an application of YARN in Airflow's triggerer, so that no worker slot is held meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidegate.airflow.yarn import Yarn
from tidegate.errors import TidegateError

POLL_SECONDS = 5.0
PATIENCE_SECONDS = 600.0
"""So long a resource manager may not answer, for example while it is restarted."""


class ApplicationTrigger(BaseTrigger):
    """Asks the resource manager until the application has ended, and fires one event.

    Its arguments are all that it knows: another triggerer that takes it over asks the same again. It has no hook for a task that is
    cleared or marked meanwhile; the next try of the task finds the application in the lake (`tidegate.checkpoints.recorded_attempt`).

    Args:
        address: Of `Yarn`.
        kerberos: Of `Yarn`.
        application: The application.
        poll_seconds: The pause between two questions.
        patience_seconds: After how long without an answer it gives up.
    """

    def __init__(
        self,
        *,
        address: str,
        kerberos: bool,
        application: str,
        poll_seconds: float = POLL_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.address = address
        self.kerberos = kerberos
        self.application = application
        self.poll_seconds = poll_seconds
        self.patience_seconds = patience_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, as Airflow stores them."""
        names = ("address", "kerberos", "application", "poll_seconds", "patience_seconds")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: ``application``, and ``end`` with the fields of `tidegate.airflow.yarn.End`, or ``error`` with a message."""
        yarn, unanswered = Yarn(self.address, self.kerberos), 0.0
        while True:
            try:
                end = await asyncio.to_thread(yarn.end, self.application)
            except TidegateError as error:
                self.log.warning("%s", error.message)
                if not error.transient or unanswered >= self.patience_seconds:
                    yield _event(application=self.application, error=error.message)
                    return
                unanswered += self.poll_seconds
            else:
                unanswered = 0.0
                if end is not None:
                    yield _event(application=self.application, end=dataclasses.asdict(end))
                    return
            await asyncio.sleep(self.poll_seconds)


def _event(**content: Any) -> TriggerEvent:
    return TriggerEvent(content)  # type: ignore[no-untyped-call]  # untyped in Airflow
