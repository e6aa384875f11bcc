"""The DAG of the flights pipeline: its schedule, backfills, and the form to trigger it."""

from pipelines.flights import pipeline
from tidegate.airflow import build_dag

dag = build_dag(pipeline)
