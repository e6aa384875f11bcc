"""Waits for the end of an application in Airflow's triggerer, so that no worker slot is held meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidegate.airflow.cluster import DriverCluster
from tidegate.airflow.pods import Pods
from tidegate.airflow.yarn import Yarn
from tidegate.errors import TidegateError

PATIENCE_SECONDS = 600.0
"""So long a cluster may not answer, for example while it is restarted."""
_KINDS: Mapping[str, type[Yarn | Pods]] = {"yarn": Yarn, "kubernetes": Pods}


class ApplicationTrigger(BaseTrigger):
    """Asks a cluster until an application has ended, and fires one event.

    Its arguments are all that it knows: another triggerer that takes it over asks the same again. It has no hook for a task that is
    cleared or marked meanwhile; the next try of the task finds the application in the lake (`tidegate.checkpoints.recorded_attempt`).

    Args:
        kind: Of the cluster.
        cluster: The fields of the cluster of this kind.
        application: The application.
        poll_seconds: The pause between two questions; by default that of the kind.
        patience_seconds: After how long without an answer it gives up.
    """

    def __init__(
        self,
        *,
        kind: str,
        cluster: Mapping[str, Any],
        application: str,
        poll_seconds: float | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.kind = kind
        self.cluster = dict(cluster)
        self.application = application
        self.poll_seconds = poll_seconds
        self.patience_seconds = patience_seconds

    @classmethod
    def of(cls, cluster: Yarn | Pods, application: str) -> ApplicationTrigger:
        """For an application of a cluster."""
        (kind,) = (name for name, each in _KINDS.items() if isinstance(cluster, each))
        return cls(kind=kind, cluster=dataclasses.asdict(cluster), application=application)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, as Airflow stores them."""
        names = ("kind", "cluster", "application", "poll_seconds", "patience_seconds")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: ``application``; ``end`` with the fields of `tidegate.airflow.cluster.End`, and ``output_command``; or ``error``."""
        cluster: DriverCluster = _KINDS[self.kind](**self.cluster)
        pause = cluster.poll_seconds() if self.poll_seconds is None else self.poll_seconds
        unanswered = 0.0
        while True:
            try:
                end = await asyncio.to_thread(cluster.end, self.application)
            except TidegateError as error:
                self.log.warning("%s", error.message)
                if not error.transient or unanswered >= self.patience_seconds:
                    yield _event(application=self.application, error=error.message)
                    return
                unanswered += pause
            else:
                unanswered = 0.0
                if end is not None:
                    command = cluster.output_command(self.application)
                    yield _event(application=self.application, end=dataclasses.asdict(end), output_command=command)
                    return
            await asyncio.sleep(pause)


def _event(**content: Any) -> TriggerEvent:
    return TriggerEvent(content)  # type: ignore[no-untyped-call]  # untyped in Airflow
