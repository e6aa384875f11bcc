"""Tidegate: files and Kafka topics into Delta tables, one bounded increment at a time."""

__version__ = "0.1.0"
