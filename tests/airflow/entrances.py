"""Airflow's command line and its app, in this process. Airflow is imported late: conftest.py tells it before where it is."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def airflow_app() -> Any:
    """Airflow's own app, with its plugins; it takes seconds to make."""
    from airflow.api_fastapi.app import create_app

    return create_app(apps="core")


def airflow_command(*words: str) -> None:
    """Give a command of Airflow's command line, in this process: Airflow takes seconds to import."""
    from airflow.cli import cli_parser

    arguments = cli_parser.get_parser().parse_args(words)
    arguments.func(arguments)
