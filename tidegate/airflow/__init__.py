"""The Airflow integration. Only this package, ``dags`` and ``plugins`` import Airflow."""

from tidegate.airflow.dag import build_dag

__all__ = ["build_dag"]
