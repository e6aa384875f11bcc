"""The project that a command works on: its environment, declarations, and command-line arguments."""

from __future__ import annotations

import dataclasses
import difflib
import getpass
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pendulum

from tidegate.advice import Command, Edit, Either
from tidegate.environment import Environment
from tidegate.environment.settings import FILE
from tidegate.errors import RequestError, SetupError, TidegateError
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.project import folder, registry, resolution
from tidegate.project.resolution import ResolvedPipeline
from tidegate.reports.report import now
from tidegate.requests.request import RunRequest
from tidegate.spec import Flow, Pipeline

if TYPE_CHECKING:
    from tidegate.status.reading import Reading


def read() -> Environment:
    """The environment. Makes the project's `pipelines` and `spark_jobs` importable, here and in child processes.

    An installed project is importable already; the project in ``TIDEGATE_PROJECT`` takes precedence.

    Raises:
        SetupError: The folder contains no project.
    """
    environment = Environment.read()
    project = environment.project.absolute()
    if not (project / "pipelines").is_dir():
        nowhere = not (project / FILE).exists() and not os.environ.get("TIDEGATE_PROJECT")
        raise SetupError(
            f"{Path.cwd()} is in no project: neither it nor a folder above has a {FILE}"
            if nowhere
            else f"{project} is not a project (it has no pipelines/ folder)",
            Either(
                Command.tidegate("init", says="make one here with `{}`"),
                Edit("set TIDEGATE_PROJECT to the project's folder", "setting"),
            ),
        )
    folder.make_importable(project)
    return dataclasses.replace(environment, project=project)


def lake(environment: Environment) -> Layout:
    """The lake, for a command that decides about what is in it.

    Raises:
        OtherProjectError: It is another project's, or of another environment; as `Layout.check`.
    """
    layout = Layout.of(environment)
    layout.check()
    return layout


def load(name: str) -> Pipeline:
    """The pipeline of that name.

    Raises:
        RequestError: There is none; the message suggests the closest name.
        SpecError: Its file does not load; the message has the line.
    """
    return registry.load(name)


def resolve(environment: Environment, name: str) -> ResolvedPipeline:
    """The resolved pipeline of that name.

    Raises:
        RequestError: There is none; the message suggests the closest name.
        SpecError: Its file does not load, two flows write one table, or no flow writes a source.
    """
    return resolution.load(name, environment.project)


def resolve_all(environment: Environment, name: str | None) -> list[tuple[str, ResolvedPipeline | TidegateError]]:
    """The named pipeline, or all; one that cannot be resolved is returned as its error and does not hide the others.

    Raises:
        RequestError: There is no pipeline of the given name.
    """
    if name is not None and name not in registry.names():
        load(name)  # raises the error that lists the existing pipelines
    return [(each, one) for each, one in resolution.load_all(environment.project).items() if name in (None, each)]


def readings(environment: Environment, name: str | None, patience: float) -> list[Reading]:
    """Readings of the named pipeline's flows, or of all, with their open alerts.

    Pipelines that write what it reads are read too, because their state decides whether it waits.

    Args:
        patience: Seconds to wait for all sources together.

    Raises:
        RequestError: There is no pipeline of the given name.
    """
    from tidegate.status import evaluation, flow_status, upstream

    now, environment = pendulum.now("UTC"), read_once.once(environment)
    wanted = [pipeline for pipeline, _ in resolve_all(environment, name)]
    pipelines = upstream.with_upstream(wanted, dict(resolve_all(environment, None)))
    read = flow_status.gather(environment, pipelines, patience, now)
    own = [each for each in read if each.pipeline in wanted]
    return evaluation.with_alerts(environment, pipelines, own)


def choose(pipeline: Pipeline, names: Iterable[str]) -> tuple[Flow, ...]:
    """The named flows in graph order; all flows if none is named.

    Raises:
        RequestError: The pipeline has no such flow; the message suggests the closest name.
    """
    known = [flow.name for flow in pipeline.flows]
    lost = [f"; {each.where} is not valid" for each in pipeline.invalid_tables]
    requested = list(names)
    for name in requested:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise RequestError(
                f"pipeline {pipeline.name!r} has no flow {name!r}{hint}",
                Edit(f"it has: {', '.join(known)}{''.join(lost)}", "request"),
            )
    return tuple(flow for flow in pipeline.flows if not requested or flow.name in requested)


def current_user() -> str:
    """The name of the operating system's user, which decisions record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def build_request(
    pipeline: Pipeline, mode: str, flows: list[str] | None, first: str | None, last: str | None, **more: object
) -> RunRequest:
    """The request from the command line, validated in the same way as Airflow's conf.

    Args:
        more: Other parameters of it (`tidegate.requests.parameters.KEYS`).

    Raises:
        RequestError: An argument is invalid; the message lists what is allowed.
    """
    choose(pipeline, flows or ())
    params = {"mode": mode, "flows": flows or [], "from_date": first, "to_date": last, **more}
    return RunRequest.check(pipeline, f"cli__{now()}", params, requested_by=current_user())


def complete_name(incomplete: str) -> list[str]:
    """Pipeline names with a given prefix, for shell completion; loads no declaration."""
    declarations = Environment.read().project / "pipelines"
    names = sorted(path.stem for path in declarations.glob("*.py") if not path.stem.startswith("_"))
    return [name for name in names if name.startswith(incomplete)]
