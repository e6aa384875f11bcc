"""Finds declarations by name: ``pipelines/<name>.py`` holds ``pipeline``."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
import sys
import threading
from pathlib import Path

from tidegate.errors import RequestError, SpecError
from tidegate.spec import Flow, Pipeline

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
        SpecError: Its file does not declare a pipeline of its own name.
    """
    known = names()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise RequestError(f"there is no pipeline {name!r}{hint} Declared: {', '.join(known) or 'none yet'}.")
    pipeline = getattr(importlib.import_module(f"pipelines.{name}"), "pipeline", None)
    if not isinstance(pipeline, Pipeline) or pipeline.name != name:
        raise SpecError(f"pipelines/{name}.py must hold `pipeline = Pipeline(name={name!r}, …)`")
    return pipeline


def reload(name: str) -> Pipeline:
    """The pipeline of that name as its file is now, for a process that outlives an edit of it.

    Raises:
        RequestError: There is no such pipeline.
        SpecError: Its file does not declare a pipeline of its own name.
    """
    if name in names():
        [folder] = importlib.import_module("pipelines").__path__
        changed = (Path(folder) / f"{name}.py").stat().st_mtime_ns
        with _reloading:
            module = sys.modules.get(f"pipelines.{name}")
            if module is not None and _loaded.get(name) != changed:
                importlib.reload(module)
            _loaded[name] = changed
        importlib.invalidate_caches()
    return load(name)


def writer_of(table: str, first: Pipeline) -> tuple[Pipeline, Flow] | None:
    """Who writes a table: a flow of ``first``, or else of any declared pipeline."""
    if (own := first.writer_of(table)) is not None:
        return first, own
    for name in names():
        pipeline = load(name)
        if (flow := pipeline.writer_of(table)) is not None:
            return pipeline, flow
    return None
