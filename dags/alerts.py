"""Airflow looks at all flows every five minutes, and tells people which of them need one."""

from tidegate.airflow.alerts import build_alerts_dag

dag = build_alerts_dag()
