"""The kinds of run. A new kind is a folder in `tidegate.runs`, and one line in `RUNS`.

Each folder has ``declare``, whose ``KIND`` says which flows it applies to and what it refuses; ``run``, whose ``RUN`` does it to one flow
(`tidegate.spark.runs.RunCode`), with Spark; and if the preview of its sources does not say what it will do, ``plan``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from tidegate.requests.run_kind import RunKind
from tidegate.spec import Flow, Pipeline


class Runs(Mapping[str, RunKind]):
    """Kinds of run by name, each loaded when it is asked for: a job needs one of them."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __getitem__(self, name: str) -> RunKind:
        if name not in self.names:
            raise KeyError(name)
        kind: RunKind = importlib.import_module(f"tidegate.runs.{name}.declare").KIND
        return kind

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


RUNS = Runs(
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
"""Every kind of run."""


def check_flow(mode: str, pipeline: Pipeline, flow: Flow) -> None:
    """Raise `RequestError` for a flow that this run applies to, and whose kind refuses it or that lacks something."""
    if mode in flow.kind.refuses:
        raise flow.kind.refuses[mode](flow)
    RUNS[mode].check(pipeline, flow)


def modes() -> dict[str, str]:
    """The modes of a run of a pipeline, with their meaning."""
    return {name: kind.meaning for name, kind in RUNS.items() if kind.meaning}
