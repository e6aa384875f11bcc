"""The way of a row: up from a table to the records that made it, or down from a record to every table that has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate import formatting
from tidegate.errors import RequestError, TidegateError
from tidegate.ops import query, store
from tidegate.trace import conditions, groups
from tidegate.trace.changes import Change, History, Ledger, history
from tidegate.trace.raw_record import fields_of
from tidegate.trace.reading import Reading

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from tidegate.layout import Layout
    from tidegate.resolution import ResolvedFlow, ResolvedPipeline
    from tidegate.spec import Table

_ENTRY = (
    *("_row_id", "source", "level", "rules", "state", "suite", "suite_fingerprint", "quarantined_at", "attempts"),
    *("changed_by", "changed_at", "reason", "_replay", "_app_id", "_batch_id"),
)
_RECORD = ("_path", "_line_number", "_modified_at", "_topic", "_partition", "_offset", "_timestamp")
"""The coordinates of a record in bronze."""
_MAX_ENTRIES = 20
"""Quarantine entries of one row; it has more only if something is wrong."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A row, or the rows of a key, in one table, and the steps before or after it."""

    table: str
    flow: str
    """``<pipeline>/<flow>``, which writes the table."""
    key: Mapping[str, Any]
    """The columns that identify the row: keys, or the coordinates of a record."""
    state: str
    """``present``, ``deleted`` (a tombstone), ``unchanged`` (of a history), ``replaced`` (a later record has the key), ``removed``,
    ``quarantined``, ``not there``."""
    row: Mapping[str, Any] | None = None
    changes: tuple[Change, ...] = ()
    """Oldest first, without pre-images."""
    entries: tuple[Mapping[str, Any], ...] = ()
    """Quarantine entries about the row, oldest first."""
    notes: tuple[str, ...] = ()
    next: tuple[Step, ...] = ()
    next_count: int = 0
    """How many rows ``next`` is the beginning of."""
    joined: tuple[Step, ...] = ()
    """Rows of the other sources of its flow that are joined with those of ``next``."""


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """Follows rows through the tables of a lake."""

    layout: Layout
    pipelines: Mapping[str, ResolvedPipeline | TidegateError]
    shown: int = 3
    """How many rows to follow where one row is made of several."""
    _ledgers: dict[tuple[str, str], Ledger] = field(default_factory=dict)

    def up(self, name: str, values: Mapping[str, str | None]) -> list[Step]:
        """The rows of a table that have these values, each with the rows that it was made of, up to the records.

        Raises:
            RequestError: There is no such table or column, or no row of the table or of its quarantine fits.
        """
        flow = self._writer(name)
        table = self._table(name)
        where = conditions.where(table, name, values)
        rows, count = self._rows(flow, table, where)
        steps = [self._up(flow, table, row) for row in rows]
        if count > len(rows):
            steps[0] = _noted(
                steps[0], f"{formatting.count(count, 'row')} of {name} fit; these are the first {len(rows):,}"
            )
        return steps or [self._absent(flow, table, where, values)]

    def down(self, flow: ResolvedFlow, record: Mapping[str, Any]) -> Step:
        """A record of a bronze table, with what each flow that reads it made of it.

        Args:
            flow: The landing flow.
            record: The row of its table.
        """
        return self._followed(flow, self._table(flow.flow.target.name), record)

    def landing_flows(self) -> list[ResolvedFlow]:
        """The flows of all pipelines that fill bronze."""
        return [each for each in self._flows() if each.writer is None]

    def find(self, flow: ResolvedFlow, where: str) -> list[dict[str, Any]]:
        """The rows of a flow's table that match a condition of delta-rs, the newest first; none without a table."""
        path = self.layout.table(flow.flow.target.name)
        names = query.columns(path)
        return query.query(path, names, "FROM delta_table ORDER BY _ingested_at DESC LIMIT 100", where=where)

    def _up(self, flow: ResolvedFlow, table: DeltaTable, row: Mapping[str, Any]) -> Step:
        """A row, with the rows that it was made of."""
        step = self._step(flow, table, row)
        if flow.writer is None:
            return step
        source = flow.writer.target.name
        below = self._table(source)
        where = self._source_condition(flow, flow.writer.target, below, row)
        rows, count = self._rows(self._writer(source), below, where)
        if not count:
            step = _noted(step, f"the rows that it was made of are no longer in {source}")
        if flow.flow.kind.has_groups and flow.flow.target.child_keys:
            step = _noted(step, f"all rows of one {_scope(flow.flow.target)} are computed together")
        if unread := self._unread(flow, source, where):
            step = _noted(step, f"{step.flow} has not read changes of these rows yet (version {unread} of {source})")
        following = tuple(self._up(self._writer(source), below, each) for each in rows)
        joined = tuple(self._joined(flow, rows))
        return dataclasses.replace(step, next=following, next_count=count, joined=joined)

    def _joined(self, flow: ResolvedFlow, rows: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
        """The rows of the other sources of a flow that are joined with these rows of the first one."""
        for feed in flow.flow.sources[1:]:
            writer, table = self._writer(feed.table), self._table(feed.table)
            joined: dict[str, Mapping[str, Any]] = {}
            for where in {groups.of_joined(feed, table, row): None for row in rows}:
                if where is not None:
                    joined |= {repr(self._key(writer, each)): each for each in self._rows(writer, table, where)[0]}
            for each in list(joined.values())[: self.shown]:
                yield self._up(writer, table, each)

    def _unread(self, flow: ResolvedFlow, source: str, where: str) -> str:
        """The versions of the source that change rows of a group and that its flow has not read; empty if there are none."""
        reading = Reading.of(self.layout, flow) if flow.flow.kind.has_groups else None
        if reading is None:
            return ""
        ledger = self._ledger(self._writer(source))
        past = history(self.layout.table(source), where, (), ledger, since=reading.next_version)
        return ", ".join(map(str, sorted({change.version for change in past.changes})))

    def _step(self, flow: ResolvedFlow, table: DeltaTable, row: Mapping[str, Any]) -> Step:
        """A row of a table, with its changes and its quarantine entries."""
        name = flow.flow.target.name
        key = self._key(flow, row)
        identity = key if flow.flow.target.keys else {"_row_id": row["_row_id"]}
        past = self._history(flow, conditions.where(table, name, identity))
        changes = tuple(change for change in past.changes if change.kind != "update_preimage")
        ids = {row.get("_row_id"), *(change.row.get("_row_id") for change in changes)}
        return Step(
            table=name,
            flow=_name(flow),
            key=key,
            state=_state(row),
            row=row,
            changes=changes,
            entries=tuple(self._entries(flow, sorted(filter(None, ids)))),
            notes=() if past.complete else ("the change feed no longer has all changes of this row",),
        )

    def _source_condition(self, flow: ResolvedFlow, source: Table, table: DeltaTable, row: Mapping[str, Any]) -> str:
        """The rows of the source table of which a row is made."""
        if flow.flow.kind.has_groups:
            return groups.of_group(flow.flow.target, table, source.name, row)
        if flow.landing is not None:
            return conditions.where(table, source.name, {"_row_id": row["_row_id"]})
        return conditions.of_change(table, row["_row_id"], source.keys)

    def _absent(self, flow: ResolvedFlow, table: DeltaTable, where: str, values: Mapping[str, str | None]) -> Step:
        """What is known of a key that the table does not have: earlier rows, and quarantine entries with its values."""
        name = flow.flow.target.name
        past = self._history(flow, where)
        changes = tuple(change for change in past.changes if change.kind != "update_preimage")
        texts = [conditions.literal(value) for value in values.values() if value is not None]
        mentioned = " AND ".join(f"strpos(record, {text}) > 0" for text in texts) or "false"
        entries = tuple(self._select_entries(flow, mentioned))
        if not changes and not entries:
            wanted = ", ".join(f"{column}={value}" for column, value in values.items())
            raise RequestError(
                f"table {name!r} has no row with {wanted} and had none as far as its change feed goes back, and no quarantine "
                f"entry of flow {_name(flow)} mentions it. tidegate trace --file FILE --line LINE follows a record instead."
            )
        notes = ("these quarantine entries have the same text somewhere in their record",) if entries else ()
        state = "removed" if changes else "quarantined"
        return Step(
            table=name, flow=_name(flow), key=dict(values), state=state, changes=changes, entries=entries, notes=notes
        )

    def _followed(self, flow: ResolvedFlow, table: DeltaTable, row: Mapping[str, Any]) -> Step:
        """A row, with what each flow that reads its table made of it."""
        step = self._step(flow, table, row)
        name = flow.flow.target.name
        following = tuple(
            self._down(reader, row, step.changes)
            if reader.flow.source_tables[0] == name
            else self._down_joined(reader, name, row)
            for reader in self._readers(flow)
        )
        return dataclasses.replace(step, next=following, next_count=len(following))

    def _down_joined(self, flow: ResolvedFlow, source: str, row: Mapping[str, Any]) -> Step:
        """A group that a flow computes with a row of another source than its first one."""
        feed = next(each for each in flow.flow.sources if each.table == source)
        first = flow.flow.source_tables[0]
        table = self._table(first)
        rows, count = self._rows(self._writer(first), table, groups.of_first(feed, table, first, row))
        if not rows:
            notes = (f"no row of {first} belongs to it",)
            return Step(table=flow.flow.target.name, flow=_name(flow), key={}, state="not there", notes=notes)
        belongs = f"{formatting.count(count, 'row')} of {first} belong to it"
        return _noted(self._down(flow, rows[0], ()), belongs + (", this is of the first" if count > 1 else ""))

    def _down(self, flow: ResolvedFlow, source: Mapping[str, Any], written: Sequence[Change]) -> Step:
        """What a flow made of a row of its source table.

        Args:
            written: The changes of that row.
        """
        name = flow.flow.target.name
        table = store.open_table(self.layout.table(name))
        shared: dict[str, Any] = {"table": name, "flow": _name(flow), "key": {}}
        if table is not None:
            where = self._made_of(flow, table, source)
            rows, count = self._rows(flow, table, where)
            if rows:
                more = f"it made {formatting.count(count, 'row')} of {name}; this is the first"
                if flow.flow.kind.has_groups and flow.flow.target.child_keys:
                    of = f"one {_scope(flow.flow.target)}, which are computed together"
                    more = f"{name} has {formatting.count(count, 'row')} of {of}; this is the first"
                step = self._followed(flow, table, rows[0])
                return _noted(step, more) if count > 1 else step
            if not flow.flow.kind.has_groups:
                past = self._history(flow, where, flow.flow.target.keys).changes
                own = [change for change in past if change.kind in ("insert", "update_postimage")]
                if own:
                    return self._replaced(flow, table, own[-1])
        if flow.landing is not None and (entries := tuple(self._entries(flow, [source["_row_id"]]))):
            return Step(state="quarantined", entries=entries, **shared)
        reading = Reading.of(self.layout, flow)
        if reading is None or not written:
            return Step(state="not there", notes=("when the flow read it is not known",), **shared)
        notes = (*reading.explain(written[-1].version, self._ledger(flow)), *self._same_key(flow, table, source))
        return Step(state="not there", notes=notes, **shared)

    def _same_key(self, flow: ResolvedFlow, table: DeltaTable | None, source: Mapping[str, Any]) -> tuple[str, ...]:
        """The row that has the key of a record, if the record has fields of the keys' names; a transform may change their values."""
        fields = fields_of(source)
        key = {name: fields[name] for name in flow.flow.target.keys if fields.get(name)}
        if table is None or not key or len(key) < len(flow.flow.target.keys):
            return ()
        name = flow.flow.target.name
        try:
            rows, _ = self._rows(flow, table, conditions.where(table, name, key))
        except RequestError:
            return ()
        shown = ", ".join(f"{column}={value}" for column, value in key.items())
        return tuple(f"{name} has {shown}, as this record, of {row['_row_id']}" for row in rows[:1] if "_row_id" in row)

    def _made_of(self, flow: ResolvedFlow, table: DeltaTable, source: Mapping[str, Any]) -> str:
        """The rows of a flow's table that are made of a row of its source."""
        if flow.flow.kind.has_groups:
            return groups.of_row(flow.flow.target, table, source)
        if flow.landing is not None:
            return conditions.where(table, flow.flow.target.name, {"_row_id": source["_row_id"]})
        return conditions.of_key([source[key] for key in flow.source_keys])

    def _replaced(self, flow: ResolvedFlow, table: DeltaTable, last: Change) -> Step:
        """A row that was in the table; the later changes of its key say what took its place."""
        name = flow.flow.target.name
        key = {column: last.row[column] for column in flow.flow.target.keys}
        changes: tuple[Change, ...] = (last,)
        if key:
            past = self._history(flow, conditions.where(table, name, key))
            changes = tuple(change for change in past.changes if change.kind != "update_preimage")
        later = [change for change in changes if change.version > last.version]
        ids = sorted({change.row["_row_id"] for change in changes})
        return Step(
            table=name,
            flow=_name(flow),
            key=key or {"_row_id": last.row["_row_id"]},
            state="replaced" if later and later[-1].kind != "delete" else "removed",
            changes=changes,
            entries=tuple(self._entries(flow, ids)),
        )

    def _flows(self) -> Iterator[ResolvedFlow]:
        for pipeline in self.pipelines.values():
            if not isinstance(pipeline, TidegateError):
                yield from pipeline.flows

    def _writer(self, name: str) -> ResolvedFlow:
        for each in self._flows():
            if each.flow.target.name == name:
                return each
        tables = ", ".join(sorted(each.flow.target.name for each in self._flows()))
        raise RequestError(f"no flow writes a table {name!r}; the tables are: {tables}.")

    def _readers(self, flow: ResolvedFlow) -> list[ResolvedFlow]:
        return [each for each in self._flows() if flow.flow.target.name in each.flow.source_tables]

    def _table(self, name: str) -> DeltaTable:
        table = store.open_table(self.layout.table(name))
        if table is None:
            flow = self._writer(name)
            raise RequestError(f"table {name!r} does not exist yet; `tidegate run {flow.pipeline.name}` creates it.")
        return table

    def _rows(self, flow: ResolvedFlow, table: DeltaTable, where: str) -> tuple[list[dict[str, Any]], int]:
        """The first rows that match, by key, and how many there are."""
        import duckdb

        order = ", ".join(map(query.quoted, flow.flow.target.keys or ("_row_id",)))
        with query.connect() as connection:
            try:
                connection.register("matching", query.Scan(table, where=where))
                rows = query.rows_of(connection.execute(f"FROM matching ORDER BY {order} LIMIT {self.shown}"))
                if len(rows) < self.shown:
                    return rows, len(rows)
                counted = connection.execute("SELECT count(*) FROM matching").fetchone()
            except duckdb.Error as error:
                cause = str(error).strip().splitlines()[-1]
                raise RequestError(f"table {flow.flow.target.name!r} cannot be searched: {cause}.") from None
        return rows, counted[0] if counted else len(rows)

    def _key(self, flow: ResolvedFlow, row: Mapping[str, Any]) -> dict[str, Any]:
        if keys := flow.flow.target.keys:
            return {key: row[key] for key in keys}
        coordinates = {name: row[name] for name in _RECORD if name in row}
        return coordinates or {"_row_id": row["_row_id"]}

    def _history(self, flow: ResolvedFlow, where: str, more: Sequence[str] = ()) -> History:
        path = self.layout.table(flow.flow.target.name)
        return history(path, where, (*more, "_row_id", "_batch_id", "_deleted"), self._ledger(flow))

    def _entries(self, flow: ResolvedFlow, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The quarantine entries of rows by their ids."""
        if ids:
            listed = ", ".join(map(conditions.literal, ids))
            yield from self._select_entries(flow, f"level = 'row' AND _row_id IN ({listed})")

    def _select_entries(self, flow: ResolvedFlow, where: str) -> Iterator[dict[str, Any]]:
        path = self.layout.quarantine(flow.pipeline.name, flow.flow.name)
        names = [name for name in _ENTRY if name in query.columns(path)]
        sql = f"FROM delta_table ORDER BY quarantined_at LIMIT {_MAX_ENTRIES}"
        ledger = self._ledger(flow)
        for entry in query.query(path, names, sql, where=where):
            yield {**entry, "batch": ledger.batch(entry["_app_id"], entry["_batch_id"])}

    def _ledger(self, flow: ResolvedFlow) -> Ledger:
        key = (flow.pipeline.name, flow.flow.name)
        if key not in self._ledgers:
            self._ledgers[key] = Ledger(self.layout, *key)
        return self._ledgers[key]


def _name(flow: ResolvedFlow) -> str:
    return f"{flow.pipeline.name}/{flow.flow.name}"


def _state(row: Mapping[str, Any]) -> str:
    """That of a row of a table; one of a history that makes no version is ``_deleted`` as well."""
    if row.get("_change") == "unchanged":
        return "unchanged"
    return "deleted" if row.get("_deleted") else "present"


def _scope(target: Table) -> str:
    return ", ".join(target.scope)


def _noted(step: Step, *notes: str) -> Step:
    return dataclasses.replace(step, notes=(*step.notes, *notes))
