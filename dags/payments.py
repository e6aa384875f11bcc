"""The DAG of the payments pipeline: its schedule, backfills, and the form to trigger it."""

from pipelines.payments import pipeline
from tidegate.airflow import build_dag

dag = build_dag(pipeline)
