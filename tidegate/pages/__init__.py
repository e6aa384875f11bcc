"""The pages about pipelines, flows and batches: one read model, one set of templates, one style sheet. Starts no JVM.

Airflow serves them (`tidegate.airflow.pages`, which adds the present status of the flows), and ``tidegate docs`` exports them
as static files (`site`). Both read the ledger, the verdicts, the schema history, the quarantine tables and the alerts
(`content`). A page has rules, counts, names and times, never a value of the data.
"""
