"""Airflow asks a person what becomes of a schema change that a frozen contract refused."""

from tidegate.airflow.approval import build_schema_approval

dag = build_schema_approval()
