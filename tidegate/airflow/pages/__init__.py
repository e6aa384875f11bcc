"""Web pages in Airflow: the status of every pipeline, its batches, and its data quality reports.

Server-rendered HTML, one style sheet, one script. Every response needs an Airflow session and has a strict
Content-Security-Policy.
"""
