"""The ledger and the verdicts of a pipeline: one line per batch, backfill, replay, swap and decision; one per verdict.

Written with delta-rs and not with Spark: a line costs milliseconds instead of a second, and its commit is a rename that
fails if the name exists, so of two concurrent drivers of one pipeline only one succeeds (docs/adr/0002).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate import formatting
from tidegate.checkpoints import overrides
from tidegate.lake import identity
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.ops import store
from tidegate.ops.table import OwnTable, Small
from tidegate.probes import delta_table
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.verdict import ExpectationResult, Verdict


@dataclass(frozen=True, kw_only=True)
class RunOrigin:
    """The run and the checkpoint of a line or a verdict. A decision has neither, and is of a mode of its own."""

    run_key: str | None = None
    """The run of the request."""
    mode: str | None = None
    """Of the request; of a decision its kind."""
    requested_by: str | None = None
    """None if a schedule requested it."""
    attempt: str | None = None
    """The attempt that recorded the line."""
    checkpoint_version: Small | None = None
    """None, like ``refresh``, for what belongs to no checkpoint: a decision about entries, a replay that a contract refused."""
    refresh: Small | None = None
    recorded_at: datetime = dataclasses.field(default_factory=lambda: datetime.now(UTC))

    @property
    def request_label(self) -> str:
        """Mode and author of the request; empty for an increment (`tidegate.formatting.request_label`)."""
        return formatting.request_label(self.mode, self.requested_by)


@dataclass(frozen=True, kw_only=True)
class RecordedLine(RunOrigin, LedgerLine):
    """A line of the ledger."""

    def prepared(self) -> LedgerLine:
        """The line as the commit and the report have it."""
        return LedgerLine(**{each.name: getattr(self, each.name) for each in dataclasses.fields(LedgerLine)})


@dataclass(frozen=True, kw_only=True)
class RecordedVerdict(RunOrigin, Verdict):
    """A verdict in one attempt."""

    @property
    def unmet(self) -> tuple[ExpectationResult, ...]:
        """The expectations that were not met."""
        return tuple(result for result in self.results if not result.success)


LEDGER = OwnTable("ledger", RecordedLine)
VERDICTS = OwnTable("verdicts", RecordedVerdict)


def record(place: PipelinePlace, line: LedgerLine, origin: RunOrigin) -> None:
    """Append a line, which balances; recording the same line again has no effect."""
    app_id = f"{line.app_id}/swap" if line.kind == "swap" else line.app_id
    LEDGER.append(place, [RecordedLine(**vars(line), **vars(origin))], (app_id, line.batch_id))


def record_gaps(place: FlowPlace) -> None:
    """Append a line for each accepted gap or loss, and each start, that has none, in the order of the decisions.

    Args:
        place.layout: The lake; the caller holds the flow's lease.
    """
    accepted = (each for each in overrides.history(place) if each.act in ("gap", "loss", "start"))
    for number, decision in enumerate(accepted):
        what = "start" if decision.act == "start" else identity.GAP
        lost = {
            f"{what}({decision.topic} {partition}:{first}-{last})": last - first + 1
            for partition, (first, last) in (decision.offsets or {}).items()
        }
        if decision.lost is not None:
            lost = {f"{identity.GAP}({decision.what})": decision.lost}
        line = LedgerLine(
            flow=place.flow,
            batch_id=number,
            app_id=f"{place.pipeline}/{place.flow}/{identity.GAP}",
            kind="gap",
            read=sum(lost.values()),
            filtered=lost,
        )
        record(place.of_pipeline, line, RunOrigin(mode=line.kind, requested_by=decision.by))


def record_verdict(place: PipelinePlace, verdict: Verdict, origin: RunOrigin) -> None:
    """Append a verdict. Every attempt at a batch has its own, so the commit carries no transaction id.

    With the batch's id, a recorded refusal would suppress the verdict of a later attempt at the same batch.
    """
    VERDICTS.append(place, [RecordedVerdict(**vars(verdict), **vars(origin))])


def rows_read(place: PipelinePlace, app_id: str) -> int:
    """Rows that the batches of a transaction id have read; no swap is among them, which counts groups."""
    sql = f"SELECT coalesce(sum(read), 0)::BIGINT AS read FROM delta_table WHERE app_id = '{app_id}'"
    return sum(int(line["read"]) for line in store.select(place.ops("ledger"), sql))


def watermark(place: Place, before: int | None = None) -> datetime | None:
    """The highest watermark that batches of a checkpoint recorded, and replays into its table.

    Args:
        before: Only batches before this number.
    """
    path = place.of_pipeline.ops("ledger")
    table = delta_table.find(path)
    if table is None or "watermark" not in (column.name for column in table.schema().fields):
        return None
    earlier = "" if before is None else f" AND batch_id < {before}"
    of_replays = f"checkpoint_version = {place.version} AND refresh = {place.refresh}"
    [line] = store.select(
        path,
        f"SELECT max(watermark) AS watermark FROM delta_table WHERE app_id = '{place.app_id}'{earlier} "
        f"OR app_id = '{place.replays_app_id}' AND {of_replays}",
    )
    recorded: datetime | None = line["watermark"]
    return recorded
