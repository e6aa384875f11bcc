"""Backfills: the rows of a window, derived again."""
