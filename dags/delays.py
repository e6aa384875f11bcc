"""The DAG of the delays pipeline: its schedule, backfills, and the form to trigger it."""

from pipelines.delays import pipeline
from tidegate.airflow import build_dag

dag = build_dag(pipeline)
