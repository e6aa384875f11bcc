"""Reingests: a source, read again."""
