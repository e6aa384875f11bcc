"""Compares the lake with the independent recomputation, without a JVM."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demo import recompute, recompute_payments
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops.table import line_of
from tidegate.probes import delta_table
from tidegate.quarantine import lifecycle
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import Pipeline
from tidegate.store import Address

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_Compared = tuple[str, str, tuple[str, ...], Any, str]
"""What is checked, the answer's table, the columns to compare, the lake's rows, and a condition for both."""


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    what: str
    """The condition that must hold."""
    details: str
    """What was compared, in numbers."""
    passed: bool


def table(address: Address) -> Any:
    """A Delta table's rows as Arrow; None when the table does not exist."""
    opened = delta_table.find(address)
    if opened is None:
        return None
    import pyarrow

    return pyarrow.table(delta_table.query_builder().register("t", opened).execute("SELECT * FROM t").read_all())


def query(sql: str, **tables: Any) -> list[tuple[Any, ...]]:
    """The rows of a query over Arrow tables, by DuckDB in UTC."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.execute(sql).fetchall()


def balance(layout: Layout, pipeline: Pipeline) -> Check:
    """Whether every line of the ledger balances: no row without a disposition, and none with two."""
    lines = table(PipelinePlace(layout, pipeline.name).ops("ledger"))
    plain = [] if lines is None else lines.to_pylist()
    records = [line_of(LedgerLine, line) for line in plain]
    batches = [record for record in records if record.is_batch]
    read = sum(record.read for record in batches if record.kind not in ("recompute", "emit"))
    uneven = sum(record.imbalance() != 0 for record in records)
    lines = count(len(records), "line")
    details = (
        f"{count(len(batches), 'batch', 'batches')}, {count(read, 'row')} read, {uneven} of {lines} do not balance"
    )
    return Check(f"{pipeline.name}: the ledger balances", details, bool(records) and uneven == 0)


def quarantine_states(layout: Layout, pipeline: Pipeline) -> Check:
    """Whether every quarantine entry has one state, and the numbers per state agree with the ledger."""
    lines = table(PipelinePlace(layout, pipeline.name).ops("ledger"))
    plain = [] if lines is None else lines.to_pylist()
    states: Counter[str] = Counter()
    wrong = 0
    for flow in pipeline.flows:
        entries = lifecycle.entry_counts(FlowPlace(layout, pipeline.name, flow.name).quarantine)
        states.update(entries.states)
        own = [line for line in plain if line["flow"] == flow.name]
        landing = not flow.feeds
        input_column, refused_column = ("files_listed", "files_quarantined") if landing else ("read", "quarantined")
        by_runs = sum(line[refused_column] for line in own if line["kind"] in ("append", "upsert"))
        # Rows that a backfill refused may have been in quarantine already.
        by_backfills = sum(line[refused_column] for line in own if line["kind"] == "backfill")
        replayed = sum(line[input_column] - line[refused_column] for line in own if line["kind"] == "replay")
        expected = {
            "replayed": replayed,
            "waived": _closed(own, "waive") - _closed(own, "retire_waived"),
            "expired": _closed(own, "expire", "retire", "retire_waived"),
        }
        surplus = {state: entries.states.get(state, 0) - number for state, number in expected.items()}
        if any(line["kind"] == "backfill" for line in own):
            # A backfill marks the entries of rows that pass now as replayed, whatever state they had.
            consistent = surplus["replayed"] >= 0 >= max(surplus["waived"], surplus["expired"])
        else:
            consistent = not any(surplus.values())
        total = sum(entries.states.values())
        wrong += entries.claimed + (not by_runs <= total <= by_runs + by_backfills) + (not consistent)
        wrong += sum(number for state, number in entries.states.items() if state not in lifecycle.STATES)
    details = ", ".join(f"{states[state]:,} {state}" for state in lifecycle.STATES if states[state]) or "no entries"
    return Check(f"{pipeline.name}: every quarantine entry has one state", details, wrong == 0)


def _closed(lines: list[dict[str, Any]], *kinds: str) -> int:
    """How many entries were closed by decisions of some kinds."""
    return sum(line["closed"] or 0 for line in lines if line["kind"] in kinds)


def exactly_once(layout: Layout, pipeline: Pipeline, answer: DuckDBPyConnection) -> list[Check]:
    """Whether each table holds exactly the rows that DuckDB computes from the input.

    Args:
        pipeline: Flights or clickstream: the flows bronze and silver, then those whose tables the answer has by their name.
        answer: From `demo.recompute`.
    """
    bronze, silver, *others = (table(layout.table(flow.target.name)) for flow in pipeline.flows)
    keys = pipeline.flow("silver").target.keys
    refused = _in_force(table(FlowPlace(layout, pipeline.name, "silver").quarantine))
    bad_files = _paths(_in_force(table(FlowPlace(layout, pipeline.name, "bronze").quarantine)))
    name = pipeline.name
    compared = (
        ("every record is in bronze once", "ids", ("_row_id",), bronze, "true"),
        ("the same files are in quarantine", "bad_files", ("path",), bad_files, "true"),
        ("the same records are in quarantine", "quarantined", ("_row_id",), refused, "true"),
        ("silver equals the recomputation", "silver", _columns(answer, "silver"), silver, "NOT _deleted"),
        ("the same keys are deleted", "silver", keys, silver, "_deleted"),
        *_equal(answer, zip((flow.name for flow in pipeline.flows[2:]), others, strict=True)),
    )
    return _compare(name, answer, compared)


def recomputed(layout: Layout, pipeline: Pipeline, answer: DuckDBPyConnection, flows: Iterable[str]) -> list[Check]:
    """Whether the tables of some flows hold exactly the rows of the answer's tables with the names of the flows."""
    rows = ((flow, table(layout.table(pipeline.flow(flow).target.name))) for flow in flows)
    return _compare(pipeline.name, answer, _equal(answer, rows))


def payments(
    layout: Layout, pipeline: Pipeline, messages: Iterable[recompute.Message], sent: Sequence[recompute.Message]
) -> list[Check]:
    """Whether the tables of payments hold exactly what plain Python computes from the topic, and the alerts were sent.

    Args:
        pipeline: Payments.
        messages: All messages of its topic.
        sent: All messages of the topic of the alerts.
    """
    bronze, silver, decisions, alerts = (table(layout.table(flow.target.name)) for flow in pipeline.flows[:4])
    if bronze is None:
        return [Check(f"{pipeline.name}: every message is in bronze once", "the table does not exist", passed=False)]
    ingested_at = dict(zip(bronze["_row_id"].to_pylist(), bronze["_ingested_at"].to_pylist(), strict=True))
    expected = recompute_payments.payments(messages, ingested_at)
    answer = recompute_payments.as_tables(expected)
    refused = table(FlowPlace(layout, pipeline.name, "silver").quarantine)
    late = table(FlowPlace(layout, pipeline.name, "silver").late)
    compared = (
        ("every message is in bronze once", "ids", ("_row_id",), bronze, "true"),
        ("the same messages are in quarantine", "quarantined", ("_row_id",), refused, "true"),
        ("the same messages are late", "late", ("_row_id",), late, "true"),
        *_equal(answer, (("silver", silver), ("decisions", decisions))),
        ("alerts equals the recomputation", "alerts", _columns(answer, "alerts"), alerts, "NOT _deleted"),
    )
    results = _compare(pipeline.name, answer, compared)
    last = {message.key: message.value for message in sorted(sent, key=lambda each: (each.partition, each.offset))}
    open_alerts = {json.loads(key or b"{}").get("payment_id") for key, value in last.items() if value is not None}
    wrong = len(open_alerts ^ {row["payment_id"] for row in expected.alerts})
    details = f"{count(len(sent), 'message')}, {count(wrong, 'difference')}"
    return [*results, Check(f"{pipeline.name}: the sent alerts are those of the table", details, wrong == 0)]


def _equal(answer: DuckDBPyConnection, tables: Iterable[tuple[str, Any]]) -> Iterator[_Compared]:
    for name, rows in tables:
        yield f"{name} equals the recomputation", name, _columns(answer, name), rows, "true"


def _compare(name: str, answer: DuckDBPyConnection, compared: Iterable[_Compared]) -> list[Check]:
    checks = []
    for what, of, columns, rows, where in compared:
        ((wanted,),) = answer.execute(f"SELECT count(*) FROM {of} WHERE {where}").fetchall()
        if rows is None:
            # Without quarantined or deleted rows the table does not exist.
            if wanted:
                checks.append(Check(f"{name}: {what}", "the table does not exist", passed=False))
            continue
        wrong = recompute.differences(answer, of, columns, rows, where)
        if wanted or wrong:
            details = f"{count(wanted, 'file' if of == 'bad_files' else 'row')}, {count(wrong, 'difference')}"
            checks.append(Check(f"{name}: {what}", details, wrong == 0))
    return checks


def _in_force(quarantine: Any) -> Any:
    """The entries of records that are in no other table: not those that passed since, or whose run was undone."""
    if quarantine is None:
        return None
    import duckdb

    with duckdb.connect() as connection:
        connection.register("entries", quarantine)
        return connection.execute("FROM entries WHERE state NOT IN ('replayed', 'withdrawn')").to_arrow_table()


def _paths(quarantine: Any) -> Any:
    """The paths of files that were quarantined as a whole, as Arrow."""
    import pyarrow

    entries = [] if quarantine is None else quarantine.to_pylist()
    paths = [json.loads(row["source"])["path"] for row in entries if row["level"] == "file"]
    return pyarrow.table({"path": pyarrow.array(paths, pyarrow.string())})


def _columns(answer: DuckDBPyConnection, of: str) -> tuple[str, ...]:
    """All columns of an answer's table except the deletion flag, which is used as the condition."""
    described = answer.execute(f"DESCRIBE {of}").fetchall()
    return tuple(row[0] for row in described if row[0] != "_deleted")
