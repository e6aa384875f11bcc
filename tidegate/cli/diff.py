"""``tidegate diff``."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from tidegate.advice import Edit, OutsideAct
from tidegate.checkpoints import checkpoint
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson
from tidegate.cli.values import plain
from tidegate.environment import Environment, selection, source_lakes
from tidegate.errors import EX_DIFFERS, RequestError, TidegateError
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.ops import difference
from tidegate.ops.difference import DifferingSample, TableDifference


def diff(
    name: Annotated[str, typer.Argument(metavar="ENV", help="The environment to compare with.")],
    table: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help="Such as silver.flights; default: every table that this environment has."),
    ] = None,
    samples: Annotated[int, typer.Option(metavar="N", help="Name at most N rows of each kind.", min=0)] = 5,
    as_json: AsJson = False,
) -> None:
    """Compare tables of this environment with those of another one. Reads only; starts no JVM.

    Rows are compared by the keys of the table, without keys by all their columns, as often as they occur. Columns whose names begin with an
    underscore are left out, but for _rescued, and so are deleted rows. The newest versions are compared: a run of either environment
    meanwhile counts as it was when its table was opened.

    The printed rows are values of the data.

    Exit codes: 0 all are equal; 3 a table differs, is missing in the other environment or has other keys there; 64 also when a named
    table is missing.
    """
    environment = project.read()
    lakes = source_lakes.named(name, selection(os.environ)[1], environment.lake_at, os.environ)
    here = Layout.of(dataclasses.replace(environment, source_lakes=lakes))
    there = here.source
    assert there is not None
    here.check()
    keys = _declared_keys(environment)
    own_tables, other_tables = _tables(here), _tables(there)
    chosen = _chosen(((here, own_tables), (there, other_tables)), table or ()) or own_tables
    compared = {
        each: _compare(here, there, each, keys, samples)
        if each in other_tables
        else f"environment {name!r} has no such table"
        for each in chosen
    }
    own = environment.name or "this one"
    if as_json:
        console.print_json(_document(own, name, compared))
    else:
        for each, result in compared.items():
            for line in _lines(each, result, own, name):
                console.echo(line)
    if not all(isinstance(result, TableDifference) and result.is_equal for result in compared.values()):
        raise typer.Exit(EX_DIFFERS)


def _tables(lake: Layout) -> list[str]:
    """The tables of flows, sorted."""
    return sorted(each for each in lake.delta_tables() if each.count(".") == 1)


def _chosen(lakes: Sequence[tuple[Layout, Sequence[str]]], named: Sequence[str]) -> list[str]:
    """The named tables, each once, which both lakes have; none if none is named.

    Raises:
        RequestError: A lake has no such table, or the first one has no tables.
    """
    own, tables_here = lakes[0]
    if not named and not tables_here:
        raise RequestError(f"the lake at {own.root} has no tables yet", OutsideAct("run a flow here first"))
    for each in named:
        for lake, tables in lakes:
            if each not in tables:
                has = ", ".join(tables) or "no tables"
                raise RequestError(f"the lake at {lake.root} has no table {each!r}", Edit(f"it has {has}", "request"))
    return list(dict.fromkeys(named))


def _declared_keys(environment: Environment) -> dict[str, tuple[FlowPlace, tuple[str, ...]]]:
    """The flow that writes each table, at its place here, and the declared keys."""
    layout, result = Layout.of(environment), dict[str, tuple[FlowPlace, tuple[str, ...]]]()
    for _, resolved in project.resolve_all(environment, None):
        if not isinstance(resolved, TidegateError):
            for each in resolved.flows:
                result[each.flow.target.name] = each.place(layout), each.flow.target.keys
    return result


def _compare(
    here: Layout, there: Layout, table: str, declared: Mapping[str, tuple[FlowPlace, tuple[str, ...]]], samples: int
) -> TableDifference | str:
    """The difference of a table, or why it is not compared."""
    if table not in declared:
        return _differ(here, there, table, (), samples, "no flow declares it: rows are compared by all columns")
    place, keys = declared[table]
    own, other = (_keys_of(dataclasses.replace(place, layout=lake), keys) for lake in (here, there))
    if own != other:
        return f"rows have the keys {_listed(own)} here, and {_listed(other)} there"
    return _differ(here, there, table, own, samples)


def _differ(
    here: Layout, there: Layout, table: str, keys: tuple[str, ...], samples: int, note: str = ""
) -> TableDifference:
    result = difference.compare(here.table(table), there.table(table), keys, samples)
    return dataclasses.replace(result, note=result.note or note)


def _keys_of(place: FlowPlace, declared: tuple[str, ...]) -> tuple[str, ...]:
    """The keys with which the newest version of a flow's checkpoint was made in a lake; those declared now before its first run."""
    sidecars = checkpoint.versions(place)
    return tuple(sidecars[max(sidecars)].remembered.get("keys", ())) if sidecars else declared


def _listed(keys: tuple[str, ...]) -> str:
    return ", ".join(keys) or "none"


def _lines(table: str, result: TableDifference | str, here: str, there: str) -> list[str]:
    if isinstance(result, str):
        return [f"{table}: not compared: {result}"]
    by = f"by {', '.join(result.keys)}" if result.keys else "by all columns"
    rows = count(result.rows[0], "row")
    note = [f"  note: {result.note}"] if result.note else []
    if result.is_equal:
        return [f"{table}: equal, {rows}, compared {by}", *note]
    lines = [
        f"{table}: differs, compared {by}",
        *note,
        f"  rows: {result.rows[0]:,} in {here}, {result.rows[1]:,} in {there}",
    ]
    for name, kind in result.columns_here.items():
        lines.append(f"  column {name} ({kind}) only in {here}")
    for name, kind in result.columns_there.items():
        lines.append(f"  column {name} ({kind}) only in {there}")
    for name, (own, other) in result.retyped.items():
        lines.append(f"  column {name} is {own} in {here}, {other} in {there}: its values are not compared")
    kinds = (
        ("here", result.only_here, f"only in {here}"),
        ("there", result.only_there, f"only in {there}"),
        ("both", result.changed, "changed"),
    )
    for where, number, what in kinds:
        if number:
            columns = (
                ", ".join(f"{name} {n:,}" for name, n in result.changed_columns.items()) if where == "both" else ""
            )
            lines.append(f"  {count(number, 'row')} {what}{f': {columns}' if columns else ''}")
            lines += [f"    {_text(each)}" for each in result.samples if each.where == where]
    return lines


def _text(sample: DifferingSample) -> str:
    row = _json(sample.row) + (f" ({sample.times} times)" if sample.times > 1 else "")
    return f"{row}: {_json(sample.here)}, there {_json(sample.there)}" if sample.where == "both" else row


def _json(row: Mapping[str, Any]) -> str:
    return json.dumps(plain(dict(row)), ensure_ascii=False)


def _document(here: str, there: str, compared: Mapping[str, TableDifference | str]) -> dict[str, Any]:
    tables = []
    for name, result in compared.items():
        if isinstance(result, str):
            tables.append({"table": name, "equal": False, "not_compared": result})
            continue
        values = dataclasses.asdict(result)
        values["samples"] = [plain(each) for each in values["samples"]]
        (values["version_here"], values["version_there"]) = values.pop("versions")
        (values["rows_here"], values["rows_there"]) = values.pop("rows")
        tables.append({"table": name, "equal": result.is_equal, **values})
    return {"format": 1, "here": here, "there": there, "equal": all(each["equal"] for each in tables), "tables": tables}
