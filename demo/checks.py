"""Does the lake hold what it must? Read without a JVM, and compared with the independent answer."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demo import recompute
from tidegate.layout import Layout
from tidegate.quarantine import lifecycle
from tidegate.report import BatchRecord
from tidegate.spec import ChangeFeed, Pipeline
from tidegate.wording import count

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class Check:
    """One thing that must be true."""

    what: str
    told: str
    """What was compared, in numbers."""
    fine: bool


def table(path: Any) -> Any:
    """A Delta table's rows as Arrow, or None when there is no table yet."""
    from deltalake import DeltaTable, QueryBuilder

    if not DeltaTable.is_deltatable(str(path)):
        return None
    import pyarrow

    return pyarrow.table(QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT * FROM t").read_all())


def query(sql: str, **tables: Any) -> list[tuple[Any, ...]]:
    """The rows of a query over Arrow tables, by DuckDB in UTC."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.execute(sql).fetchall()


def balance(layout: Layout, pipeline: Pipeline) -> Check:
    """Whether every line of the ledger balances: no row without a fate, and none with two."""
    lines = table(layout.ops(pipeline.name, "ledger"))
    plain = [] if lines is None else lines.to_pylist()
    for line in plain:
        line["filtered"], line["rules"] = dict(line["filtered"] or ()), dict(line["rules"] or ())
    records = [BatchRecord.from_json(line) for line in plain]
    batches = [record for record in records if record.is_batch]
    read = sum(record.read for record in batches if record.kind != "recompute")
    uneven = sum(record.imbalance() != 0 for record in records)
    told = f"{count(len(batches), 'batch', 'batches')}, {read:,} rows read, {uneven} of {len(records)} lines do not balance"
    return Check(f"{pipeline.name}: the ledger balances", told, bool(records) and uneven == 0)


def set_aside(layout: Layout, pipeline: Pipeline) -> Check:
    """Whether every entry of the quarantine has one state, and the ledger moved as many into each as there are."""
    lines = table(layout.ops(pipeline.name, "ledger"))
    plain = [] if lines is None else lines.to_pylist()
    states: Counter[str] = Counter()
    wrong = 0
    for flow in pipeline.flows:
        held = lifecycle.held(layout.quarantine(pipeline.name, flow.name))
        states.update(held.states)
        own = [line for line in plain if line["flow"] == flow.name]
        landing = not isinstance(flow.source, ChangeFeed)
        came, back = ("files_listed", "files_quarantined") if landing else ("read", "quarantined")
        aside = sum(line[back] for line in own if line["kind"] in ("append", "upsert"))
        # Rows that a window derived anew and refused may have been in quarantine already.
        again = sum(line[back] for line in own if line["kind"] == "rederive")
        passed = sum(line[came] - line[back] for line in own if line["kind"] == "replay")
        gone = {
            "replayed": passed,
            "waived": _closed(own, "waive") - _closed(own, "retire_waived"),
            "expired": _closed(own, "expire", "retire", "retire_waived"),
        }
        off = {state: held.states.get(state, 0) - number for state, number in gone.items()}
        if any(line["kind"] == "rederive" for line in own):
            # A window that was derived anew ended the entries of rows that pass now, whatever state they had.
            moved = off["replayed"] >= 0 >= max(off["waived"], off["expired"])
        else:
            moved = not any(off.values())
        wrong += held.in_hand + (not aside <= sum(held.states.values()) <= aside + again) + (not moved)
        wrong += sum(number for state, number in held.states.items() if state not in lifecycle.STATES)
    told = ", ".join(f"{states[state]:,} {state}" for state in lifecycle.STATES if states[state]) or "nothing"
    return Check(f"{pipeline.name}: every entry of the quarantine is in one place", told, wrong == 0)


def _closed(lines: list[dict[str, Any]], *kinds: str) -> int:
    """How many entries decisions of some kinds closed."""
    return sum(line["closed"] or 0 for line in lines if line["kind"] in kinds)


def exactly_once(layout: Layout, pipeline: Pipeline, answer: DuckDBPyConnection) -> list[Check]:
    """Whether each table holds exactly what DuckDB makes of the input.

    Args:
        layout: The lake.
        pipeline: Flights or clickstream: its flows are bronze, silver and gold.
        answer: From `demo.recompute`.
    """
    bronze, silver, gold = (table(layout.table(flow.target.name)) for flow in pipeline.flows)
    keys = pipeline.flow("silver").target.keys
    refused = table(layout.quarantine(pipeline.name, "silver"))
    bad_files = _paths(table(layout.quarantine(pipeline.name, "bronze")))
    name = pipeline.name
    compared = (
        ("every record is in bronze once", "ids", ("_row_id",), bronze, "true"),
        ("the same files are in quarantine", "bad_files", ("path",), bad_files, "true"),
        ("the same records are in quarantine", "quarantined", ("_row_id",), refused, "true"),
        ("silver equals the recomputation", "silver", _columns(answer, "silver"), silver, "NOT _deleted"),
        ("the same keys are deleted", "silver", keys, silver, "_deleted"),
        ("gold equals the recomputation", "gold", _columns(answer, "gold"), gold, "true"),
    )
    checks = []
    for what, of, columns, rows, where in compared:
        ((wanted,),) = answer.execute(f"SELECT count(*) FROM {of} WHERE {where}").fetchall()
        if rows is None:
            # Nothing was ever set aside, or deleted, and nothing had to be.
            if wanted:
                checks.append(Check(f"{name}: {what}", "the table is not there", fine=False))
            continue
        wrong = recompute.differences(answer, of, columns, rows, where)
        if wanted or wrong:
            told = f"{count(wanted, 'file' if of == 'bad_files' else 'row')}, {count(wrong, 'difference')}"
            checks.append(Check(f"{name}: {what}", told, wrong == 0))
    return checks


def _paths(quarantine: Any) -> Any:
    """The paths of files that were set aside as a whole, as Arrow."""
    import pyarrow

    found = [] if quarantine is None else quarantine.to_pylist()
    paths = [json.loads(row["source"])["path"] for row in found if row["level"] == "file"]
    return pyarrow.table({"path": pyarrow.array(paths, pyarrow.string())})


def _columns(answer: DuckDBPyConnection, of: str) -> tuple[str, ...]:
    """All columns of an answer but the flag of deletions, which is the condition."""
    described = answer.execute(f"DESCRIBE {of}").fetchall()
    return tuple(row[0] for row in described if row[0] != "_deleted")
