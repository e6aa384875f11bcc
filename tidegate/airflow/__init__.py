"""How Airflow runs a pipeline: the only place, beside ``dags`` and ``plugins``, that imports Airflow."""

from tidegate.airflow.dag import build_dag

__all__ = ["build_dag"]
