"""``tidegate query``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Any

import typer

from tidegate import formatting, hidden
from tidegate.advice import Edit
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson
from tidegate.cli.values import plain, text
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.ops import lake_query
from tidegate.probes import delta_table
from tidegate.probes.delta_table import column_names

_ROWS = 100
"""Rows of a table on the screen."""
_WIDTH = 80
"""Characters of a value in a table on the screen."""


def query(
    sql: Annotated[
        str | None, typer.Argument(metavar="SQL", help="One SELECT in DuckDB's SQL. Without it: list the tables.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE=VERSION",
            help="Read a table as of this Delta version, for example silver.flights=12; may be given several times.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="ROWS", help="At most so many rows; as a table 100 by default, else all.", min=1),
    ] = None,
    as_json: AsJson = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV; NULL is an empty field, the empty text is quoted.")
    ] = False,
) -> None:
    """Query the tables of the lake with SQL. Reads only; starts no JVM.

    Tables are named silver.flights, quarantine.flights.silver and late.flights.silver (of pipeline and flow), and
    ops.flights.ledger. The output has values of the data, which may be personal.
    """
    if as_json and as_csv:
        raise RequestError("--json and --csv exclude each other.", Edit("give one of the two", "request"))
    layout = Layout.of(project.read())
    if sql is None:
        _print_tables(layout, as_json)
        return
    with lake_query.execute(layout, sql, _versions(at or ())) as result:
        if limit is None and not (as_json or as_csv):
            limit = _ROWS
        rows = lake_query.fetched(result, None if limit is None else limit + 1)
        more = _write(result.columns, rows, limit, "json" if as_json else "csv" if as_csv else "table")
    notes = []
    if more and limit is not None:
        notes.append(f"there are more than {formatting.count(limit, 'row')}; --limit ROWS shows more")
    for name in result.tombstones:
        notes.append(f"{name} has rows of deleted keys: add WHERE NOT {hidden.DELETED} to leave them out")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def _versions(at: Iterable[str]) -> dict[str, int]:
    versions = {}
    for each in at:
        name, _, version = each.partition("=")
        if not version.isascii() or not version.isdigit():
            raise RequestError(
                f"--at {each!r} is not TABLE=VERSION", Edit("write it as in silver.flights=12", "request")
            )
        versions[name] = int(version)
    return versions


def _print_tables(layout: Layout, as_json: bool) -> None:
    tables = [(name, delta_table.find(path)) for name, path in sorted(layout.delta_tables().items())]
    listed = [(name, table.version(), column_names(table)) for name, table in tables if table is not None]
    if as_json:
        console.print_json(
            {"format": 1, "tables": [{"table": name, "version": n, "columns": columns} for name, n, columns in listed]}
        )
    elif listed:
        rows = [(name, f"{version:,}", ", ".join(columns)) for name, version, columns in listed]
        console.print_table(("table", "version", "columns"), rows, right=("version",))
    else:
        console.echo(f"The lake at {layout.root} has no tables yet.")


def _write(columns: Sequence[str], rows: Iterator[tuple[Any, ...]], limit: int | None, form: str) -> bool:
    """Print at most so many rows, and return whether there are more."""
    shown = islice(rows, limit)
    if form == "csv":
        _write_csv(columns, shown)
        more = next(rows, None) is not None
    elif form == "json":
        more = _write_json(columns, shown, rows)
    else:
        _write_table(columns, list(shown))
        more = next(rows, None) is not None
    return more


def _write_csv(columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    for row in chain([tuple(columns)], rows):
        sys.stdout.write(",".join(map(_csv_field, row)) + "\n")


def _csv_field(value: Any) -> str:
    """A field by RFC 4180. Python's writer cannot tell NULL from the empty text before 3.12."""
    if value is None:
        return ""
    field = text(value)
    needs_quotes = not field or any(character in field for character in ',"\r\n')
    return '"' + field.replace('"', '""') + '"' if needs_quotes else field


def _write_json(columns: Sequence[str], shown: Iterable[tuple[Any, ...]], rows: Iterator[tuple[Any, ...]]) -> bool:
    print(f'{{"format": 1, "columns": {json.dumps(columns, ensure_ascii=False)}, "rows": [', end="")
    separator = "\n"
    for row in shown:
        print(separator + json.dumps([plain(value) for value in row], ensure_ascii=False), end="")
        separator = ",\n"
    more = next(rows, None) is not None
    print(f'\n], "complete": {json.dumps(not more)}}}')
    return more


def _write_table(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    cells = [["NULL" if value is None else _shortened(text(value)) for value in row] for row in rows]
    out = console.console()
    widths = [
        max(len(name), *(len(row[index]) for row in cells)) if cells else len(name)
        for index, name in enumerate(columns)
    ]
    if out.is_terminal and rows and sum(widths) + 2 * len(widths) > out.width:
        longest = max(map(len, columns))
        for number, row in enumerate(cells, start=1):
            console.echo(f"row {number:,}", style="bold")
            for name, cell in zip(columns, row, strict=True):
                console.echo(f"  {name:<{longest}}  {cell}")
        return
    numbers = [
        name
        for index, name in enumerate(columns)
        if any(isinstance(row[index], int | float) and not isinstance(row[index], bool) for row in rows)
    ]
    console.print_table(columns, cells, right=numbers)


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
