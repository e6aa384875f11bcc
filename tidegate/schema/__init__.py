"""Declared schemas, their contracts, and schema changes."""
