"""The operator's pages in Airflow: where every pipeline stands, what its batches did, and its reports.

Server-rendered HTML, one style sheet, one script; every answer needs Airflow's session and carries a strict policy.
"""
