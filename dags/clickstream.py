"""The DAG of the clickstream pipeline: its schedule, backfills, and the form to trigger it."""

from pipelines.clickstream import pipeline
from tidegate.airflow import build_dag

dag = build_dag(pipeline)
