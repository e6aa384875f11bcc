"""Flows that derive rows from rows."""
