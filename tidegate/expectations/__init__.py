"""Suites without a JVM: what a table looks like, and the suite that it suggests."""
