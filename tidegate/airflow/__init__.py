"""The Airflow integration. Only this package, ``dags`` and ``plugins`` import Airflow."""

import sys

from tidegate.errors import extras

extras.expect("airflow")

import airflow  # noqa: E402

# The wheel without extras is installed beside any Airflow; an older one fails at an import that says nothing of versions.
extras.expect_range("apache-airflow", airflow.__version__, sys.prefix, ("pip", "install"))

from tidegate.airflow.dag import build_dag  # noqa: E402  # it imports Airflow
from tidegate.airflow.project import build_dags  # noqa: E402

__all__ = ["build_dag", "build_dags"]
