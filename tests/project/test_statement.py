"""What a SELECT is made of: its conditions, judged by DuckDB, its list, its places, and which columns of its sources are equal."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import SpecError
from tidegate.project.statement import Statement
from tidegate.project.statement_joins import equalities

VALUES = (None, -1, 0, 1)
ATOMS = (
    *("a > 0", "b = c", "a IS NULL", "a BETWEEN 0 AND 1", "b NOT BETWEEN -1 AND c", "NOT a = b", "c IN (0, NULL)"),
    *("a IS DISTINCT FROM b", "CASE WHEN a > 0 AND b > 0 THEN c > 0 ELSE a = 0 OR b = 0 END", "coalesce(a, b) = 0"),
    *("(a BETWEEN -1 AND 0 AND b > 0)", "a = -1 /* a comment AND more */"),
)
RULE = st.sampled_from(("", "positive", "known_2"))


def statement(folder: Path, text: str) -> Statement:
    path = folder / "orders.sql"
    path.write_text(text)
    return Statement.read("orders.sql", path)


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@st.composite
def conditions(draw: st.DrawFn) -> list[tuple[str, str, bool]]:
    """Text and rule of each, and whether the comment stands before it."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        atoms = draw(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=3))
        text = atoms[0] if len(atoms) == 1 else f"({' OR '.join(atoms)})"
        made.append((text, draw(RULE), draw(st.booleans())))
    return made


def written(given: Sequence[tuple[str, str, bool]]) -> str:
    """The conditions as a WHERE in which each rule is before its condition or behind it."""
    lines = []
    for text, rule, before in given:
        comment = f"-- rule: {rule}\n" if rule else "\n"
        lines.append(f"{comment}{text}\n" if before else f"{text} {comment}")
    return "  AND ".join(lines)


@pytest.mark.slow
@given(conditions())
def test_the_conditions_together_keep_the_rows_that_where_keeps(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, str, bool]]
) -> None:
    """DuckDB has the same three-valued logic, and parses the whole WHERE itself."""
    where = written(parts)
    made = statement(tmp_path_factory.getbasetemp(), f"SELECT a\nFROM orders\nWHERE {where}").conditions
    assert [each.rule for each in made] == [rule or f"where_{n}" for n, (_, rule, _) in enumerate(parts, start=1)]
    rules = " ".join(f"WHEN ({each.text}) IS NOT TRUE THEN '{each.rule}'" for each in made)
    rows = ", ".join(str(each).replace("None", "NULL") for each in itertools.product(VALUES, repeat=3))
    table = f"(VALUES {rows}) AS orders(a, b, c)"
    connection = database()
    kept = connection.sql(f"SELECT a, b, c FROM {table} WHERE {where}").fetchall()
    unfiltered = connection.sql(f"SELECT a, b, c FROM {table} WHERE CASE {rules} END IS NULL").fetchall()
    assert sorted(map(str, kept)) == sorted(map(str, unfiltered))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a > 0 OR b > 0 AND c > 0", ["where_1"]),
        ("a > 0 AND b > 0 OR c > 0 -- rule: some", ["some"]),
        ("a > 0 AND w.end > 0 AND b > 0", ["where_1", "where_2", "where_3"]),
        ("exists(xs, x -> x > 0 AND x < 3) AND a > 0", ["where_1", "where_2"]),
    ],
)
def test_only_conditions_that_and_joins_are_rules_of_their_own(tmp_path: Path, where: str, expected: list[str]) -> None:
    made = statement(tmp_path, f"SELECT a FROM orders WHERE {where}")
    assert [each.rule for each in made.conditions] == expected


def test_the_list_is_in_parts_with_their_names_and_places(tmp_path: Path) -> None:
    text = (
        "SELECT order_id, upper(o.country) AS country, -- AS it is\n  amount * 2 doubled, CASE WHEN a THEN w.end END e,\n"
        "  a IS DISTINCT FROM b AS d, posexplode_outer(items) AS (position, item), `größe`, o.* EXCEPT (b, C)\nFROM orders o;"
    )
    made = statement(tmp_path, text).projections
    assert [(each.text.strip(), each.names) for each in made] == [
        ("order_id", ("order_id",)),
        ("upper(o.country)", ("country",)),
        ("amount * 2", ("doubled",)),
        ("CASE WHEN a THEN w.end END", ("e",)),
        ("a IS DISTINCT FROM b", ("d",)),
        ("posexplode_outer(items) AS (position, item)", ("position", "item")),
        ("`größe`", ("größe",)),
        ("o.* EXCEPT (b, C)", ()),
    ]
    assert made[-1].is_star and made[-1].excepted == {"b", "c"}
    assert [text[each.start :].startswith(each.text.strip()) for each in made] == [True] * len(made)
    assert [each.text.count("\n") for each in made] == [text[: each.start].count("\n") for each in made]


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("", 1, 1, "there is no SELECT"),
        ("-- only a comment", 1, 1, "there is no SELECT"),
        ("SELEC a FROM orders", 1, 1, "it begins with SELEC, not with SELECT"),
        ("INSERT INTO x SELECT 1", 1, 1, "it begins with INSERT"),
        ("SELECT a\nFROM orders\nWHERE", 3, 1, "it cannot be parsed at 'WHERE'"),
        ("SELECT (a\nFROM orders", 2, 1, "it cannot be parsed at 'FROM'"),
        ("SELECT a b c FROM orders", 1, 12, "it cannot be parsed at 'c'"),
        ("SELECT a\nFROM orders WHERE b = 'x", 2, 23, "a quote is not closed"),
        ("SELECT a /* b\nFROM orders", 1, 10, "a comment is not closed"),
        ("SELECT a FROM x;\nSELECT b FROM x", 1, 16, "a second statement begins"),
        ("SELECT a,\n  FROM orders", 1, 9, "an expression is missing"),
        ("SELECT a -- rule: b\nFROM orders", 1, 8, "a rule is named"),
        ("SELECT a FROM orders\nWHERE a > 0 -- rule: Big one", 2, 11, "a rule is named"),
        ("SELECT a FROM orders WHERE\n a > /* rule: b */ 0 /* rule: c */", 2, 4, "a rule is named"),
    ],
)
def test_what_is_wrong_is_refused_with_line_and_column(
    tmp_path: Path, text: str, line: int, column: int, problem: str
) -> None:
    with pytest.raises(SpecError) as raised:
        made = statement(tmp_path, text)
        _ = made.projections, made.conditions
    where = f"transform 'orders.sql': spark_jobs/orders.sql line {line}, column {column}: {problem}"
    assert raised.value.message.startswith(where), raised.value.message
    assert raised.value.advice is not None


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders.sql").write_bytes(b"SELECT \xff")
    with pytest.raises(SpecError, match=r"spark_jobs/orders\.sql cannot be read.*; correct the file"):
        Statement.read("orders.sql", tmp_path / "orders.sql")


@pytest.mark.parametrize(
    ("joins", "expected"),
    [
        ("JOIN customers c ON o.cust = c.id", {"cust": "id"}),
        (
            "LEFT JOIN customers AS c ON c.id = o.cust AND c.region <=> o.region AND c.id > 3",
            {"cust": "id", "region": "region"},
        ),
        ("LEFT JOIN (SELECT 1 AS x) q ON o.a = q.x LEFT JOIN customers c ON o.CUST = c.id", {"CUST": "id"}),
        ("LEFT ANTI JOIN customers c ON o.cust = c.id", {"cust": "id"}),
        ("JOIN customers c USING (cust, region)", {"cust": "cust", "region": "region"}),
        ("JOIN customers c ON o.cust = c.id AND o.other = c.id AND o.cust = c.old", {"cust": "id"}),
    ],
)
def test_equal_columns_of_a_joined_source_are_shown(tmp_path: Path, joins: str, expected: dict[str, str]) -> None:
    assert equalities(statement(tmp_path, f"SELECT o.id FROM orders o {joins}"), "orders", "customers") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT o.id FROM orders o", "it does not read customers, a source of the flow; join it, or remove it"),
        (
            "SELECT o.id FROM orders o JOIN customers c ON cust = id",
            r"ON has no o\.<column> = c\.<column>, joined by AND; declare",
        ),
        ("SELECT o.id FROM orders o JOIN customers c ON o.cust = c.id OR o.a = c.b", "ON has no"),
        ("SELECT o.id FROM orders o JOIN customers c ON upper(o.cust) = c.id", "ON has no"),
        ("SELECT o.id FROM orders o CROSS JOIN customers c", "ON has no"),
        ("SELECT o.id FROM orders o, customers c WHERE o.cust = c.id", "ON has no"),
        ("SELECT o.id FROM orders o NATURAL JOIN customers c", "ON has no"),
        ("SELECT o.id FROM orders o RIGHT JOIN customers c ON o.cust = c.id", "RIGHT JOIN also makes rows without one"),
        (
            "SELECT c.id FROM customers c JOIN orders o ON o.cust = c.id",
            "customers is read in a part|orders is not the one",
        ),
        (
            "SELECT o.id FROM orders o JOIN orders p ON o.id = p.id JOIN customers c ON o.cust = c.id",
            "orders is not the one",
        ),
        ("SELECT o.id FROM orders o WHERE o.cust IN (SELECT id FROM customers)", "customers is read in a part"),
        ("SELECT o.id FROM orders o JOIN customers c ON o.cust = c.id JOIN customers d ON o.b = d.id", "read 2 times"),
        ("SELECT id FROM orders UNION SELECT id FROM customers", "orders is not the one|is read in a part"),
        ("SELECT o.id FROM orders o JOIN x ON o.a = x.a JOIN customers c USING (id)", "ON has no"),
    ],
)
def test_what_the_statement_does_not_show_has_to_be_declared(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SpecError, match=rf"orders\.sql line 1, column \d+: .*({why})") as raised:
        equalities(statement(tmp_path, text), "orders", "customers")
    assert "declare ChangeFeed(" in raised.value.message or "does not read" in raised.value.message
