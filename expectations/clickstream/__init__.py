"""Suites of the clickstream pipeline."""
