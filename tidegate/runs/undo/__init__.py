"""Undos: rows that a run changed, put back."""
