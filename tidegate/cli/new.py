"""``tidegate new``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidegate.advice import Edit
from tidegate.cli import console, project
from tidegate.environment import Environment
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.scaffolding import pipeline_files
from tidegate.scaffolding.pipeline_files import Files
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.scaffolding.draft import Draft


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A lower-case letter, then letters, digits and '_', at most 63.")
    ],
    source: Annotated[Literal["files", "kafka"], typer.Option(help="Where its rows land.")] = "files",
    file: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Draft it from this file, a path or s3://…: CSV, JSON lines, Parquet or Avro.",
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Draft it from the newest messages of this topic.")
    ] = None,
) -> None:
    """Create a pipeline that is ready to run: its declaration, transforms, suite, DAG and tests.

    With --from or --topic, schema, dialect, keys, order and the first suite are guessed from a sample, and the guesses are printed.
    Without, it is about orders; with --source files it also lands a small sample with good and bad rows in the landing folder NAME.
    Existing files are never overwritten. Starts no JVM.
    """
    pipeline_files.check_name(name)
    environment = project.read()
    if file is not None and topic is not None:
        raise RequestError("--from and --topic exclude each other.", Edit("give one of the two", "request"))
    drafted: Draft | None = None
    if file is not None or topic is not None:
        drafted, files = _drafted(environment, name, file, topic)
    else:
        files = pipeline_files.files_of(environment, name, source)
    pipeline_files.check_absent(name, files)
    pipeline_files.write(files)
    if drafted is not None:
        _print_guesses(drafted)
    for line in _created_lines(environment.project, files):
        console.echo(line)
    console.echo()
    for line in _next_steps(environment, name, source if drafted is None else "drafted"):
        console.echo(line)


def _drafted(environment: Environment, name: str, file: str | None, topic: str | None) -> tuple[Draft, Files]:
    """The draft from a file or a topic, and the files of the pipeline. A file outside of the landing zone is landed too."""
    # Drafting imports readers of all formats, which `tidegate new` does not need otherwise.
    from tidegate.scaffolding import sample
    from tidegate.scaffolding.draft import Draft

    layout = Layout.of(environment)
    landed: Files = {}
    if file is not None:
        named = pipeline_files.named_file(environment, file)
        drafted = Draft.of(sample.of_file(named), of_topic=False)
        place, target = pipeline_files.landing_place(layout, name, named)
        if target is not None:
            landed[target] = named
    else:
        assert topic is not None
        drafted = Draft.of(sample.of_topic(environment.cluster("default"), topic), of_topic=True)
        place = topic
    texts = {
        "pipelines": drafted.pipeline(name, place),
        "spark_jobs": drafted.job(name),
        "expectations": drafted.suite(name),
        "tests": drafted.test(name),
    }
    return drafted, {**pipeline_files.drafted_files(environment, name, texts), **landed}


def _print_guesses(drafted: Draft) -> None:
    console.echo("Guessed from the sample; correct what is wrong:", style="bold")
    for line in drafted.guesses():
        console.echo(f"  {line}")
    console.echo()
    console.print_table(("field", "column", "use", "type", "in the sample"), drafted.rows())
    console.echo()
    if doubts := list(drafted.doubts()):
        console.echo("Doubts, with the lines of the sample:", style="bold")
        for line in doubts:
            console.echo(f"  {line}")
        console.echo()


def _created_lines(folder: Path, files: Iterable[Address]) -> Iterator[str]:
    for file in files:
        yield f"  made  {str(file).removeprefix(f'{folder}/')}"


def _next_steps(environment: Environment, name: str, source: str) -> Iterator[str]:
    yield "Next:"
    if source == "drafted":
        yield f"  check the guesses    pipelines/{name}.py, expectations/{name}/silver.json (also tidegate expectations check {name})"
    if source == "kafka":
        yield f"  create the topic     {topic_command(environment.kafka, name)}"
        yield f"  send a first order   {message_command(environment.kafka, name)}"
    yield f"  run it               tidegate run {name}"
    yield f"  look at it           tidegate status {name}; tidegate quarantine list {name}"
    yield f"  adapt it             pipelines/{name}.py, spark_jobs/{name}.py, expectations/{name}/silver.json"
    # Tests start Spark, which only the environment of jobs has.
    own, python = str(environment.job_python) == sys.executable, str(environment.job_python)
    program = "python" if own else python.removeprefix(f"{environment.project}/")
    yield f"  test it              {program} -m pytest tests/spark_jobs/test_{name}.py"


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
