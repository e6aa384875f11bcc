"""The request of a run: validated, stored as JSON, and read by the job by its id, so that no user input reaches argv."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pendulum

from tidegate import hidden, json_codec
from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import RunPlace
from tidegate.quarantine.selection import Selection
from tidegate.requests import parameters
from tidegate.requests.runs import RUNS, check_flow
from tidegate.spec import Flow, Intervals, Pipeline
from tidegate.times.window import Window


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One validated request."""

    dag_id: str
    run_id: str
    """Airflow's run id, or an id made by ``tidegate run``."""
    mode: str = "incremental"
    """One of `tidegate.requests.runs.RUNS`."""
    flows: tuple[str, ...] = ()
    """Only these flows, in graph order; empty means all flows to which the mode applies."""
    window: Window | None = None
    """Of a backfill: event time. Of a reingest: modification times of files, or timestamps of messages; with ``gaps``, days of the
    source's intervals."""
    gaps: bool = False
    """Only the intervals of sources of files that are not complete; other flows run an ordinary increment."""
    undoes: str | None = None
    """Of an undo: the run whose commits are put back, by its id, or by its key once `tidegate.runs.undo.plan.plan` found it."""
    dry_run: bool = False
    """Judge what would be written, and write nothing."""
    accept: tuple[str, ...] = ()
    """Numbers of deleted or quarantined rows that are accepted beyond the limits, by name: ``silver:deleted=355``."""
    small: bool = False
    """Little is to be read, so that C1-only compilation is faster (see docs/architecture/spark.md, "Start-up")."""
    size: int | None = None
    """Bytes that are to be read, as they are stored; None if unknown."""
    requested_by: str = ""
    selection: Selection | None = None
    """Which quarantine entries of the one flow are replayed; None except in mode ``replay``."""
    limit: int | None = None
    """The maximum number of these entries, or of the rows that a verification names or the state is shown by; None means no
    limit."""
    keys: tuple[str, ...] = ()
    """Of a verification, and of what is shown of a state: ``<column>=<value>`` of the rows; empty for all."""
    request_id: str = field(default_factory=lambda: fresh_id("q"), compare=False)
    """Shared by the retries of one request. A ``run_id`` does not identify a request: a run that is cleared, or backfilled
    again, in Airflow keeps its ``run_id``."""

    @property
    def run_key(self) -> str:
        """The run's folder under ``reports/<dag_id>/``."""
        return run_key(self.run_id)

    @classmethod
    def check(cls, pipeline: Pipeline, run_id: str, params: dict[str, Any], *, requested_by: str = "") -> Self:
        """A request from unchecked parameters.

        Args:
            params: For example ``{"mode": "incremental", "flows": ["silver"]}``.

        Raises:
            RequestError: A parameter, mode or flow is unknown, or they do not fit together; the message names what is
                allowed.
        """
        mode, dry_run = parameters.mode_and_dry_run(params)
        request = cls(
            dag_id=pipeline.name,
            run_id=run_id,
            mode=mode,
            flows=parameters.flow_names(pipeline, params.get("flows")),
            window=parameters.window_of(pipeline, mode, params.get("from_date"), params.get("to_date")),
            gaps=parameters.gaps_only(mode, params.get("gaps")),
            undoes=parameters.undone_run(mode, params.get("undo_run")),
            dry_run=dry_run,
            accept=parameters.accepted(pipeline, params.get("accept")),
            requested_by=requested_by,
        )
        _check_fits(pipeline, request)
        return request

    @classmethod
    def of_window(
        cls, pipeline: Pipeline, run_id: str, params: dict[str, Any], window: Window, *, requested_by: str = ""
    ) -> Self:
        """The request of one run of ``airflow backfill create``: a backfill of its data interval, without dates.

        Raises:
            RequestError: As for `check`; also for a mode other than ``backfill``, and for dates.
        """
        mode, dry_run = parameters.mode_and_dry_run(params)
        # "incremental" is the default of the form and of scheduled runs, so it does not mean that a person chose it.
        if mode not in ("incremental", "backfill"):
            raise RequestError(
                f"mode={mode!r} cannot be used with `airflow backfill create`: each of its runs backfills its own "
                "data interval.",
                Edit("trigger a single run with this mode", "request"),
            )
        if params.get("from_date") is not None or params.get("to_date") is not None:
            raise RequestError(
                "from_date and to_date cannot be used with `airflow backfill create`: each of its runs backfills "
                "its own data interval",
                Edit("leave them out", "request"),
            )
        parameters.undone_run("backfill", params.get("undo_run"))
        parameters.gaps_only("backfill", params.get("gaps"))
        request = cls(
            dag_id=pipeline.name,
            run_id=run_id,
            mode="backfill",
            flows=parameters.flow_names(pipeline, params.get("flows")),
            window=window,
            dry_run=dry_run,
            accept=parameters.accepted(pipeline, params.get("accept")),
            requested_by=requested_by,
        )
        _check_fits(pipeline, request)
        return request

    def summary(self) -> str:
        """For messages: mode, window and flows."""
        what = f" of {self.window.summary()}" if self.window else f" of run {self.undoes}" if self.undoes else ""
        what = f" of the gaps{what}" if self.gaps else what
        return f"{self.mode.replace('_', ' ')}{what}" + (f", flows {', '.join(self.flows)}" if self.flows else "")

    @classmethod
    def of_replay(
        cls,
        pipeline: Pipeline,
        flow: str,
        run_id: str,
        selection: Selection,
        *,
        requested_by: str,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> Self:
        """The request of a replay of quarantine entries of one flow.

        Args:
            requested_by: The person, for the entries and the ledger.
            dry_run: Report what would happen, and write nothing.

        Raises:
            RequestError: An unknown flow, one whose entries are not replayed, or a limit below 1.
        """
        if limit is not None and limit < 1:
            raise RequestError(f"limit={limit} is not allowed", Edit("allowed: 1 or more", "request"))
        request = cls.check(pipeline, run_id, {"flows": [flow]}, requested_by=requested_by)
        check_flow("replay", pipeline, pipeline.flow(flow))
        return dataclasses.replace(request, mode="replay", selection=selection, limit=limit, dry_run=dry_run)

    @classmethod
    def of_verification(
        cls, pipeline: Pipeline, flow: str, run_id: str, *, requested_by: str, limit: int, keys: Sequence[str] = ()
    ) -> Self:
        """The request to compare the table of one flow with its sources. It is a dry run: it writes nothing.

        Raises:
            RequestError: An unknown flow, one without table, a limit below 1, or a key that is not ``<column>=<value>`` of a
                column by which rows are compared.
        """
        request = cls._of_reading("verify", pipeline, flow, run_id, requested_by, limit, keys)
        target = pipeline.flow(flow).target
        compared = target.keys or (hidden.ROW_ID,)
        if other := [name for key in keys if (name := key.partition("=")[0]) not in compared]:
            raise RequestError(
                f"key {other[0]!r} is not allowed",
                Edit(f"rows of {target.name!r} are compared by {', '.join(compared)}", "request"),
            )
        return request

    @classmethod
    def of_state(
        cls, pipeline: Pipeline, flow: str, run_id: str, *, requested_by: str, limit: int, keys: Sequence[str] = ()
    ) -> Self:
        """The request to read the state of one stateful flow. It is a dry run: it writes nothing.

        Raises:
            RequestError: An unknown flow, one without state, a limit below 1, or a key that is not ``<column>=<value>``.
        """
        return cls._of_reading("state", pipeline, flow, run_id, requested_by, limit, keys)

    @classmethod
    def _of_reading(
        cls, mode: str, pipeline: Pipeline, flow: str, run_id: str, requested_by: str, limit: int, keys: Sequence[str]
    ) -> Self:
        if limit < 1:
            raise RequestError(f"limit={limit} is not allowed", Edit("allowed: 1 or more", "request"))
        if bad := [key for key in keys if not key.partition("=")[0] or "=" not in key]:
            raise RequestError(
                f"key={bad[0]!r} is not allowed", Edit("write column=value, for example id=7", "request")
            )
        request = cls.check(pipeline, run_id, {"flows": [flow]}, requested_by=requested_by)
        check_flow(mode, pipeline, pipeline.flow(flow))
        return dataclasses.replace(request, mode=mode, limit=limit, keys=tuple(keys), dry_run=True)

    def selected(self, pipeline: Pipeline) -> tuple[Flow, ...]:
        """The flows to run, in graph order: those of the request, or all."""
        return tuple(flow for flow in pipeline.flows if not self.flows or flow.name in self.flows)

    def applies_to(self, flow: Flow) -> bool:
        """Whether the mode applies to this flow; other flows run an ordinary increment."""
        return RUNS[self.mode].applies_to(flow) and (not self.gaps or isinstance(flow.intervals, Intervals))

    def write(self, layout: Layout) -> str:
        """Store the request and return its id."""
        json_codec.write(RunPlace(layout, self.dag_id, self.run_key).request(self.request_id), self)
        return self.request_id

    @classmethod
    def read(cls, layout: Layout, dag_id: str, key: str, request_id: str) -> Self:
        """The stored request; raises `RequestError` if there is none with this id."""
        request = json_codec.read(RunPlace(layout, dag_id, key).request(request_id), cls, OutsideAct("start a new run"))
        if request is None or request.mode not in RUNS:
            raise RequestError(f"there is no request {request_id!r} of run {key!r}", OutsideAct("start a new run"))
        return request


def fresh_id(prefix: str) -> str:
    """A unique id of an attempt or a request; sorts by time."""
    return f"{prefix}{pendulum.now('UTC').format('YYYYMMDDTHHmmss')}-{secrets.token_hex(4)}"


def _check_fits(pipeline: Pipeline, request: RunRequest) -> None:
    """Raise `RequestError` if the mode does not apply to a requested flow, or refuses it."""
    if request.mode == "incremental":
        return
    if request.gaps and not any(request.applies_to(flow) for flow in pipeline.flows):
        raise RequestError(
            f"pipeline {pipeline.name!r} has no gaps: none of its sources of files declares intervals.",
            Either(
                Edit("write FileSource(…, intervals=Intervals(…))", "declaration"),
                Edit("name the days with from_date and to_date", "request"),
            ),
        )
    for flow in request.selected(pipeline):
        if request.applies_to(flow):
            check_flow(request.mode, pipeline, flow)
        elif request.flows:
            applicable = [other.name for other in pipeline.flows if request.applies_to(other)]
            raise RequestError(
                f"mode={request.mode!r}{' with gaps' if request.gaps else ''} does not apply to flow {flow.name!r}",
                Edit(
                    f"it applies to: {', '.join(applicable) or 'no flow of this pipeline'}"
                    + (f". {flow.kind.instead.capitalize()}" if flow.kind.instead else ""),
                    "request",
                ),
            )
