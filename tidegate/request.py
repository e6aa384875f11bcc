"""What a run is asked to do: checked JSON that the job reads by its id, so that no input of a person reaches argv."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import secrets
from dataclasses import dataclass
from typing import Any, Literal, Self

import pendulum

from tidegate.errors import RequestError
from tidegate.layout import Layout, run_key
from tidegate.selection import Selection
from tidegate.spec import Flow, Pipeline

Mode = Literal["incremental", "quarantine"]
MODES: tuple[Mode, ...] = ("incremental",)
"""What a person may choose for a run of a pipeline; ``quarantine`` is what `RunRequest.replay` asks for."""

KEYS = ("mode", "flows")
"""What a person may say when they trigger a run."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One checked request."""

    dag_id: str
    run_id: str
    """Airflow's id of the run, or one of our own for ``tidegate run``."""
    mode: Mode = "incremental"
    flows: tuple[str, ...] = ()
    """Only these flows, in graph order; empty means all."""
    small: bool = False
    """Little is pending, so that C1-only compilation pays (see docs/architecture.md, "Start-up")."""
    requested_by: str = ""
    selection: Selection | None = None
    """Which quarantined entries of the one flow are replayed; None but in mode ``quarantine``."""
    limit: int | None = None
    """At most so many of them; None means all."""
    dry_run: bool = False
    """Judge the entries and write nothing."""

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
        unknown = sorted(set(asked) - set(KEYS))
        if unknown:
            raise RequestError(f"unknown key {', '.join(map(repr, unknown))}; allowed: {', '.join(KEYS)}")
        mode = asked.get("mode", "incremental")
        if mode not in MODES:
            raise RequestError(f"mode={mode!r} is not allowed; allowed: {', '.join(MODES)}")
        flows = asked.get("flows") or ()
        known = [flow.name for flow in pipeline.flows]
        if not isinstance(flows, list | tuple) or (strange := [name for name in flows if name not in known]):
            told = ", ".join(map(repr, strange)) if isinstance(flows, list | tuple) else repr(flows)
            raise RequestError(f"pipeline {pipeline.name!r} has no flow {told}; it has: {', '.join(known)}")
        return cls(dag_id=pipeline.name, run_id=run_id, mode=mode, flows=tuple(flows), requested_by=requested_by)

    @classmethod
    def replay(
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
        """The flows to run, in graph order."""
        return tuple(flow for flow in pipeline.flows if not self.flows or flow.name in self.flows)

    def write(self, layout: Layout) -> str:
        """Store it and return its id."""
        request_id = fresh_id("q")
        path = layout.request(self.dag_id, self.run_key, request_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(dataclasses.asdict(self), indent=1))
        pathlib.Path(draft).replace(path)
        return request_id

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
        return cls(**plain)


def fresh_id(prefix: str) -> str:
    """An id for an attempt or a request: sorts by time and never repeats."""
    return f"{prefix}{pendulum.now('UTC').format('YYYYMMDDTHHmmss')}-{secrets.token_hex(4)}"
