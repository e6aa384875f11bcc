"""Web pages in Airflow: the status of every flow, its batches, and the attempts of runs.

Server-rendered HTML, one style sheet, one script. Every response needs an Airflow session and has a strict
Content-Security-Policy.
"""
