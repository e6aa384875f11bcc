"""Airflow's form for what was set aside: replay, waive, expire, or take out a batch that a gate refused."""

from tidegate.airflow.quarantine import build_quarantine_dag

dag = build_quarantine_dag()
