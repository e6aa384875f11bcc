"""Recoveries: what damage has reached, derived again."""
