"""The DAG that asks a person about a schema change that a frozen contract refused."""

from tidegate.airflow.approval import build_schema_approval

dag = build_schema_approval()
