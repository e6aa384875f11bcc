"""Who may see what: Airflow's own session and permissions. The only module that imports parts of Airflow's API server.

They are not promised to stay (`airflow.api_fastapi.core_api.security`), so whatever the pages need of them is here.
"""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_dag,
    requires_authenticated,
)
from fastapi import Depends

Authenticated = Depends(requires_authenticated())
"""Somebody is logged in; 401 else."""

MaySeeRuns = Depends(requires_access_dag("GET", DagAccessEntity.RUN))
"""Somebody is logged in and may see the runs of the DAG that the path names as ``dag_id``; 401 or 403 else."""


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
"""The ids of the DAGs whose runs the person may see: as for the pages of one pipeline."""


def login_url(next_url: str) -> str:
    """Where a person logs in and is led back from.

    Args:
        next_url: A path on this server.
    """
    url: Any = get_auth_manager().get_url_login(next_url=next_url)
    return str(url)
