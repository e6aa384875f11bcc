"""``tidegate new``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from tidegate.cli import console, project, scaffold
from tidegate.environment import Environment


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A lower-case letter, then letters, digits and '_', at most 63.")
    ],
    source: Annotated[Literal["files", "kafka"], typer.Option(help="Where its rows land.")] = "files",
) -> None:
    """Create a pipeline that is ready to run: its declaration, transforms, suite, DAG and tests.

    With --source files it also lands a small sample with good and bad rows. Existing files are never overwritten.
    """
    scaffold.check_name(name)
    environment = project.read()
    files = scaffold.files_of(environment, name, source)
    scaffold.check_absent(name, files)
    scaffold.write(files)
    for line in _created_lines(environment.project, files):
        console.echo(line)
    console.echo()
    for line in _next_steps(environment, name, source):
        console.echo(line)


def _created_lines(folder: Path, files: Iterable[Path]) -> Iterator[str]:
    for path in files:
        yield f"  made  {path.relative_to(folder) if path.is_relative_to(folder) else path}"


def _next_steps(environment: Environment, name: str, source: str) -> Iterator[str]:
    yield "Next:"
    if source == "kafka":
        yield f"  create the topic     {topic_command(environment.kafka, name)}"
        yield f"  send a first order   {message_command(environment.kafka, name)}"
    yield f"  run it               tidegate run {name}"
    yield f"  look at it           tidegate status {name}; tidegate quarantine list {name}"
    yield f"  adapt it             pipelines/{name}.py, spark_jobs/{name}.py, expectations/{name}/silver.json"
    yield f"  test it              python -m pytest tests/spark_jobs/test_{name}.py"


def topic_command(bootstrap: str, topic: str) -> str:
    """A shell command that creates the topic, with the Kafka client that is installed with Tidegate."""
    # A variable keeps the client alive: if it is garbage-collected, the future never completes.
    client = f"c = AdminClient({{'bootstrap.servers': '{bootstrap}'}})"
    create = f"{client}; c.create_topics([NewTopic('{topic}', 3)])['{topic}'].result()"
    return f'python -c "from confluent_kafka.admin import AdminClient, NewTopic; {create}"'


def message_command(bootstrap: str, topic: str) -> str:
    """A shell command that sends one order."""
    timestamp = "2026-01-05T09:30:00Z"
    order = f"dict(order_id='A-1', ordered_at='{timestamp}', customer='Ada', amount='19.90', updated_at='{timestamp}')"
    producer = f"Producer({{'bootstrap.servers': '{bootstrap}'}})"
    send = f"p = {producer}; p.produce('{topic}', key='A-1', value=json.dumps({order})); p.flush()"
    return f'python -c "import json; from confluent_kafka import Producer; {send}"'
