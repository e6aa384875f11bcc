"""Flows that keep state between batches."""
