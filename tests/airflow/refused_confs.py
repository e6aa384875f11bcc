"""Confs of runs that Airflow refuses, for tests of its command line and of a live Airflow."""

from __future__ import annotations

from typing import Any

REFUSED_AT_ONCE: list[dict[str, Any]] = [
    {"mode": "again"},
    {"flows": ["platinum"]},
    {"flows": "silver"},
    {"from_date": "yesterday"},
    {"to_date": "2013-01-20; rm"},
    {"dry_run": "maybe"},
]
"""Confs that Airflow itself refuses by the types of the form's fields; no run is created."""
