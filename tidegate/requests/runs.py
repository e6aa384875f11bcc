"""The kinds of run. A new kind is a folder in `tidegate.runs`, and one line in `RUNS`.

Each folder has ``declare``, whose ``KIND`` says which flows it applies to and what it refuses; ``run``, whose ``RUN`` does it to one flow
(`tidegate.spark.runs.RunCode`), with Spark; and if the preview of its sources does not say what it will do, ``plan``.
"""

from __future__ import annotations

import importlib

from tidegate.requests.run_kind import RunKind
from tidegate.spec import Flow, Pipeline


def declared(name: str) -> RunKind:
    """The kind of run of this folder."""
    kind: RunKind = importlib.import_module(f"tidegate.runs.{name}.declare").KIND
    return kind


RUNS: dict[str, RunKind] = {
    name: declared(name)
    for name in (
        "incremental",
        "backfill",
        "reingest",
        "full_refresh",
        "recover",
        "undo",
        "replay",
        "verify",
        "state",
    )
}
"""Every kind of run, by its name."""


def check_flow(mode: str, pipeline: Pipeline, flow: Flow) -> None:
    """Raise `RequestError` for a flow that this run applies to, and whose kind refuses it or that lacks something."""
    if mode in flow.kind.refuses:
        raise flow.kind.refuses[mode](flow)
    RUNS[mode].check(pipeline, flow)


def modes() -> dict[str, str]:
    """The modes of a run of a pipeline, with their meaning."""
    return {name: kind.meaning for name, kind in RUNS.items() if kind.meaning}
