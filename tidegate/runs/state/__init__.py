"""Showing what a stateful flow remembers."""
