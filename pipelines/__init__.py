"""Declarations of pipelines, one per file. `tidegate new NAME` adds one."""
