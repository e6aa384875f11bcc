"""How rows change: one file of transforms a pipeline, and the entry point that spark-submit runs.

A transform takes a DataFrame and returns one. It carries ``_row_id`` and ``_origin`` along, never drops a row (it
names the rule that sets one aside in ``_filtered``), and gives the same rows for the same input, today and tomorrow.
"""
