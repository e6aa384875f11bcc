"""Suites of the flights pipeline."""
