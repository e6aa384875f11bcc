"""How the rows of two Delta tables differ. Starts no JVM.

Rows are joined by the keys of the table, or, without keys, counted by their content. What the platform adds to rows differs between two
lakes that have the same data, so hidden columns are left out, except the unknown fields of a record; a tombstone is no row. DuckDB reads
both tables in batches, and puts what does not fit into its memory into a temporary folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.ops import query
from tidegate.probes import delta, delta_table
from tidegate.probes.delta_table import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

    from tidegate.store import Address

_MEMORY = "1GB"
"""What DuckDB takes at most; delta-rs reads a few files at a time beside it."""
_COMPARED = frozenset({hidden.RESCUED})
"""Hidden columns with data of the source."""
_SIDES = ("here", "there", "both")


@dataclass(frozen=True, kw_only=True)
class DifferingSample:
    """One row that differs."""

    where: str
    """``here``, ``there``, or ``both`` for one that is changed."""
    row: dict[str, Any]
    """Its key; without keys, and of a row that is on one side only, all of it."""
    here: dict[str, Any] = field(default_factory=dict)
    """The values that differ."""
    there: dict[str, Any] = field(default_factory=dict)
    times: int = 1
    """How many more of this row one side has, of a table without keys."""


@dataclass(frozen=True, kw_only=True)
class TableDifference:
    """What a comparison of two tables says."""

    only_here: int
    only_there: int
    changed: int
    """Rows of the same key with other values."""
    changed_columns: dict[str, int]
    """In how many of them each column differs."""
    samples: tuple[DifferingSample, ...]
    keys: tuple[str, ...] = ()
    """By which rows are compared; empty: by all their columns."""
    versions: tuple[int, int] = (0, 0)
    """Of both tables."""
    rows: tuple[int, int] = (0, 0)
    """How many both have."""
    columns_here: dict[str, str] = field(default_factory=dict)
    """Columns that only one of the two has, and their types."""
    columns_there: dict[str, str] = field(default_factory=dict)
    retyped: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Columns of two types; their values are not compared."""
    note: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether rows and columns are the same."""
        differing = self.only_here, self.only_there, self.changed, self.columns_here, self.columns_there, self.retyped
        return not any(differing)


def compare(here: Address, there: Address, keys: Sequence[str], samples: int) -> TableDifference:
    """Compare the newest versions of two tables, which exist.

    Args:
        keys: The columns that identify a row in both; none for a table without keys.
        samples: How many rows to name of each kind.

    Raises:
        TableUnreadableError: One of them is damaged.
    """
    import duckdb

    opened = tuple((each, delta_table.open_table(each)) for each in (here, there))
    try:
        with _database() as connection:
            return _compare(connection, opened[0][1], opened[1][1], tuple(keys), samples)
    except duckdb.Error as error:
        unreadable = (each for each, table in opened if not delta.can_read_version(each, table.version()))
        with query.reading(next(unreadable, here)):
            raise error


def _compare(
    connection: DuckDBPyConnection, here: DeltaTable, there: DeltaTable, keys: tuple[str, ...], samples: int
) -> TableDifference:
    tables = {"here": here, "there": there}
    types = {name: _register(connection, name, table) for name, table in tables.items()}
    own, other = types["here"], types["there"]
    both = [name for name in own if str(own[name]) == str(other.get(name))]
    note = ""
    if lacking := [key for key in keys if key not in both]:
        note, keys = (
            f"{', '.join(lacking)} of the key is not the same column in both: rows are compared by the others",
            (),
        )
    scans = [_view(connection, name, table, both) for name, table in tables.items()]
    _read_only(scans, keys)
    repeated = [name for name in tables if keys and _has_repeated(connection, name, keys)]
    if repeated:
        note, keys = f"{' and '.join(repeated)}, several rows have one key: rows are compared by all columns", ()
    columns = {name: own[name] for name in both if name not in keys}
    _read_only(scans, None)
    result = (_by_keys if keys else _by_content)(connection, keys, columns, samples)
    _read_only(scans, ())
    numbers = [_one(connection, f"SELECT count(*) FROM {name}")[0] for name in tables]
    return replace(
        result,
        keys=keys,
        versions=(here.version(), there.version()),
        rows=(numbers[0], numbers[1]),
        columns_here={name: str(kind) for name, kind in own.items() if name not in other},
        columns_there={name: str(kind) for name, kind in other.items() if name not in own},
        retyped={name: (str(own[name]), str(other[name])) for name in own if name in other and name not in both},
        note=note,
    )


@contextmanager
def _database() -> Iterator[DuckDBPyConnection]:
    with TemporaryDirectory(prefix="tidegate-diff-") as folder, query.connect() as connection:
        connection.execute(f"SET temp_directory = '{folder}'")
        connection.execute(f"SET memory_limit = '{_MEMORY}'")
        connection.execute("SET preserve_insertion_order = false")
        yield connection


def _register(connection: DuckDBPyConnection, name: str, table: DeltaTable) -> dict[str, DuckDBPyType]:
    """The columns of a table that are compared, with their types."""
    names = delta_table.column_names(table)
    compared = [each for each in names if not each.startswith("_") or each in _COMPARED]
    connection.register(f"{name}_table", query.Scan(table, [*compared, *({hidden.DELETED} & {*names})]))
    relation = connection.table(f"{name}_table")
    return {column: kind for column, kind in zip(relation.columns, relation.types, strict=True) if column in compared}


def _read_only(scans: Sequence[query.Scan], columns: Sequence[str] | None) -> None:
    """Let the next queries read some columns only, beside that of tombstones; None for all."""
    for scan in scans:
        scan.needed = None if columns is None else {*columns, hidden.DELETED}


def _view(connection: DuckDBPyConnection, name: str, table: DeltaTable, columns: Sequence[str]) -> query.Scan:
    """A view of the rows of a table that are not deleted, with some columns."""
    has_tombstones = hidden.DELETED in delta_table.column_names(table)
    connection.unregister(f"{name}_table")
    scan = query.Scan(table, [*columns, *([hidden.DELETED] if has_tombstones else [])])
    connection.register(f"{name}_table", scan)
    selected = ", ".join(map(quoted, columns)) or "1 AS nothing"
    live = f"NOT coalesce({hidden.DELETED}, false)" if has_tombstones else "true"
    connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {selected} FROM {name}_table WHERE {live}")
    return scan


def _has_repeated(connection: DuckDBPyConnection, name: str, keys: Sequence[str]) -> bool:
    listed = ", ".join(map(quoted, keys))
    sql = f"SELECT {listed} FROM {name} GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
    return connection.execute(sql).fetchone() is not None


def _by_keys(
    connection: DuckDBPyConnection, keys: tuple[str, ...], columns: Mapping[str, DuckDBPyType], samples: int
) -> TableDifference:
    """What a join of both by their keys says. The names of columns are numbered: those of tables may be any."""
    parts = [f"k{n}" for n in range(len(keys))]
    for name in ("here", "there"):
        selected = [f"{quoted(key)} AS k{n}" for n, key in enumerate(keys)]
        selected += [f"{quoted(column)} AS v{n}" for n, column in enumerate(columns)]
        connection.execute(f"CREATE TEMP VIEW {name}_rows AS SELECT {', '.join(selected)}, true AS present FROM {name}")
    differs = [
        f"{_comparable(f'h.v{n}', kind)} IS DISTINCT FROM {_comparable(f't.v{n}', kind)}"
        for n, kind in enumerate(columns.values())
    ]
    selected = [f"coalesce(h.{part}, t.{part}) AS {part}" for part in parts]
    for n, condition in enumerate(differs):
        selected += [f"h.v{n} AS h{n}", f"t.v{n} AS t{n}", f"{condition} AS d{n}"]
    connection.execute(
        f"CREATE TEMP TABLE differing AS SELECT {', '.join(selected)}, "
        "CASE WHEN t.present IS NULL THEN 'here' WHEN h.present IS NULL THEN 'there' ELSE 'both' END AS side "
        "FROM here_rows AS h FULL JOIN there_rows AS t "
        f"ON {' AND '.join(f'h.{part} IS NOT DISTINCT FROM t.{part}' for part in parts)} "
        f"WHERE {' OR '.join(['h.present IS NULL', 't.present IS NULL', *differs])}"
    )
    counts = [f"count(*) FILTER (side = '{side}')" for side in _SIDES]
    counts += [f"count(*) FILTER (side = 'both' AND d{n})" for n in range(len(columns))]
    here, there, both, *of_columns = _one(connection, f"SELECT {', '.join(counts)} FROM differing")
    named: list[DifferingSample] = []
    for side in _SIDES:
        rows = connection.execute(f"FROM differing WHERE side = '{side}' ORDER BY {', '.join(parts)} LIMIT {samples}")
        named += [_sample(each, side, keys, list(columns)) for each in query.rows_of(rows)]
    changed = {column: number for column, number in zip(columns, of_columns, strict=True) if number}
    return TableDifference(
        only_here=here, only_there=there, changed=both, changed_columns=changed, samples=tuple(named)
    )


def _sample(row: Mapping[str, Any], side: str, keys: Sequence[str], columns: Sequence[str]) -> DifferingSample:
    key = {name: row[f"k{n}"] for n, name in enumerate(keys)}
    if side == "both":
        changed = {name: n for n, name in enumerate(columns) if row[f"d{n}"]}
        here, there = ({name: row[f"{of}{n}"] for name, n in changed.items()} for of in "ht")
        return DifferingSample(where=side, row=key, here=here, there=there)
    return DifferingSample(where=side, row=key | {name: row[f"{side[0]}{n}"] for n, name in enumerate(columns)})


def _by_content(
    connection: DuckDBPyConnection, _keys: tuple[str, ...], columns: Mapping[str, DuckDBPyType], samples: int
) -> TableDifference:
    """How many more of each row one of both has."""
    named = ", ".join(f"{quoted(column)} AS v{n}" for n, column in enumerate(columns)) or "1 AS v0"
    groups = [_comparable(f"v{n}", kind) for n, kind in enumerate(columns.values())]
    kept = ", ".join(["sum(n)::BIGINT AS more", *(f"any_value(v{n}) AS v{n}" for n in range(len(columns)))])
    connection.execute(
        f"CREATE TEMP TABLE differing AS SELECT {kept} FROM "
        f"(SELECT {named}, 1 AS n FROM here UNION ALL SELECT {named}, -1 AS n FROM there) "
        f"{'GROUP BY ' if groups else ''}{', '.join(groups)} HAVING sum(n) <> 0"
    )
    here, there = _one(
        connection,
        "SELECT coalesce(sum(more) FILTER (more > 0), 0)::BIGINT, coalesce(-sum(more) FILTER (more < 0), 0)::BIGINT FROM differing",
    )
    result: list[DifferingSample] = []
    for side, sign in (("here", ">"), ("there", "<")):
        order = ", ".join(f"v{n}" for n in range(len(columns))) or "more"
        rows = connection.execute(f"FROM differing WHERE more {sign} 0 ORDER BY {order} LIMIT {samples}")
        result += [
            DifferingSample(
                where=side, row={name: each[f"v{n}"] for n, name in enumerate(columns)}, times=abs(each["more"])
            )
            for each in query.rows_of(rows)
        ]
    return TableDifference(only_here=here, only_there=there, changed=0, changed_columns={}, samples=tuple(result))


def _comparable(value: str, kind: DuckDBPyType) -> str:
    """An expression that is equal for equal values: the entries of a map are in no order."""
    if "MAP(" not in str(kind):
        return value
    parts: dict[str, Any] = dict(kind.children)
    if kind.id == "map":
        inner = _comparable("e.value", parts["value"])
        return f"list_sort(list_transform(map_entries({value}), lambda e: {{'key': e.key, 'value': {inner}}}))"
    if kind.id == "struct":
        fields = (f"{_literal(name)}: {_comparable(f'{value}.{quoted(name)}', of)}" for name, of in parts.items())
        return f"CASE WHEN {value} IS NOT NULL THEN {{{', '.join(fields)}}} END"
    return f"list_transform({value}, lambda e: {_comparable('e', parts['child'])})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _one(connection: DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row
