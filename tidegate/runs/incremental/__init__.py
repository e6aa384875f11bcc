"""Increments: what is new."""
