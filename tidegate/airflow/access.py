"""Access control of the pages, by Airflow's own session and permissions.

`airflow.api_fastapi.core_api.security` is not a stable interface of Airflow, so only this module imports from the API server.
"""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_authenticated
from fastapi import Depends

Authenticated = Depends(requires_authenticated())
"""Requires a logged-in user; answers 401 otherwise."""

MaySeeRuns = Depends(requires_access_dag("GET", DagAccessEntity.RUN))
"""Requires a logged-in user who may read the runs of the DAG in the path parameter ``dag_id``; answers 401 or 403 otherwise."""


def _permitted(user: GetUserDep) -> set[str]:
    manager = get_auth_manager()
    return {
        dag_id
        for dag_id in manager.get_authorized_dag_ids(user=user)
        if manager.is_authorized_dag(
            method="GET", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id), user=user
        )
    }


Permitted = Annotated[set[str], Depends(_permitted)]
"""The ids of the DAGs whose runs the user may read: the same permission that `MaySeeRuns` requires."""


def login_url(next_url: str) -> str:
    """The URL of the login form, which redirects to ``next_url`` after the login.

    Args:
        next_url: A path on this server.
    """
    url: Any = get_auth_manager().get_url_login(next_url=next_url)
    return str(url)
