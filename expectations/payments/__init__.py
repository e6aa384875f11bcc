"""Suites of the payments pipeline."""
