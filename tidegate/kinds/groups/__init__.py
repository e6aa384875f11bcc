"""Flows that derive groups of rows."""
