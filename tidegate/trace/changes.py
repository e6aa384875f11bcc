"""The changes of rows from a table's change feed, with the batch that made each: its run, suite and transform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.errors.classification import raise_machine
from tidegate.lake.place import FlowPlace
from tidegate.ops.ledger import LEDGER, VERDICTS, RecordedLine, RecordedVerdict
from tidegate.probes import delta, delta_log, delta_table
from tidegate.store import Address
from tidegate.times import dates
from tidegate.trace import feed

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A line of the ledger, which says who made a row and how, with the gate's last verdict."""

    line: RecordedLine
    verdict: RecordedVerdict | None = None
    is_recorded: bool = True
    """False for the batch of a commit whose ledger line is missing."""

    @property
    def suite_fingerprint(self) -> str | None:
        """That of its line, or of its verdict."""
        judged = self.verdict.suite_fingerprint if self.verdict else None
        return self.line.suite_fingerprint or judged or None

    @property
    def code_fingerprint(self) -> str | None:
        """Likewise."""
        judged = self.verdict.code_fingerprint if self.verdict else None
        return self.line.code_fingerprint or judged or None

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        line = {name: getattr(self.line, name) for name in ("flow", "app_id", "batch_id", "kind")}
        run = {name: getattr(self.line, name) for name in ("run_key", "mode", "requested_by")}
        return {
            **line,
            "at": _instant(self.line.recorded_at) if self.is_recorded else None,
            **run,
            "suite": (self.verdict and self.verdict.suite) or None,
            "suite_fingerprint": self.suite_fingerprint,
            "code_fingerprint": self.code_fingerprint,
            "outcome": self.verdict and self.verdict.outcome,
        }


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """A change of a row in one commit of its table."""

    version: int
    kind: str
    """``insert``, ``update_preimage``, ``update_postimage`` or ``delete``."""
    at: str
    row: dict[str, Any]
    """The columns that were asked for."""
    batch: Batch | None
    """None for a commit that no batch of Tidegate made."""
    staged: Batch | None = None
    """Of a swap: the batch that wrote the row to staging, if the row says so."""


@dataclass(frozen=True, kw_only=True)
class RowHistory:
    """The changes of some rows, oldest first."""

    changes: tuple[RowChange, ...]
    complete: bool
    """Whether the feed can still be read from the table's first version on."""


class Ledger:
    """The batches of a flow by their transactions."""

    def __init__(self, flow: FlowPlace) -> None:
        self._served: dict[tuple[int, int], list[tuple[int, int]]] = {}
        place, of_flow = flow.of_pipeline, f"flow = '{flow.flow}'"
        self._lines = LEDGER.read(place, of_flow)
        self._verdicts = {(each.app_id, each.batch_id): each for each in VERDICTS.read(place, of_flow)}

    def served(self, address: Address, first: int, last: int) -> list[tuple[int, int]]:
        """`delta.served_ranges` of the flow's table, which opens the log of each version, once."""
        key = (first, last)
        if key not in self._served:
            self._served[key] = delta.served_ranges(address, first, last)
        return self._served[key]

    def batch(self, app_id: str, batch_id: int, kind: str | None = None) -> Batch | None:
        """The batch with this number; of one that was swapped in, the line of that kind."""
        lines = self._of_batch(app_id, batch_id, swap=kind == "swap")
        if not lines:
            return None
        return Batch(line=lines[-1], verdict=None if kind == "swap" else self._verdicts.get((app_id, batch_id)))

    def lines(self, app_id: str, batch_id: int) -> list[RecordedLine]:
        """The line of a batch with its counts; none if it is not recorded, or was empty."""
        return self._of_batch(app_id, batch_id, swap=False)

    def staged_in(self, app_id: str, batch_id: int) -> Batch | None:
        """The last batch of a transaction id up to this one: of a swap, one that built the table."""
        numbers = [line.batch_id for line in self._lines if line.app_id == app_id and line.kind != "swap"]
        earlier = [number for number in numbers if number <= batch_id]
        return self.batch(app_id, max(earlier)) if earlier else None

    def _of_batch(self, app_id: str, batch_id: int, *, swap: bool) -> list[RecordedLine]:
        own = (line for line in self._lines if (line.app_id, line.batch_id) == (app_id, batch_id))
        return [line for line in own if (line.kind == "swap") == swap]


def history(address: Address, where: str, columns: Sequence[str], ledger: Ledger, *, since: int = 0) -> RowHistory:
    """The changes of the rows that match a condition.

    Args:
        path: A Delta table with a change feed.
        where: SQL of delta-rs.
        columns: Columns of the rows to return; those that the table lacks are left out.
        ledger: That of the flow that writes the table.
        since: The first version.
    """
    table = delta_table.find(address)
    if table is None:
        return RowHistory(changes=(), complete=True)
    wanted = [name for name in columns if name in delta_table.column_names(table)]
    ranges = ledger.served(address, since, table.version())
    complete = ranges == [(since, table.version())]
    changes: list[RowChange] = []
    for first, last in ranges:
        for rows in _feeds(address, first, last, wanted, where):
            complete = complete and rows is not None
            changes += [_change(address, row, wanted, ledger) for row in rows or ()]
    return RowHistory(changes=tuple(changes), complete=complete)


def _feeds(
    address: Address, first: int, last: int, columns: Sequence[str], where: str
) -> Iterator[list[dict[str, Any]] | None]:
    """The changes of some versions, oldest first; None for one that cannot be read.

    Such are those before the table was replaced with other types.
    """
    import duckdb
    from deltalake.exceptions import DeltaError

    try:
        yield feed.rows(address, first, last, columns, where)
    except (DeltaError, duckdb.Error, FileNotFoundError) as error:
        raise_machine(error)
        if first == last:
            yield None
            return
        middle = (first + last) // 2
        yield from _feeds(address, first, middle, columns, where)
        yield from _feeds(address, middle + 1, last, columns, where)


def _change(address: Address, row: dict[str, Any], columns: Sequence[str], ledger: Ledger) -> RowChange:
    info = delta_log.commit_info(address, row[hidden.COMMIT_VERSION]) or {}
    metadata = delta.user_metadata(info)
    batch = staged = None
    if "app_id" in metadata:
        prepared = metadata.get("prepared") or {}
        app_id, number = str(metadata["app_id"]), int(metadata["batch_id"])
        batch = ledger.batch(app_id, number, prepared.get("kind")) or _unrecorded(app_id, number, prepared)
        if batch.line.kind == "swap":
            of_row = row.get(hidden.BATCH_ID)
            staged = ledger.batch(app_id, of_row) if of_row is not None else ledger.staged_in(app_id, number)
    return RowChange(
        version=row[hidden.COMMIT_VERSION],
        kind=row[hidden.CHANGE_TYPE],
        at=_instant(dates.moment(info.get("timestamp"))) or "",
        row={name: row[name] for name in columns},
        batch=batch,
        staged=staged,
    )


def _unrecorded(app_id: str, number: int, prepared: dict[str, Any]) -> Batch:
    """The batch of a commit whose ledger line is missing, because its run ended in between: from the commit itself."""
    kind = prepared.get("kind", "")
    line = RecordedLine(
        flow=str(prepared.get("flow", "")),
        kind=kind,
        app_id=app_id,
        batch_id=number,
        suite_fingerprint=prepared.get("suite_fingerprint"),
        code_fingerprint=prepared.get("code_fingerprint"),
    )
    return Batch(line=line, is_recorded=False)


def _instant(value: Any) -> str | None:
    return None if value is None else value.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
