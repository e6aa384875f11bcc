"""Flows that send the changes of a table."""
