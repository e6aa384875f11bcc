"""Flows that derive groups from several tables."""
