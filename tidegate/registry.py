"""Finds declarations by name: ``pipelines/<name>.py`` holds ``pipeline``."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import pkgutil
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from tidegate.errors import RequestError, SpecError, TidegateError
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSource, Pipeline

_loaded: dict[str, int] = {}
"""When the file of a loaded pipeline was changed last, in nanoseconds, for `reload`."""
_reloading = threading.Lock()


def names() -> list[str]:
    """The names of all declared pipelines, sorted."""
    package = importlib.import_module("pipelines")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_"))


def load(name: str) -> Pipeline:
    """The pipeline of that name.

    Raises:
        RequestError: There is no such pipeline; the message lists those that exist.
        SpecError: Its file does not load, and the message says where; or declares no pipeline of its own name.
    """
    known = names()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise RequestError(f"there is no pipeline {name!r}{hint} Declared: {', '.join(known) or 'none yet'}.")
    with _told_where(name):
        pipeline = getattr(importlib.import_module(f"pipelines.{name}"), "pipeline", None)
    if not isinstance(pipeline, Pipeline) or pipeline.name != name:
        raise SpecError(f"pipelines/{name}.py must hold `pipeline = Pipeline(name={name!r}, …)`")
    return pipeline


def reload(name: str) -> Pipeline:
    """The pipeline of that name as its file is now, for a process that outlives an edit of it.

    Raises:
        RequestError: There is no such pipeline.
        SpecError: As `load`.
    """
    if name in names():
        [folder] = importlib.import_module("pipelines").__path__
        path = Path(folder) / f"{name}.py"
        changed = path.stat().st_mtime_ns
        with _reloading:
            module = sys.modules.get(f"pipelines.{name}")
            if module is not None and _loaded.get(name) != changed:
                with _told_where(name):
                    # Not importlib's own: it takes an edit of equal size within one second for what it compiled before.
                    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
            _loaded[name] = changed
        importlib.invalidate_caches()
    return load(name)


def declarations(get: Callable[[str], Pipeline] = load) -> dict[str, Pipeline | TidegateError]:
    """Every declared pipeline, or why its file does not load: what somebody is still writing stops nobody else.

    Args:
        get: `load`, or `reload` in a process that outlives an edit.
    """
    return {name: _loaded_or_why_not(name, get) for name in names()}


def writer_of(table: str, first: Pipeline) -> tuple[Pipeline, Flow] | None:
    """Who writes a table: a flow of ``first``, or else of any declared pipeline that loads."""
    if (own := first.writer_of(table)) is not None:
        return first, own
    for pipeline in _others(first):
        if (flow := pipeline.writer_of(table)) is not None:
            return pipeline, flow
    return None


def readers_of(table: str, first: Pipeline) -> list[tuple[Pipeline, Flow]]:
    """The flows of all pipelines that load which read a table's change feed, those of ``first`` before the others."""
    return [
        (pipeline, flow)
        for pipeline in (first, *_others(first))
        for flow in pipeline.flows
        if isinstance(flow.source, ChangeFeed) and flow.source.table == table
    ]


def landing_behind(flow: Flow, pipeline: Pipeline) -> FileSource | KafkaSource | None:
    """The landing source whose records a flow parses: that of the bronze table which it reads; None for other flows."""
    if not isinstance(flow.source, ChangeFeed):
        return None
    written = writer_of(flow.source.table, pipeline)
    if written is None or written[1].target.keys or isinstance(written[1].source, ChangeFeed):
        return None
    return written[1].source


def _others(first: Pipeline) -> Iterator[Pipeline]:
    for name in names():
        if name != first.name and isinstance(found := _loaded_or_why_not(name, load), Pipeline):
            yield found


def _loaded_or_why_not(name: str, get: Callable[[str], Pipeline]) -> Pipeline | TidegateError:
    try:
        return get(name)
    except TidegateError as error:
        return error


@contextlib.contextmanager
def _told_where(name: str) -> Iterator[None]:
    """What somebody's own file raises, as an error that names the line."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise SpecError(f"pipelines/{name}.py does not load{_line(error, name)}: {told}; mend it") from error


def _line(error: Exception, name: str) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f" (line {error.lineno})"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.endswith(f"pipelines/{name}.py")
    ]
    return f" (line {lines[-1]})" if lines else ""
