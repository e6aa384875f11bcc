"""The project that a command works on: its environment, its declarations, and names that people type."""

from __future__ import annotations

import dataclasses
import difflib
import getpass
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tidegate.environment import Environment
from tidegate.errors import RequestError, SetupError, TidegateError

if TYPE_CHECKING:
    from tidegate.request import RunRequest
    from tidegate.spec import Flow, Pipeline

MODE = typer.Option(
    "--mode", metavar="MODE", help="incremental, replay (of a window), reingest (the source again), or full_refresh."
)
FROM = typer.Option(
    "--from",
    metavar="DAY",
    help="First day, YYYY-MM-DD: of a replay by event time, of a reingest by when files were changed or messages sent.",
)
TO = typer.Option("--to", metavar="DAY", help="Last day, included.")


def read() -> Environment:
    """The environment, with the project's own `pipelines` and `spark_jobs` importable here and in child processes.

    An installed project is importable already; one that ``TIDEGATE_PROJECT`` names comes before any other.

    Raises:
        SetupError: There is no project there.
    """
    environment = Environment.read()
    project = environment.project.absolute()
    if not (project / "pipelines").is_dir():
        raise SetupError(
            f"{project} holds no project (no pipelines/ folder); let TIDEGATE_PROJECT name the project's folder"
        )
    if not _is_importable(project):
        sys.path.insert(0, str(project))
        importlib.invalidate_caches()
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(project), os.environ.get("PYTHONPATH")]))
    return dataclasses.replace(environment, project=project)


def _is_importable(project: Path) -> bool:
    found = importlib.util.find_spec("pipelines")
    places = found.submodule_search_locations if found is not None else None
    return (project / "pipelines").resolve() in [Path(place).resolve() for place in places or ()]


def load(name: str) -> Pipeline:
    """The pipeline of that name.

    Raises:
        RequestError: There is none; the message names the nearest.
        SpecError: Its file does not load; the message says where.
    """
    from tidegate import registry

    return registry.load(name)


def load_all(name: str | None) -> list[tuple[str, Pipeline | TidegateError]]:
    """The named pipeline, or all of them; a file that does not load does not hide the others.

    Raises:
        RequestError: There is no pipeline of the given name.
    """
    from tidegate import registry

    if name is not None and name not in registry.names():
        load(name)  # which says what there is instead
    return [(each, found) for each, found in registry.declarations().items() if name in (None, each)]


def choose(pipeline: Pipeline, names: Iterable[str]) -> tuple[Flow, ...]:
    """The named flows in graph order; all of them when none is named.

    Raises:
        RequestError: The pipeline has no such flow; the message names the nearest.
    """
    known = [flow.name for flow in pipeline.flows]
    asked = list(names)
    for name in asked:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise RequestError(f"pipeline {pipeline.name!r} has no flow {name!r}{hint} It has: {', '.join(known)}.")
    return tuple(flow for flow in pipeline.flows if not asked or flow.name in asked)


def who() -> str:
    """The name of the person at the keyboard, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def ask(pipeline: Pipeline, mode: str, flows: list[str] | None, first: str | None, last: str | None) -> RunRequest:
    """What a person asked for on the command line, checked as Airflow's conf is.

    Raises:
        RequestError: What does not fit; the message says what is allowed.
    """
    from tidegate.report import now
    from tidegate.request import RunRequest

    choose(pipeline, flows or ())
    asked = {"mode": mode, "flows": flows or [], "from_date": first, "to_date": last}
    return RunRequest.check(pipeline, f"cli__{now()}", asked, requested_by=who())


def complete_name(incomplete: str) -> list[str]:
    """Names of pipelines that begin as typed, for the shell's completion; loads no declaration."""
    folder = Environment.read().project / "pipelines"
    names = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    return [name for name in names if name.startswith(incomplete)]
