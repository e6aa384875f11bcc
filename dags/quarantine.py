"""The DAG with the form for quarantine entries: replay, waive or expire them, or quarantine a refused batch."""

from tidegate.airflow.quarantine import build_quarantine_dag

dag = build_quarantine_dag()
