"""The project of a user: its declarations, transforms and suites, found by name and checked without running them."""
