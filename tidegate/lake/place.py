"""The addresses of a pipeline in the lake, of one of its flows, of a checkpoint, of a run and of an attempt at it.

A checkpoint is in ``checkpoints/<pipeline>/<flow>/v<N>/<refresh>``. ``N`` is raised by a person in the declaration; ``refresh`` by a
full refresh. No checkpoint is deleted. A new path always has a new transaction id, because batch ids start at 0 again and Delta would
silently drop every write under an old one (Delta's documentation, "Idempotent table writes in foreachBatch").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.lake import identity
from tidegate.lake.layout import Layout
from tidegate.store import Address

MORE_CONTENTS = "more_contents.json"
"""The name of what is kept of own tables, beside them."""


@dataclass(frozen=True)
class PipelinePlace:
    """A pipeline in a lake."""

    layout: Layout
    pipeline: str

    @property
    def reports(self) -> Address:
        """The folder of all runs."""
        return self.layout.root / "reports" / self.pipeline

    @property
    def docs(self) -> Address:
        """Where ``tidegate docs`` exports the pages by default."""
        return self.layout.root / "docs" / self.pipeline

    @property
    def plans(self) -> Address:
        """Results of `plan`, one line of JSON each."""
        return self.layout.root / "_ops" / self.pipeline / "plans.jsonl"

    @property
    def contents(self) -> Address:
        """Small contents that plans have read, with their tags (`tidegate.ops.contents`)."""
        return self.layout.root / "_ops" / self.pipeline / "contents.json"

    @property
    def more_contents(self) -> Address:
        """Likewise what only a status or alerts have read."""
        return self.ops(MORE_CONTENTS)

    @property
    def schemas(self) -> Address:
        """The folder of the writers' schemas from the schema registry, by id."""
        return self.layout.root / "_ops" / self.pipeline / "schemas"

    def ops(self, table: str) -> Address:
        """A Delta table of Tidegate's own about the pipeline: ``ledger``, ``verdicts`` and others."""
        return self.layout.root / "_ops" / self.pipeline / table

    def flows_with_checkpoints(self) -> list[FlowPlace]:
        """The flows that have left something beside their checkpoints, by name, declared or not."""
        folder = self.layout.root / "checkpoints" / self.pipeline
        return [self.flow(name) for name in sorted(each.name for each in folder.list() if each.is_folder)]

    def flow(self, name: str) -> FlowPlace:
        """One of its flows."""
        return FlowPlace(self.layout, self.pipeline, name)


@dataclass(frozen=True)
class FlowPlace:
    """A flow in a lake."""

    layout: Layout
    pipeline: str
    flow: str

    @property
    def of_pipeline(self) -> PipelinePlace:
        """Its pipeline."""
        return PipelinePlace(self.layout, self.pipeline)

    @property
    def checkpoints(self) -> Address:
        """The folder of the flow's checkpoints and of the notes beside them (`tidegate.checkpoints.notes`)."""
        return self.layout.root / "checkpoints" / self.pipeline / self.flow

    @property
    def quarantine(self) -> Address:
        """The quarantine table of the flow (Delta)."""
        return self.layout.root / "quarantine" / self.pipeline / self.flow

    @property
    def late(self) -> Address:
        """The late rows of a flow with a watermark (Delta)."""
        return self.layout.root / "late" / self.pipeline / self.flow

    @property
    def heartbeats(self) -> Address:
        """The heartbeats of a flow with a watermark (Delta): ``event_time, at, _app_id, watermark``."""
        return self.layout.root / "heartbeats" / self.pipeline / self.flow

    @property
    def replays_app_id(self) -> str:
        """The ``txnAppId`` of all replays of the flow's quarantine, for every checkpoint version."""
        return f"{self.pipeline}/{self.flow}/{identity.REPLAY}"

    @property
    def undos_app_id(self) -> str:
        """The ``txnAppId`` of all undos of the flow's runs, for every checkpoint version."""
        return f"{self.pipeline}/{self.flow}/{identity.UNDO}"

    def of_version(self, version: int, refresh: int = 0) -> Place:
        """A checkpoint of a version, by default its first."""
        return Place(self.layout, self.pipeline, self.flow, version, refresh)

    def of_stream(self, app_id: str) -> Place | None:
        """The checkpoint of the flow whose stream has this transaction id; None for other ids, and for those of other flows."""
        first = f"{self.pipeline}/{self.flow}/v"
        numbers = app_id.removeprefix(first).split("/") if app_id.startswith(first) else []
        if len(numbers) != 2 or not all(number.isdigit() for number in numbers):
            return None
        return self.of_version(int(numbers[0]), int(numbers[1]))


@dataclass(frozen=True)
class Place(FlowPlace):
    """A checkpoint of a flow in a lake."""

    version: int
    refresh: int

    @property
    def checkpoint(self) -> Address:
        """Spark's checkpoint folder."""
        return self.checkpoints / f"v{self.version}" / str(self.refresh)

    @property
    def staging(self) -> Address:
        """The Delta table that a full refresh builds before its swap."""
        return self.layout.root / "staging" / self.pipeline / self.flow / f"v{self.version}-{self.refresh}"

    @property
    def next_refresh(self) -> Place:
        """The checkpoint of the flow's next full refresh, of the same version."""
        return replace(self, refresh=self.refresh + 1)

    @property
    def app_id(self) -> str:
        """The ``txnAppId`` of every write of this checkpoint's query."""
        return f"{self.pipeline}/{self.flow}/v{self.version}/{self.refresh}"

    @property
    def windows_app_id(self) -> str:
        """The ``txnAppId`` of the backfills and reingests of windows that belong to this checkpoint."""
        return f"{self.app_id}/{identity.WINDOW}"

    @property
    def snapshots_app_id(self) -> str:
        """The ``txnAppId`` of the snapshots beside the changes of this checkpoint."""
        return f"{self.app_id}/{identity.SNAPSHOT}"


@dataclass(frozen=True)
class RunPlace:
    """A run of a pipeline in a lake. Ids are checked when an address is asked for: they may come from outside."""

    layout: Layout
    pipeline: str
    run_key: str

    def request(self, request_id: str) -> Address:
        """The request of the run, as JSON."""
        return (
            PipelinePlace(self.layout, self.pipeline).reports
            / _valid_id(self.run_key)
            / f"{_valid_id(request_id)}.request.json"
        )

    @property
    def application(self) -> Address:
        """Which application of a cluster runs it, as JSON (`tidegate.checkpoints.recorded_attempt`)."""
        return PipelinePlace(self.layout, self.pipeline).reports / _valid_id(self.run_key) / "application.json"

    def claims(self, request_id: str) -> Address:
        """The numbers of a replay's claims, as JSON, for its next attempt."""
        request = self.request(request_id)
        return request.parent / f"{request.stem}.claims.json"


@dataclass(frozen=True)
class AttemptPlace:
    """One attempt at a run in a lake. Keys and rows, which are values of the data, have files of their own, so that no log has them."""

    layout: Layout
    pipeline: str
    run_key: str
    attempt: str

    @property
    def folder(self) -> Address:
        """The folder of the attempt's report."""
        return PipelinePlace(self.layout, self.pipeline).reports / _valid_id(self.run_key) / _valid_id(self.attempt)

    @property
    def report(self) -> Address:
        """The run report."""
        return self.folder / "report.json"

    def sample(self, flow: str) -> Address:
        """Keys of some rows that a rewrite of the flow deletes, changes or quarantines, as JSON."""
        return self.folder / f"sample-{flow}.json"

    def differences(self, flow: str) -> Address:
        """Keys of rows that a verification of the flow found to differ, as JSON."""
        return self.folder / f"differences-{flow}.json"

    def stored_state(self, flow: str) -> Address:
        """Rows of the flow's state, as JSON."""
        return self.folder / f"state-{flow}.json"

    def undone_keys(self, flow: str) -> Address:
        """Keys of rows that an undo puts back or leaves, as JSON."""
        return self.folder / f"undo-{flow}.json"


def _valid_id(part: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", part):
        raise RequestError(
            f"{part!r} is not the id of a run or an attempt",
            Edit("an id has letters, digits, '-' and '_' only", "request"),
        )
    return part
