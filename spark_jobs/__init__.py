"""Transforms, one module per pipeline.

A transform takes a DataFrame and returns one. It keeps ``_row_id`` and ``_origin`` and never drops a row: to filter one,
it sets ``_filtered`` to the name of the rule. It is deterministic: the same input always gives the same rows.
"""
