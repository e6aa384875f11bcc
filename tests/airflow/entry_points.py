"""Airflow's command line and its app, in this process. Airflow is imported late, after conftest.py has set its environment."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def airflow_app() -> Any:
    """Airflow's app with its plugins; creating it takes seconds."""
    from airflow.api_fastapi.app import create_app

    return create_app(apps="core")


def airflow_command(*words: str) -> None:
    """Run a command of Airflow's command line in this process, because importing Airflow takes seconds."""
    from airflow.cli import cli_parser

    arguments = cli_parser.get_parser().parse_args(words)
    arguments.func(arguments)
