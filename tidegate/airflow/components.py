"""Airflow's own components, as the overview reports them: without a scheduler no run starts, and no flow says why."""

from __future__ import annotations

from typing import Any

_EFFECTS = {
    "scheduler": "no run starts, and no alert is evaluated",
    "dag_processor": "new and changed pipelines do not become DAGs",
    "triggerer": "answers to schema changes are not noticed",
}
"""Component to what does not happen without it."""


def silent() -> tuple[str, ...]:
    """A sentence about each component that does not report, from the heartbeats in Airflow's database.

    A component that was never started is no failure, except for the scheduler.
    """
    from airflow.api.common.airflow_health import HEALTHY, UNHEALTHY, get_airflow_health

    health: dict[str, Any] = get_airflow_health()
    if health["metadatabase"]["status"] != HEALTHY:
        return ("Airflow's database does not answer: it is unknown whether its components run.",)
    return tuple(
        _sentence(name, effect, health[name].get(f"latest_{name}_heartbeat"))
        for name, effect in _EFFECTS.items()
        if health[name]["status"] == UNHEALTHY
    )


def _sentence(name: str, effect: str, heartbeat: str | None) -> str:
    since = (
        "has never reported" if heartbeat is None else f"has not reported since {heartbeat[:19].replace('T', ' ')} UTC"
    )
    return f"Airflow's {name.replace('_', ' ')} {since}: {effect}."
