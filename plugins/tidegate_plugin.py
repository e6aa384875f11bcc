"""Registers Tidegate's pages in Airflow; they are implemented in tidegate.airflow."""

from tidegate.airflow.plugin import TidegatePlugin

__all__ = ["TidegatePlugin"]
