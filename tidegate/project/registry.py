"""Loads declarations by name: ``pipelines/<name>.py`` defines ``pipeline``."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import importlib
import pkgutil
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tidegate.advice import Edit
from tidegate.errors import RequestError, SpecError, TidegateError
from tidegate.errors.classification import raise_machine
from tidegate.spec import Pipeline

Loader = Callable[[str, Sequence[str] | None], Pipeline]
"""`load` or `reload`."""
_loaded: dict[str, dict[str, int]] = {}
"""Modification times of each loaded pipeline's file and of all lists of tables, in nanoseconds, for `reload`."""
_reloading = threading.Lock()


def names() -> list[str]:
    """The names of all declared pipelines, sorted."""
    package = importlib.import_module("pipelines")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_"))


def load(name: str, declared: Sequence[str] | None = None) -> Pipeline:
    """The pipeline of that name.

    Args:
        declared: `names()`, from a caller that loads several pipelines.

    Raises:
        RequestError: There is no such pipeline; the message lists those that exist.
        SpecError: The file raises an error, and the message names the line; or it defines no pipeline of this name.
        SetupError: As `completed`.
    """
    declared = names() if declared is None else declared
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name not in declared:
        matches = difflib.get_close_matches(name, declared, n=1)
        hint = f"; did you mean {matches[0]!r}?" if matches else "."
        raise RequestError(
            f"there is no pipeline {name!r}{hint}", Edit(f"declared: {', '.join(declared) or 'none yet'}", "request")
        )
    with _errors_with_line(name):
        pipeline = getattr(importlib.import_module(f"pipelines.{name}"), "pipeline", None)
    if not isinstance(pipeline, Pipeline) or pipeline.name != name:
        raise SpecError(
            f"pipelines/{name}.py must define `pipeline = Pipeline(name={name!r}, …)`", Edit("define it", "declaration")
        )
    return completed(pipeline)


def reload(name: str, declared: Sequence[str] | None = None) -> Pipeline:
    """The pipeline of that name as its file is now, for a process that runs on while the file is edited.

    Args:
        declared: As for `load`.

    Raises:
        RequestError: There is no such pipeline.
        SpecError: As `load`.
    """
    declared = names() if declared is None else declared
    if name in declared:
        [folder] = importlib.import_module("pipelines").__path__
        path = Path(folder) / f"{name}.py"
        lists = (each for each in Path(folder).iterdir() if each.suffix in (".csv", ".toml"))
        modified_ns = {each.name: each.stat().st_mtime_ns for each in (path, *lists)}
        with _reloading:
            module = sys.modules.get(f"pipelines.{name}")
            if module is not None and _loaded.get(name) != modified_ns:
                with _errors_with_line(name):
                    # Not importlib.reload: it does not notice an edit within one second that keeps the size of the file.
                    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
            _loaded[name] = modified_ns
        importlib.invalidate_caches()
    return load(name, declared)


def completed(pipeline: Pipeline) -> Pipeline:
    """The pipeline with the ``on`` that its transforms in SQL show and its flows leave out.

    What cannot be read stays out: it is the error of its flow.

    Raises:
        SetupError: It leaves some out, and the parser of SQL is not installed.
    """
    if not any(feed for flow in pipeline.flows if flow.is_sql for feed in flow.feeds[1:] if not feed.on):
        return pipeline
    # Few flows need it, and its parser.
    from tidegate.project import statement_rules, transform_code

    flows = []
    for flow in pipeline.flows:
        with contextlib.suppress(SpecError):
            flow = statement_rules.completed(flow, transform_code.file_of(str(flow.transform))) if flow.is_sql else flow
        flows.append(flow)
    return dataclasses.replace(pipeline, flows=tuple(flows))


def declarations(get: Loader = load) -> dict[str, Pipeline | TidegateError]:
    """Every declared pipeline by name, or the error of its file: one broken file does not affect the other pipelines.

    Args:
        get: `load`, or `reload` in a process that runs on while files are edited.
    """
    declared = names()
    return {name: _pipeline_or_error(name, get, declared) for name in declared}


def _pipeline_or_error(name: str, get: Loader, declared: Sequence[str]) -> Pipeline | TidegateError:
    try:
        return get(name, declared)
    except TidegateError as error:
        return error


@contextlib.contextmanager
def _errors_with_line(name: str) -> Iterator[None]:
    """Convert any exception of a pipeline's file to a `SpecError` that names the line."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        raise_machine(error, f"pipelines/{name}.py")
        cause = f"{type(error).__name__}: {error}"
        raise SpecError(
            f"pipelines/{name}.py does not load{_line(error, name)}: {cause}", Edit("correct the file", "declaration")
        ) from error


def _line(error: Exception, name: str) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f" (line {error.lineno})"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.endswith(f"pipelines/{name}.py")
    ]
    return f" (line {lines[-1]})" if lines else ""
