"""The DAG that evaluates the alert rules of all flows every five minutes."""

from tidegate.airflow.alerts import build_alerts_dag

dag = build_alerts_dag()
