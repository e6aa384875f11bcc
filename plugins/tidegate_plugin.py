"""Airflow's pages get an entry and tabs of Tidegate; what they show is made in tidegate.airflow."""

from tidegate.airflow.plugin import TidegatePlugin

__all__ = ["TidegatePlugin"]
