"""How far a flow has read its source table, and which of its batches read a commit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints import checkpoint, progress, refusal, vector
from tidegate.errors import CheckpointError
from tidegate.formatting import count
from tidegate.ops import query

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout
    from tidegate.lake.place import Place
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.reports.ledger_line import LedgerLine
    from tidegate.trace.changes import Ledger

_OFFSETS = "FROM delta_table WHERE app_id = ? AND end_offset IS NOT NULL ORDER BY batch_id, recorded_at"


@dataclass(frozen=True, kw_only=True)
class SourcePosition:
    """How far a flow's present checkpoint has read one of its source tables."""

    layout: Layout
    flow: ResolvedFlow
    place: Place
    number: int
    """Of the source among those of the flow's query."""
    next_version: int
    """The first version of which nothing, or not all, has been read."""

    @classmethod
    def of(cls, layout: Layout, flow: ResolvedFlow, table: str) -> SourcePosition | None:
        """The position in a source table after the last committed batch; None if the checkpoint cannot be read."""
        place = checkpoint.current(flow.place(layout), flow.flow.checkpoint_version)
        try:
            next_version = _next_version(flow, place, table)
        except CheckpointError:
            return None
        # The query of a stateful flow reads heartbeats before its source.
        number = flow.flow.source_tables.index(table) + flow.flow.kind.stateful
        return cls(layout=layout, flow=flow, place=place, number=number, next_version=next_version)

    def explain(self, version: int, ledger: Ledger) -> tuple[str, ...]:
        """Why a row that this version of the source added is in neither target nor quarantine.

        Args:
            ledger: That of the flow.
        """
        if self.next_version <= version:
            return (self._waiting(version),)
        numbers = self._batches(version)
        if self.flow.flow.kind.stateful:
            # A batch without results has no line in the ledger.
            by = f"batch {numbers[-1]}" if numbers else self._name
            return (f"{by} read it; no result has its _row_id: a result may be of several rows, or not be made yet",)
        lines = [line for number in numbers for line in ledger.lines(self.app_id, number)]
        if not lines:
            return (f"{self._name} has read version {version}, and which batch did is no longer known",)
        if self.flow.flow.kind.has_groups:
            last = lines[-1].batch_id
            return (f"batch {last} read it; the transform made no row of its group, or a later change removed it",)
        return tuple(_dispositions(line) for line in lines)

    @property
    def app_id(self) -> str:
        """The transaction id of the checkpoint's stream."""
        return f"{self._name}/v{self.place.version}/{self.place.refresh}"

    @property
    def _name(self) -> str:
        return f"{self.flow.pipeline.name}/{self.flow.flow.name}"

    def _waiting(self, version: int) -> str:
        batch = refusal.waiting_batch(self.place)
        if batch is not None:
            return f"{self._name} has not read version {version} yet: batch {batch} was refused and waits"
        return f"{self._name} has not read version {version} yet"

    def _batches(self, version: int) -> list[int]:
        """The batches whose offsets include a version: from the table of progress, which keeps what Spark's log deletes."""
        rows = query.query(
            self.flow.place(self.layout).of_pipeline.ops("progress"),
            ("app_id", "batch_id", "start_offset", "end_offset", "recorded_at"),
            _OFFSETS,
            [self.app_id],
        )
        return sorted({row["batch_id"] for row in rows if _includes(row, version, self.number)})


def _next_version(flow: ResolvedFlow, place: Place, table: str) -> int:
    folder = place.checkpoint
    committed = progress.read(folder).last_committed
    if committed is None:
        return 0
    if flow.flow.sources:
        return vector.of_batch(place, committed, flow.flow.source_tables)[table] + 1
    planned = progress.planned_batch(folder, committed)
    position = planned.delta_positions(2)[1] if flow.flow.kind.stateful else planned.delta
    return 0 if position is None else position.pin + 1


def _includes(row: dict[str, Any], version: int, number: int) -> bool:
    start, end = (_of_source(json.loads(row[name] or "null"), number) for name in ("start_offset", "end_offset"))
    if end is None:
        return False
    # A first load reads all versions up to its own.
    first = 0 if start is None or start.get("isStartingVersion") else int(start["reservoirVersion"])
    last = int(end["reservoirVersion"]) - (int(end["index"]) < 0 and not end.get("isStartingVersion"))
    return first <= version <= last


def _of_source(offset: Any, number: int) -> Any:
    """The offset of one source, where it is a list of those of several (`tidegate.ops.metrics.QueryProgress`)."""
    value = offset[number] if isinstance(offset, list) else offset
    return json.loads(value) if isinstance(value, str) else value


def _dispositions(line: LedgerLine) -> str:
    parts = [f"{rows:,} filtered by {rule}" for rule, rows in sorted(line.filtered.items())]
    parts += [f"{getattr(line, name):,} {name}" for name in ("deduplicated", "superseded") if getattr(line, name)]
    read = f"batch {line.batch_id} read it, among {count(line.read, 'row')}"
    if not parts:
        return f"{read}, and all of them were written or quarantined"
    if len(parts) == 1:
        return (
            f"{read}; it is in the number of those that were {parts[0].partition(' ')[2]}: {parts[0].partition(' ')[0]}"
        )
    return f"{read}; it is one of these: {', '.join(parts)}"
