"""The Airflow integration. Only this package, ``dags`` and ``plugins`` import Airflow."""

from tidegate.errors import extras

extras.expect("airflow")

from tidegate.airflow.dag import build_dag  # noqa: E402  # it imports Airflow
from tidegate.airflow.project import build_dags  # noqa: E402

__all__ = ["build_dag", "build_dags"]
