"""Tests: they mirror the tree and read as sentences."""
