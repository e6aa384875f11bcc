"""Formats of landed files and messages: bytes to records, and records to one text per field, in plain Python without Spark."""
