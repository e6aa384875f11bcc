"""The Airflow plugin: an entry in the navigation, and tabs on DAGs, runs and tasks.

Airflow loads plugins in all of its processes, including those of tasks. So the app behind the tabs, which imports FastAPI,
Jinja2 and delta-rs, is built at the first request.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from tidegate.airflow.urls import PREFIX

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from tidegate.environment import Environment

__all__ = ["TidegatePlugin"]


class Pages:
    """An ASGI app that builds the pages' app at the first request."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._building = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        await self.app()(scope, receive, send)

    def app(self) -> ASGIApp:
        """The pages' app, built once per process."""
        with self._building:
            if self._app is None:
                from tidegate.airflow.pages.app import build

                self._app = build(_environment())
            return self._app


def _environment() -> Environment:
    """The settings of the project that has Airflow's DAG folder, unless a variable names another; its packages can be imported then."""
    from tidegate.environment import Environment
    from tidegate.project import folder

    variables = dict(os.environ)
    project = folder.find(Path(conf.get("core", "dags_folder")) / "any.py")
    if project is not None and not variables.get("TIDEGATE_PROJECT"):
        variables["TIDEGATE_PROJECT"] = str(project)
    environment = Environment.read(variables)
    folder.make_importable(environment.project.absolute())
    return environment


def _views() -> list[dict[str, Any]]:
    base = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    root = f"{base}{PREFIX}"
    pipeline = f"{root}/pipelines/{{DAG_ID}}"
    destinations = {
        "nav": f"{root}/",
        "dag": pipeline,
        "task": f"{pipeline}/tasks/{{TASK_ID}}",
        "dag_run": f"{pipeline}/runs/{{RUN_ID}}",
        "task_instance": f"{pipeline}/runs/{{RUN_ID}}/tasks/{{TASK_ID}}",
    }
    icons = {"icon": f"{root}/assets/icon.svg", "icon_dark_mode": f"{root}/assets/icon-dark.svg"}
    return [
        {
            "name": "Tidegate",
            "href": href,
            "destination": destination,
            # Each view needs a route of its own; the navigation gets the short one, which appears in the address bar.
            "url_route": "tidegate" if destination == "nav" else f"tidegate-{destination.replace('_', '-')}",
            **icons,
            **({"nav_top_level": True} if destination == "nav" else {}),
        }
        for destination, href in destinations.items()
    ]


class TidegatePlugin(AirflowPlugin):
    """Registers the pages."""

    name = "tidegate"
    fastapi_apps = [  # noqa: RUF012  # Airflow reads it from the class
        {"app": Pages(), "url_prefix": PREFIX, "name": "Tidegate"}
    ]
    external_views = _views()
