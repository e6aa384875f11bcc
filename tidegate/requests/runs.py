"""The kinds of run (`RunKind`). A new kind is a folder in `tidegate.runs`, and one line in `RUNS`.

The package of a folder has the ``KIND`` that says which flows it applies to, ``run`` the ``RUN`` that does it to one flow
(`tidegate.spark.runs.RunCode`), with Spark. If the preview of its sources does not say what it will do, it has ``plan``, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tidegate.spec import Flow, Pipeline
from tidegate.spec.kinds import Registry


def _accept(_pipeline: Pipeline, _flow: Flow) -> None:
    """Refuse nothing."""


@dataclass(frozen=True, kw_only=True)
class RunKind:
    """One kind of run."""

    name: str
    """The folder of its modules in `tidegate.runs`; also the ``mode`` of its requests."""
    meaning: str
    """For forms and messages; empty for a run that has commands of its own."""
    applies_to: Callable[[Flow], bool]
    """Other flows of the run do an ordinary increment."""
    check: Callable[[Pipeline, Flow], None] = _accept
    """Raises `RequestError` for a flow that this kind applies to and that lacks something."""
    window: Literal["none", "optional", "required"] = "none"
    gaps: bool = False
    """Whether a request may be for the gaps alone: the intervals of a source that are not complete."""
    replaces_rows: bool = False
    """Whether it replaces rows that readers have, so that its dry run has something to judge."""
    reads_source: bool = True
    """Whether it may read a whole source; if not, the job starts as for little data."""
    increments: bool = True
    """Whether it reads what is new as well; if not, its end says nothing about the flow's next increment."""
    derives: bool = True
    """Whether it derives rows; if not, neither the suite nor the transform is loaded, and a broken one does not stop it."""
    only_reads: bool = False
    """Whether it changes nothing at all: rows are not judged, and a flow that is switched off is read as well."""
    of_run: bool = False
    """Whether the request names another run, which this one is about."""
    plans: bool = False
    """Whether its folder has a ``plan`` of its own; if not, its preview says what it reads (`tidegate.planning.preview`). A dry run of
    one that has is a job as well."""
    rewrites: str = "{table} ({rows}), where the result differs"
    """What may change, for plans: with ``{table}``, the number of its ``{rows}``, and ``{keys}``, those in the window."""

    @property
    def judges(self) -> bool:
        """Whether rows are derived and judged; if not, it depends neither on the suite nor on what its flow reads next."""
        return self.derives and not self.only_reads

    @property
    def code(self) -> str:
        """The module whose ``RUN`` does it to one flow (`tidegate.spark.runs.RunCode`); the application alone imports it."""
        return f"tidegate.runs.{self.name}.run"

    @property
    def plan(self) -> str:
        """``<module>:<function>``, which takes the environment, the resolved pipeline and the request; empty for a run without.

        The function returns the request to run and lines for people.
        """
        return f"tidegate.runs.{self.name}.plan:plan_run" if self.plans else ""


def derives_keys(flow: Flow) -> bool:
    """Whether rows of some keys can be derived, or put back, without the others."""
    return bool(flow.target.keys) and flow.kind.derives_keys


RUNS: Registry[RunKind] = Registry(
    "runs",
    (
        "incremental",
        "backfill",
        "reingest",
        "full_refresh",
        "recover",
        "undo",
        "replay",
        "verify",
        "state",
    ),
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
