"""The kinds of run: which flows each applies to, what it refuses, and the function that does it. A new kind is one line in `RUNS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import RequestError
from tidegate.spec import Flow, Pipeline


def _accept(_pipeline: Pipeline, _flow: Flow) -> None:
    """Refuse nothing."""


@dataclass(frozen=True, kw_only=True)
class RunKind:
    """One kind of run; its name is the ``mode`` of a request."""

    meaning: str
    """For forms and messages; empty for a run that has commands of its own."""
    code: str
    """``<module>:<function>``: takes the `tidegate.spark.job.Job` of one flow. It is imported by the application only."""
    dry_run: str = "tidegate.spark.runs:judge_nothing"
    """In the same form: what a dry run does to one flow. It writes nothing."""
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
    plan: str = ""
    """``<module>:<function>``: takes the environment, the resolved pipeline and the request, and returns the request to run and lines
    for people; a dry run of it is a job as well. Empty for a run whose preview says what it reads (`tidegate.planning.preview`)."""
    rewrites: str = "{table} ({rows}), where the result differs"
    """What may change, for plans: with ``{table}``, the number of its ``{rows}``, and ``{keys}``, those in the window."""

    @property
    def judges(self) -> bool:
        """Whether rows are derived and judged; if not, it depends neither on the suite nor on what its flow reads next."""
        return self.derives and not self.only_reads


def _check_event_time(pipeline: Pipeline, flow: Flow) -> None:
    table = event_time_table(flow)
    if event_time(pipeline, flow) is not None:
        return
    if pipeline.writer_of(table) is None:
        raise RequestError(
            f"flow {flow.name!r} cannot be backfilled: another pipeline writes {table!r}, from which its "
            "groups are computed.",
            Either(
                OutsideAct("backfill that pipeline: the next increment reads the changes"),
                Edit(
                    f"declare Table(…, event_time=<a date or timestamp among its keys>) for {flow.target.name!r}",
                    "declaration",
                ),
                Edit("use mode='full_refresh'", "request"),
            ),
        )
    raise RequestError(
        f"flow {flow.name!r} cannot be backfilled: no event_time is declared.",
        Either(
            Edit(f"write Table(…, event_time=<a date or timestamp column>) for {table!r}", "declaration"),
            Edit("use mode='full_refresh'", "request"),
        ),
    )


def _derives_keys(flow: Flow) -> bool:
    """Whether rows of some keys can be derived, or put back, without the others."""
    return bool(flow.target.keys) and flow.kind.derives_keys


def _check_stateful(pipeline: Pipeline, flow: Flow) -> None:
    if not flow.kind.stateful:
        stateful = ", ".join(each.name for each in pipeline.flows if each.kind.stateful)
        raise RequestError(
            f"flow {flow.name!r} keeps no state",
            Edit(f"stateful flows of this pipeline: {stateful or 'none'}", "request"),
        )


RUNS: dict[str, RunKind] = {
    "incremental": RunKind(
        meaning="read what is new since the checkpoint",
        code="tidegate.spark.runs:increment",
        dry_run="tidegate.spark.runs:judge_new_version",
        applies_to=lambda _: False,
    ),
    "backfill": RunKind(
        meaning="derive the rows of a window of event time again, with the present code and suite",
        code="tidegate.spark.runs:backfill",
        dry_run="tidegate.spark.runs:judge_backfill",
        replaces_rows=True,
        applies_to=_derives_keys,
        check=_check_event_time,
        window="required",
        rewrites="{keys}, where the result differs",
    ),
    "reingest": RunKind(
        meaning="read the landing zone or the topic again; only what bronze does not contain is written",
        code="tidegate.spark.runs:reingest",
        applies_to=lambda flow: not flow.feeds,
        window="optional",
        gaps=True,
        rewrites="nothing: only missing rows are added to {table}",
    ),
    "full_refresh": RunKind(
        meaning="derive whole tables again; readers see the old ones until the new ones are complete",
        code="tidegate.spark.runs:full_refresh",
        dry_run="tidegate.spark.runs:judge_full_refresh",
        replaces_rows=True,
        applies_to=lambda flow: flow.is_staged,
    ),
    "recover": RunKind(
        meaning="derive again what damage of tables or checkpoints has reached; all else reads what is new",
        code="tidegate.spark.runs:recover",
        applies_to=lambda _: True,
        plan="tidegate.planning.recovery:plan_run",
        rewrites="nothing of {table} unless it is damaged, which `tidegate recover --plan` shows",
    ),
    "undo": RunKind(
        meaning="put back the rows that a backfill or a replay changed, where they are still what that run made",
        code="tidegate.spark.runs:undo",
        dry_run="tidegate.spark.runs:undo",
        applies_to=_derives_keys,
        reads_source=False,
        increments=False,
        derives=False,
        of_run=True,
        plan="tidegate.planning.undo:plan_run",
    ),
    "replay": RunKind(
        meaning="",
        code="tidegate.spark.runs:replay",
        dry_run="tidegate.spark.runs:replay",
        applies_to=lambda _: True,
        reads_source=False,
        increments=False,
    ),
    "verify": RunKind(
        meaning="",
        code="tidegate.spark.reprocessing.verify:verify",
        dry_run="tidegate.spark.reprocessing.verify:verify",
        applies_to=lambda _: True,
        increments=False,
        only_reads=True,
    ),
    "state": RunKind(
        meaning="",
        code="tidegate.spark.reprocessing.stored_state:show",
        dry_run="tidegate.spark.reprocessing.stored_state:show",
        applies_to=lambda _: True,
        check=_check_stateful,
        reads_source=False,
        increments=False,
        derives=False,
        only_reads=True,
    ),
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


def event_time_table(flow: Flow) -> str:
    """The table whose event time defines windows of this flow: its target, or the source of its groups."""
    return flow.source_tables[0] if flow.kind.has_groups else flow.target.name


def event_time(pipeline: Pipeline, flow: Flow) -> str | None:
    """The event time column of `event_time_table`; None if none is known.

    A key of groups is a column of that table as well, so it may be declared for the groups, where another pipeline writes the table.
    """
    name, target = event_time_table(flow), flow.target
    declared = next((each.target.event_time for each in pipeline.flows if each.target.name == name), None)
    is_column = flow.kind.has_groups and target.windows is None and target.event_time in target.scope
    return declared or (target.event_time if is_column else None)
