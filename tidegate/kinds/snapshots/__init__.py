"""Flows that compare snapshots with their table."""
