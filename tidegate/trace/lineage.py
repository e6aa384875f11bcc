"""The way of a row: up from a table to the records that made it, or down from a record to every table that has it.

Longer than 300 lines: it is one walk through the lake, in both directions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidegate import formatting, hidden
from tidegate.advice import Command, Edit
from tidegate.errors import MachineError, RequestError, TidegateError
from tidegate.errors.classification import raise_machine
from tidegate.lake import identity
from tidegate.lake.place import FlowPlace
from tidegate.ops import query
from tidegate.probes import delta_table
from tidegate.trace import conditions, relation
from tidegate.trace.changes import Ledger, RowChange, RowHistory, history
from tidegate.trace.raw_record import fields_of
from tidegate.trace.reading import SourcePosition
from tidegate.trace.step import Step, noted, state_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from tidegate.lake.layout import Layout
    from tidegate.project.resolution import ResolvedFlow, ResolvedPipeline
    from tidegate.spec import ChangeFeed

_ENTRY = (
    *(hidden.ROW_ID, "source", "level", "rules", "state", "suite", "suite_fingerprint", "quarantined_at", "attempts"),
    *("changed_by", "changed_at", "reason", hidden.REPLAY, hidden.APP_ID, hidden.BATCH_ID),
)
_RECORD = (
    hidden.PATH,
    hidden.LINE_NUMBER,
    hidden.MODIFIED_AT,
    hidden.TOPIC,
    hidden.PARTITION,
    hidden.OFFSET,
    hidden.TIMESTAMP,
)
"""The coordinates of a record in bronze."""
_MAX_ENTRIES = 20
"""Quarantine entries of one row; it has more only if something is wrong."""
_MAX_GROUPS = 100
"""Groups that a row of a source after the first is followed to, before the first of them is shown."""


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
            steps[0] = noted(
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
        path = self.layout.read_table(flow.flow.target.name)
        names = delta_table.columns(path)
        return query.query(path, names, f"FROM delta_table ORDER BY {hidden.INGESTED_AT} DESC LIMIT 100", where=where)

    def _up(self, flow: ResolvedFlow, table: DeltaTable, row: Mapping[str, Any]) -> Step:
        """A row, with the rows that it was made of."""
        step = self._step(flow, table, row)
        if flow.writer is None:
            return step
        if flow.landing is not None and row[hidden.ROW_ID] is None:
            return noted(step, "no record made it: its snapshot has none of the key")
        source = flow.writer.target.name
        source_table = self._table(source)
        where = relation.source_rows(flow, source_table, row)
        rows, count = self._rows(self._writer(source), source_table, where)
        if not count:
            step = noted(step, f"the rows that it was made of are no longer in {source}")
        if flow.flow.target.child_keys and flow.flow.kind.has_groups:
            step = noted(
                step, f"it is made of the rows of its scope ({', '.join(flow.flow.target.scope)}): all, or some of them"
            )
        step = noted(step, *self._unread(flow, source, where))
        following = [self._up(self._writer(source), source_table, each) for each in rows]
        counts = {source: count}
        for feed in flow.flow.sources[1:]:
            joined, counts[feed.table] = self._joined(flow, feed, rows)
            following += joined
        return dataclasses.replace(step, next=tuple(following), counts=counts)

    def _joined(
        self, flow: ResolvedFlow, feed: ChangeFeed, driving: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Step], int]:
        """The rows of a source after the first that belong to rows of the first, and how many there are."""
        table = delta_table.find(self.layout.read_table(feed.table))
        if table is None:
            return [], 0
        where = relation.joined_rows(feed, table, driving)
        rows, count = self._rows(self._writer(feed.table), table, where)
        steps = [self._up(self._writer(feed.table), table, each) for each in rows]
        if unread := self._unread(flow, feed.table, where):
            steps = [noted(each, *unread) for each in steps[:1]] + steps[1:]
        return steps, count

    def _unread(self, flow: ResolvedFlow, source: str, where: str) -> tuple[str, ...]:
        """Which versions of a source of a group change its rows and are not read; nothing for other flows."""
        reading = SourcePosition.of(self._place(flow).layout, flow, source) if flow.flow.kind.has_groups else None
        if reading is None:
            return ()
        ledger = self._ledger(self._writer(source))
        past = history(self.layout.read_table(source), where, (), ledger, since=reading.next_version)
        versions = ", ".join(map(str, sorted({change.version for change in past.changes})))
        return (
            (f"{_name(flow)} has not read changes of these rows yet (version {versions} of {source})",)
            if versions
            else ()
        )

    def _step(self, flow: ResolvedFlow, table: DeltaTable, row: Mapping[str, Any]) -> Step:
        """A row of a table, with its changes and its quarantine entries."""
        name = flow.flow.target.name
        key = self._key(flow, row)
        identity = key if flow.flow.target.keys else {hidden.ROW_ID: row[hidden.ROW_ID]}
        past = self._history(flow, conditions.where(table, name, identity))
        changes = tuple(change for change in past.changes if change.kind != "update_preimage")
        ids = {row.get(hidden.ROW_ID), *(change.row.get(hidden.ROW_ID) for change in changes)}
        return Step(
            table=name,
            flow=_name(flow),
            key=key,
            state=state_of(row),
            row=row,
            changes=changes,
            entries=tuple(self._entries(flow, sorted(filter(None, ids)))),
            notes=() if past.complete else ("the change feed no longer has all changes of this row",),
        )

    def _absent(self, flow: ResolvedFlow, table: DeltaTable, where: str, values: Mapping[str, str | None]) -> Step:
        """What is known of a key that the table does not have: earlier rows, and quarantine entries with its values."""
        name = flow.flow.target.name
        past = self._history(flow, where)
        changes = tuple(change for change in past.changes if change.kind != "update_preimage")
        texts = [conditions.literal(value) for value in values.values() if value is not None]
        mentioned = " AND ".join(f"strpos(record, {text}) > 0" for text in texts) or "false"
        entries = tuple(self._select_entries(flow, mentioned))
        if late := self._late(flow, values):
            return late[0]
        if not changes and not entries:
            wanted = ", ".join(f"{column}={value}" for column, value in values.items())
            raise RequestError(
                f"table {name!r} has no row with {wanted} and had none as far as its change feed goes back, and no quarantine "
                f"entry of flow {_name(flow)} mentions it.",
                Edit("give --file and --line, or --offset, to follow a record instead", "request"),
            )
        same_text = "these quarantine entries have the same text somewhere in their record"
        notes = (same_text, *_field_notes(flow, entries)) if entries else ()
        state = "removed" if changes else "quarantined"
        return Step(
            table=name, flow=_name(flow), key=dict(values), state=state, changes=changes, entries=entries, notes=notes
        )

    def _followed(self, flow: ResolvedFlow, table: DeltaTable, row: Mapping[str, Any]) -> Step:
        """A row, with what each flow that reads its table made of it."""
        step = self._step(flow, table, row)
        name = flow.flow.target.name
        for each in self._declared():
            if each.flow.kind.sends and name in each.flow.source_tables:
                step = noted(step, f"{_name(each)} sends its changes to {each.flow.target.name}, which is not followed")
        following = tuple(
            self._down(reader, flow.flow.target.name, row, step.changes) for reader in self._readers(flow)
        )
        return dataclasses.replace(step, next=following)

    def _down(
        self, flow: ResolvedFlow, source_name: str, source: Mapping[str, Any], written: Sequence[RowChange]
    ) -> Step:
        """What a flow made of a row of a source table.

        Args:
            source_name: The table of that row.
            written: The changes of that row.
        """
        name = flow.flow.target.name
        table = delta_table.find(self.layout.read_table(name))
        shared: dict[str, Any] = {"table": name, "flow": _name(flow), "key": {}}
        entries: tuple[Mapping[str, Any], ...] = ()
        if table is not None:
            where = self._made_of(flow, table, source_name, source)
            rows, count = self._rows(flow, table, where)
            if rows:
                step = self._followed(flow, table, rows[0])
                return noted(step, _first_of(flow, count)) if count > 1 else step
            if where == relation.NOTHING:
                note = f"no row of {flow.flow.source_tables[0]} belongs to it"
                return Step(state="not there", notes=(note,), **shared)
            if not flow.flow.kind.has_groups:
                past = self._history(flow, where, flow.flow.target.keys).changes
                own = [change for change in past if change.kind in ("insert", "update_postimage")]
                if own:
                    return self._replaced(flow, table, own[-1])
        if flow.landing is not None:
            entries = tuple(self._entries(flow, [source[hidden.ROW_ID]]))
        elif not flow.flow.kind.has_groups:
            of_key = conditions.of_key(self._table(source_name), source, flow.source_keys)
            entries = tuple(self._select_entries(flow, f"level = 'row' AND {of_key}"))
        if entries:
            return Step(state="quarantined", entries=entries, notes=_field_notes(flow, entries), **shared)
        if late := self._late(flow, {hidden.ROW_ID: str(source.get(hidden.ROW_ID))}):
            return late[0]
        if note := flow.flow.kind.not_there:
            return Step(state="not there", notes=(note, *self._same_key(flow, table, source)), **shared)
        reading = SourcePosition.of(self._place(flow).layout, flow, source_name)
        if reading is None or not written:
            return Step(state="not there", notes=("when the flow read it is not known",), **shared)
        notes = (*reading.explain(written[-1].version, self._ledger(flow)), *self._same_key(flow, table, source))
        return Step(state="not there", notes=notes, **shared)

    def _made_of(self, flow: ResolvedFlow, table: DeltaTable, source_name: str, source: Mapping[str, Any]) -> str:
        """The rows of a flow's table that a row of a source belongs to: of one after the first, by rows of the first."""
        feeds = {feed.table: feed for feed in flow.flow.sources[1:]}
        name = flow.flow.source_tables[0]
        first = self._table(name)
        if source_name not in feeds:
            return relation.target_rows(flow, table, first, source)
        driving = relation.driving_rows(feeds[source_name], first, name, source)
        scope = flow.flow.target.scope
        sql = f"SELECT DISTINCT {', '.join(map(delta_table.quoted, scope))} FROM delta_table LIMIT {_MAX_GROUPS}"
        groups = query.query(self.layout.read_table(name), scope, sql, where=driving)
        return relation.any_of(table, flow.flow.target.name, groups)

    def _same_key(self, flow: ResolvedFlow, table: DeltaTable | None, source: Mapping[str, Any]) -> tuple[str, ...]:
        """The row that has the key of a record, if the record has fields of the keys' names; a transform may change their values."""
        fields = {flow.names.declared(name): value for name, value in fields_of(source).items()}
        key = {name: fields[name] for name in flow.flow.target.keys if fields.get(name)}
        if table is None or not key or len(key) < len(flow.flow.target.keys):
            return ()
        name = flow.flow.target.name
        try:
            rows, _ = self._rows(flow, table, conditions.where(table, name, key))
        except RequestError:
            return ()
        shown = ", ".join(f"{column}={value}" for column, value in key.items())
        return tuple(
            f"{name} has {shown}, as this record, of {row[hidden.ROW_ID]}" for row in rows[:1] if hidden.ROW_ID in row
        )

    def _replaced(self, flow: ResolvedFlow, table: DeltaTable, last: RowChange) -> Step:
        """A row that was in the table; the later changes of its key say what took its place."""
        name = flow.flow.target.name
        key = {column: last.row[column] for column in flow.flow.target.keys}
        changes: tuple[RowChange, ...] = (last,)
        if key:
            past = self._history(flow, conditions.where(table, name, key))
            changes = tuple(change for change in past.changes if change.kind != "update_preimage")
        later = [change for change in changes if change.version > last.version]
        # A batch of the stream deletes a row only if a newer record of its scope lacks it.
        by_record = bool(later) and later[-1].kind == "delete" and _is_upsert(later[-1])
        ids = sorted({change.row[hidden.ROW_ID] for change in changes})
        return Step(
            table=name,
            flow=_name(flow),
            key=key or {hidden.ROW_ID: last.row[hidden.ROW_ID]},
            state="replaced" if later and (later[-1].kind != "delete" or by_record) else "removed",
            changes=changes,
            entries=tuple(self._entries(flow, ids)),
        )

    def _flows(self) -> Iterator[ResolvedFlow]:
        """The flows that write tables."""
        return (each for each in self._declared() if not each.flow.kind.sends)

    def _declared(self) -> Iterator[ResolvedFlow]:
        for pipeline in self.pipelines.values():
            if not isinstance(pipeline, TidegateError):
                yield from pipeline.flows

    def _writer(self, name: str) -> ResolvedFlow:
        for each in self._flows():
            if each.flow.target.name == name:
                return each
        for each in self._declared():
            if each.flow.target.name == name:
                raise RequestError(
                    f"{name!r} is a sink, to which {_name(each)} sends the changes of {each.flow.source_tables[0]}: "
                    "what it has is not followed.",
                    Edit(f"trace the row in {each.flow.source_tables[0]}", "request"),
                )
        for pipeline in self.pipelines.values():
            if isinstance(pipeline, MachineError):
                # Its declaration could not be read, and may have the table.
                raise pipeline
        tables = ", ".join(sorted(each.flow.target.name for each in self._flows()))
        broken = [
            f"pipelines/{each}.py" for each, pipeline in self.pipelines.items() if isinstance(pipeline, TidegateError)
        ]
        unknown = f" (and those of {', '.join(broken)}, which cannot be loaded)" if broken else ""
        raise RequestError(f"no flow writes a table {name!r}", Edit(f"the tables are: {tables}{unknown}", "request"))

    def _readers(self, flow: ResolvedFlow) -> list[ResolvedFlow]:
        return [each for each in self._flows() if flow.flow.target.name in each.flow.source_tables]

    def _table(self, name: str) -> DeltaTable:
        table = delta_table.find(self.layout.read_table(name))
        if table is None:
            flow = self._writer(name)
            raise RequestError(
                f"table {name!r} does not exist yet",
                Command.tidegate("run", flow.pipeline.name, says="`{}` creates it"),
            )
        return table

    def _rows(self, flow: ResolvedFlow, table: DeltaTable, where: str) -> tuple[list[dict[str, Any]], int]:
        """The first rows that match, by key, and how many there are."""
        import duckdb

        order = ", ".join(map(delta_table.quoted, flow.flow.target.keys or (hidden.ROW_ID,)))
        with query.connect() as connection:
            try:
                connection.register("matching", query.Scan(table, where=where))
                rows = query.rows_of(connection.execute(f"FROM matching ORDER BY {order} LIMIT {self.shown}"))
                if len(rows) < self.shown:
                    return rows, len(rows)
                counted = connection.execute("SELECT count(*) FROM matching").fetchone()
            except duckdb.Error as error:
                raise_machine(error)
                cause = str(error).strip().splitlines()[-1]
                raise RequestError(
                    f"table {flow.flow.target.name!r} cannot be searched: {cause}",
                    Edit("correct the value of --key", "request"),
                ) from None
        return rows, counted[0] if counted else len(rows)

    def _key(self, flow: ResolvedFlow, row: Mapping[str, Any]) -> dict[str, Any]:
        if keys := flow.flow.target.keys:
            return {key: row[key] for key in keys}
        coordinates = {name: row[name] for name in _RECORD if name in row}
        return coordinates or {hidden.ROW_ID: row[hidden.ROW_ID]}

    def _history(self, flow: ResolvedFlow, where: str, more: Sequence[str] = ()) -> RowHistory:
        path = self.layout.read_table(flow.flow.target.name)
        return history(path, where, (*more, hidden.ROW_ID, hidden.BATCH_ID, hidden.DELETED), self._ledger(flow))

    def _entries(self, flow: ResolvedFlow, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The quarantine entries of rows by their ids."""
        if ids:
            listed = ", ".join(map(conditions.literal, ids))
            yield from self._select_entries(flow, f"level = 'row' AND {hidden.ROW_ID} IN ({listed})")

    def _late(self, flow: ResolvedFlow, values: Mapping[str, str | None]) -> list[Step]:
        """The late rows of a flow that have these values, the first of them; none for a flow without a watermark."""
        table = delta_table.find(self._place(flow).late)
        if table is None:
            return []
        name, event_time = flow.flow.target.name, str(flow.flow.target.event_time)
        rows, _ = self._rows(flow, table, conditions.where(table, name, values))
        return [
            Step(
                table=name,
                flow=_name(flow),
                key={hidden.ROW_ID: row[hidden.ROW_ID]},
                state="late",
                row=row,
                notes=(
                    f"its {event_time} was {formatting.span(timedelta(seconds=row[hidden.LATE_SECONDS]))} before the watermark when "
                    f"{self._label(flow, row)} read it: it is in late.{flow.pipeline.name}.{flow.flow.name}",
                ),
            )
            for row in rows
        ]

    def _label(self, flow: ResolvedFlow, row: Mapping[str, Any]) -> str:
        batch = self._ledger(flow).batch(row[hidden.APP_ID], row[hidden.BATCH_ID])
        return batch.line.label if batch is not None else identity.label(row[hidden.APP_ID], row[hidden.BATCH_ID])

    def _select_entries(self, flow: ResolvedFlow, where: str) -> Iterator[dict[str, Any]]:
        path = self._place(flow).quarantine
        columns = delta_table.columns(path)
        names = [name for name in _ENTRY if name in columns]
        sql = f"FROM delta_table ORDER BY quarantined_at LIMIT {_MAX_ENTRIES}"
        ledger = self._ledger(flow)
        for entry in query.query(path, names, sql, where=where):
            yield {**entry, "batch": ledger.batch(entry[hidden.APP_ID], entry[hidden.BATCH_ID])}

    def _place(self, flow: ResolvedFlow) -> FlowPlace:
        """The flow in the lake in which its table is read."""
        return flow.place(self.layout.of_table(flow.flow.target.name))

    def _ledger(self, flow: ResolvedFlow) -> Ledger:
        key = (flow.pipeline.name, flow.flow.name)
        if key not in self._ledgers:
            self._ledgers[key] = Ledger(self._place(flow))
        return self._ledgers[key]


def _field_notes(flow: ResolvedFlow, entries: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Which fields of the record the rules of quarantine entries are about, where it has other names for them."""
    return tuple(flow.names.shown_in(rule for entry in entries for rule in entry["rules"] or ()))


def _name(flow: ResolvedFlow) -> str:
    return f"{flow.pipeline.name}/{flow.flow.name}"


def _is_upsert(change: RowChange) -> bool:
    return change.batch is not None and change.batch.line.kind == "upsert"


def _first_of(flow: ResolvedFlow, count: int) -> str:
    name = flow.flow.target.name
    if flow.flow.kind.has_groups:
        return f"it may be in {formatting.count(count, 'row')} of {name}; this is the first"
    return f"it made {formatting.count(count, 'row')} of {name}; this is the first"
