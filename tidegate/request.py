"""What a run is asked to do: checked JSON that the job reads by its id, so that no input of a person reaches argv."""

from __future__ import annotations

import dataclasses
import json
import secrets
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import pendulum

from tidegate import atomic
from tidegate.errors import RequestError
from tidegate.layout import Layout, run_key
from tidegate.quarantine.selection import Selection
from tidegate.spec import ChangeFeed, Flow, Pipeline
from tidegate.window import Window

Mode = Literal["incremental", "replay", "reingest", "full_refresh", "quarantine"]
MODES: tuple[Mode, ...] = ("incremental", "replay", "reingest", "full_refresh")
"""What a person may choose for a run of a pipeline; ``quarantine`` is what `RunRequest.of_quarantine` asks for."""

MEANINGS: dict[Mode, str] = {
    "incremental": "read what is new since the checkpoint",
    "replay": "derive the rows of a window of event time anew, with today's code and suite",
    "reingest": "read the landing zone or the topic again; only what bronze lacks arrives",
    "full_refresh": "derive whole tables anew; readers see the old ones until the new ones are complete",
}
"""What each mode does, for forms and messages."""

KEYS = ("mode", "flows", "from_date", "to_date", "dry_run")
"""What a person may say when they trigger a run."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One checked request."""

    dag_id: str
    run_id: str
    """Airflow's id of the run, or one of our own for ``tidegate run``."""
    mode: Mode = "incremental"
    flows: tuple[str, ...] = ()
    """Only these flows, in graph order; empty means all that the mode is for."""
    window: Window | None = None
    """Of a replay the event time; of a reingest when files were changed last, or when messages were sent."""
    dry_run: bool = False
    """Say what would be done, and end."""
    small: bool = False
    """Little is pending, so that C1-only compilation pays (see docs/architecture.md, "Start-up")."""
    requested_by: str = ""
    selection: Selection | None = None
    """Which quarantined entries of the one flow are replayed; None but in mode ``quarantine``."""
    limit: int | None = None
    """At most so many of them; None means all."""
    request_id: str = field(default_factory=lambda: fresh_id("q"), compare=False)
    """New each time somebody, or `plan`, decides; retries of the application keep it. Airflow gives a run that is cleared
    or backfilled again its old ``run_id``, so that one does not tell a new request from a retry."""

    @property
    def run_key(self) -> str:
        """The run's folder under ``reports/<dag_id>/``."""
        return run_key(self.run_id)

    @classmethod
    def check(cls, pipeline: Pipeline, run_id: str, asked: dict[str, Any], *, requested_by: str = "") -> Self:
        """Check what a person asked for.

        Args:
            pipeline: The pipeline to run.
            run_id: The id of the run.
            asked: For example ``{"mode": "incremental", "flows": ["silver"]}``.
            requested_by: Who asked, for the ledger.

        Raises:
            RequestError: An unknown key, mode or flow; the message says what is allowed.
        """
        mode, dry_run = _checked(asked)
        request = cls(
            dag_id=pipeline.name,
            run_id=run_id,
            mode=mode,
            flows=_flows(pipeline, asked.get("flows")),
            window=_window(pipeline, mode, asked.get("from_date"), asked.get("to_date")),
            dry_run=dry_run,
            requested_by=requested_by,
        )
        _check_fits(pipeline, request)
        return request

    @classmethod
    def of_window(
        cls, pipeline: Pipeline, run_id: str, asked: dict[str, Any], window: Window, *, requested_by: str = ""
    ) -> Self:
        """The replay of one data interval of a backfill, in place of dates that a person names.

        Raises:
            RequestError: As `check`.
        """
        mode, dry_run = _checked(asked)
        # The form and the schedule say "incremental" of whatever nobody chose.
        if mode not in ("incremental", "replay"):
            raise RequestError(
                f"mode={mode!r} does not go with a backfill: each of its runs replays its own interval. Trigger one run with it"
            )
        if asked.get("from_date") is not None or asked.get("to_date") is not None:
            raise RequestError(
                "from_date and to_date do not go with a backfill: each of its runs replays its own interval"
            )
        request = cls(
            dag_id=pipeline.name,
            run_id=run_id,
            mode="replay",
            flows=_flows(pipeline, asked.get("flows")),
            window=window,
            dry_run=dry_run,
            requested_by=requested_by,
        )
        _check_fits(pipeline, request)
        return request

    def told(self) -> str:
        """For people: mode, window and flows."""
        window = f" of {self.window.told()}" if self.window else ""
        return f"{self.mode.replace('_', ' ')}{window}" + (f", flows {', '.join(self.flows)}" if self.flows else "")

    @classmethod
    def of_quarantine(
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
        """Ask for a replay of what one flow holds in quarantine.

        Args:
            pipeline: The pipeline.
            flow: The flow.
            run_id: The id of the run.
            selection: Checked.
            requested_by: Who asked, for the entries and the ledger.
            limit: At most so many entries.
            dry_run: Only say what would happen.

        Raises:
            RequestError: An unknown flow, or a limit below 1.
        """
        if limit is not None and limit < 1:
            raise RequestError(f"limit={limit} is not allowed; allowed: 1 or more")
        plain = cls.check(pipeline, run_id, {"flows": [flow]}, requested_by=requested_by)
        return dataclasses.replace(plain, mode="quarantine", selection=selection, limit=limit, dry_run=dry_run)

    def chosen(self, pipeline: Pipeline) -> tuple[Flow, ...]:
        """The flows to run, in graph order. A reingest goes on through the flows below, unless some are named."""
        return tuple(flow for flow in pipeline.flows if not self.flows or flow.name in self.flows)

    def concerns(self, flow: Flow) -> bool:
        """Whether the mode does something of its own in this flow; else it takes an ordinary increment."""
        match self.mode:
            case "incremental" | "quarantine":
                return False
            case "reingest":
                return not isinstance(flow.source, ChangeFeed)
            case "replay" | "full_refresh":
                return bool(flow.target.keys)

    def write(self, layout: Layout) -> str:
        """Store it and return its id."""
        path = layout.request(self.dag_id, self.run_key, self.request_id)
        atomic.write_text(path, json.dumps(dataclasses.asdict(self), indent=1))
        return self.request_id

    @classmethod
    def read(cls, layout: Layout, dag_id: str, key: str, request_id: str) -> Self:
        """The stored request.

        Raises:
            RequestError: There is no such request.
        """
        path = layout.request(dag_id, key, request_id)
        try:
            plain = json.loads(path.read_text())
        except FileNotFoundError:
            raise RequestError(f"there is no request {request_id!r} of run {key!r}; start a new run") from None
        plain["flows"] = tuple(plain["flows"])
        if plain.get("selection") is not None:
            plain["selection"] = Selection(**plain["selection"])
        plain["window"] = Window(**plain["window"]) if plain["window"] else None
        return cls(**plain)


def fresh_id(prefix: str) -> str:
    """An id for an attempt or a request: sorts by time and never repeats."""
    return f"{prefix}{pendulum.now('UTC').format('YYYYMMDDTHHmmss')}-{secrets.token_hex(4)}"


def _checked(asked: dict[str, Any]) -> tuple[Mode, bool]:
    unknown = sorted(set(asked) - set(KEYS))
    if unknown:
        raise RequestError(f"unknown key {', '.join(map(repr, unknown))}; allowed: {', '.join(KEYS)}")
    mode, dry_run = asked.get("mode", "incremental"), asked.get("dry_run")
    if mode not in MODES:
        raise RequestError(f"mode={mode!r} is not allowed; allowed: {', '.join(MODES)}")
    if not isinstance(dry_run, bool | None):
        raise RequestError(f"dry_run={dry_run!r} is not allowed; allowed: true, false")
    return mode, bool(dry_run)


def _flows(pipeline: Pipeline, asked: object) -> tuple[str, ...]:
    flows = asked or ()
    known = [flow.name for flow in pipeline.flows]
    if not isinstance(flows, list | tuple):
        raise RequestError(f"flows={flows!r} is not a list; pipeline {pipeline.name!r} has: {', '.join(known)}")
    if strange := [name for name in flows if name not in known]:
        told = ", ".join(map(repr, strange))
        raise RequestError(f"pipeline {pipeline.name!r} has no flow {told}; it has: {', '.join(known)}")
    return tuple(name for name in known if name in flows)


def _window(pipeline: Pipeline, mode: Mode, first: object, last: object) -> Window | None:
    if first is None and last is None:
        if mode == "replay":
            raise RequestError("mode='replay' needs from_date and to_date, for example 2026-03-01 and 2026-03-07")
        return None
    if mode not in ("replay", "reingest"):
        raise RequestError(f"from_date and to_date do not go with mode={mode!r}; they go with: replay, reingest")
    if first is None or last is None:
        raise RequestError("from_date and to_date go together; one of them is missing")
    return Window.of_dates(first, last, pipeline.timezone)


def _check_fits(pipeline: Pipeline, request: RunRequest) -> None:
    """Refuse what the mode cannot do with a flow that was named."""
    if request.mode == "incremental":
        return
    for flow in request.chosen(pipeline):
        if request.flows and not request.concerns(flow):
            right = [other.name for other in pipeline.flows if request.concerns(other)]
            raise RequestError(
                f"mode={request.mode!r} is not for flow {flow.name!r}; it is for: {', '.join(right) or 'no flow of this pipeline'}"
            )
        if request.mode == "replay" and request.concerns(flow) and event_time(pipeline, flow) is None:
            if pipeline.writer_of(timed_table(pipeline, flow)) is None:
                raise RequestError(
                    f"flow {flow.name!r} cannot be replayed by a window: another pipeline writes {timed_table(pipeline, flow)!r}, "
                    "of which its groups are made. Replay that pipeline: the next increment takes what changed. "
                    "Or use mode='full_refresh'."
                )
            raise RequestError(
                f"flow {flow.name!r} cannot be replayed by a window: no event_time is declared. Write "
                f"Table(…, event_time=<a date or timestamp column>) for {timed_table(pipeline, flow)!r}, or use mode='full_refresh'."
            )


def timed_table(pipeline: Pipeline, flow: Flow) -> str:
    """The table whose event time says what a window of this flow is: its own, or the one that its groups are made of."""
    if flow.target.write_mode == "recompute" and isinstance(flow.source, ChangeFeed):
        return flow.source.table
    return flow.target.name


def event_time(pipeline: Pipeline, flow: Flow) -> str | None:
    """The event time's column of `timed_table`."""
    name = timed_table(pipeline, flow)
    return next((each.target.event_time for each in pipeline.flows if each.target.name == name), None)
