"""Which statements may be transforms: each refusal has its line and column, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import SpecError
from tidegate.project import statement_rules
from tidegate.spec import ChangeFeed, Flow, State, Table

TARGET = Table("silver.orders", keys=("order_id",), sequence_by=("at",))
ROWS = Flow(name="silver", source=ChangeFeed("bronze.orders"), transform="orders.sql", target=TARGET)
GROUPS = Flow(
    name="gold", source=ChangeFeed("silver.orders"), transform="orders.sql", target=Table("gold.days", keys=("day",))
)
JOINED = Flow(
    name="gold",
    sources=(ChangeFeed("silver.orders"), ChangeFeed("silver.customers")),
    transform="orders.sql",
    target=Table("gold.orders", keys=("order_id",)),
)
FIELDS = ("order_id", "at", "amount", "country", "items", "customer")


def check(folder: Path, flow: Flow, text: str) -> None:
    path = folder / "orders.sql"
    path.write_text(text)
    statement_rules.check(flow, path, FIELDS if flow is ROWS else None)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM orders",
        "SELECT o.* EXCEPT (items), upper(country) AS land, length(land) AS n FROM orders o WHERE country > 'a'",
        "select ORDER_ID, at, customer.name.first AS name, explode_outer(items) AS item from ORDERS where amount between 1 and 2",
        "SELECT order_id, at, timestampadd(HOUR, 1, at) AS later, extract(DAY FROM at) AS day, _rescued['x'] AS x FROM orders",
        "SELECT order_id, at, transform(items, each -> each + amount) AS items, unix_timestamp(at) AS s FROM orders;",
        "SELECT order_id, at, country = 'DE' AS _deleted FROM orders WHERE amount IN (1, 2) -- rule: few",
        "SELECT order_id, at, 'now() rand() ' AS text, amount AS now FROM orders",
    ],
)
def test_a_select_of_rows_is_accepted(tmp_path: Path, text: str) -> None:
    check(tmp_path, ROWS, text)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("SELECT DISTINCT order_id,\n at FROM orders", (1, 8), "removes rows that are equal .*; remove it: .* the newest"),
        ("SELECT * FROM orders\nLIMIT 3", (2, 1), r"drops rows without a rule \(LIMIT\); write a condition of WHERE"),
        ("SELECT * FROM orders\nOFFSET 3", (2, 1), "OFFSET"),
        ("SELECT * FROM orders\nORDER BY at", (2, 1), "orders rows.*; remove it"),
        ("SELECT * FROM orders\nCLUSTER BY at", (2, 1), "distributes rows.*; remove it"),
        ("SELECT * FROM orders\nUNION ALL SELECT * FROM orders", (2, 1), "puts several SELECTs together.*; write one SELECT with"),
        ("SELECT * FROM orders\nEXCEPT SELECT * FROM orders", (2, 1), "puts several SELECTs together"),
        ("SELECT order_id, at,\n count(*) AS n FROM orders GROUP BY 1, 2", (2, 28), "GROUP BY.*; declare it in a flow whose target has"),
        ("SELECT order_id, at,\n max(amount) AS n FROM orders", (2, 2), "groups the rows of its batch; declare it in a flow"),
        ("SELECT order_id, at,\n row_number() OVER (ORDER BY at) AS n FROM orders", (2, 2), "computes over other rows of its batch; decl"),
        ("SELECT * FROM orders\nQUALIFY row_number() OVER (ORDER BY at) = 1", (2, 1), "QUALIFY"),
        ("WITH o AS (SELECT * FROM orders) SELECT * FROM o", (1, 1), "names parts of itself"),
        ("SELECT * FROM (SELECT * FROM orders)", (1, 16), "reads rows in a subquery; join tables in a flow with sources"),
        ("SELECT * FROM orders WHERE amount >\n (SELECT 3)", (2, 3), "reads rows in a subquery"),
        ("SELECT * FROM orders\nJOIN orders AS p ON true", (2, 1), "joins other rows.*; join tables in a flow with sources"),
        ("SELECT * FROM orders,\n orders AS p", (2, 2), "joins other rows"),
        ("SELECT * FROM orders\nLATERAL VIEW explode(items) t AS item", (2, 1), "LATERAL.*; write explode_outer"),
        ("SELECT order_id, at,\n explode(items) AS item FROM orders", (2, 2), "explode drops a row without elements; write explode_outer"),
        ("SELECT /*+ REPARTITION(3) */ * FROM orders", (1, 8), "has a hint; remove it"),
        ("SELECT * FROM orders TABLESAMPLE (3 ROWS)", (1, 15), "a version or a sample"),
        ("SELECT * FROM orders VERSION AS OF 3", (1, 15), "a version or a sample"),
        ("SELECT * FROM orders PIVOT (sum(amount) FOR country IN ('a'))", (1, 1), "must read orders as it is"),
        ("SELECT * FROM orders AS o (order_id, at)", (1, 1), "must read orders as it is"),
        ("SELECT 1 AS order_id, 2 AS at", (1, 1), "must read orders as it is; write FROM orders"),
        ("SELECT order_id, at,\n rand() AS r FROM orders", (2, 2), "rand gives another value in a rerun; derive the value"),
        ("SELECT * FROM orders\nWHERE at < now()", (2, 12), "now gives another value in a rerun; take the time from a column"),
        ("SELECT * FROM orders\nWHERE at < current_date", (2, 12), "current_date gives another value"),
        ("SELECT order_id, at, unix_timestamp() AS now FROM orders", (1, 22), "unix_timestamp gives another value"),
        ("SELECT order_id, at, current_user AS who FROM orders", (1, 22), "current_user gives another value.*; write the value"),
        ("SELECT order_id, at, reflect('a', 'b') AS who FROM orders", (1, 22), "reflect calls Java; write the transform in Python"),
        ("SELECT TRANSFORM(order_id, at) USING 'cat' AS (order_id, at) FROM orders", (1, 18), "runs a program"),
        ("SELECT * FROM orders\nWHERE amount > ${limit}", (2, 16), "a parameter, which nothing sets; write the value"),
        ("SELECT * FROM orders\nWHERE amount > :limit", (2, 16), "a parameter, which nothing sets"),
        ("SELECT * FROM orders\nWHERE country = '${env:HOME}'", (2, 18), "Spark would replace"),
        ("SELECT *\nFROM weather", (2, 6), "reads weather, which is not declared: its source is orders; name orders"),
        ("SELECT *\nFROM silver.orders", (2, 6), r"reads silver\.orders, which is not declared"),
        ("SELECT *\nFROM delta.`/lake/orders`", (2, 6), "reads delta./lake/orders, which is not declared"),
        ("SELECT *\nFROM range(3)", (2, 6), "reads range, which is not declared"),
        ("SELECT order_id, at,\n amout FROM orders", (2, 2), r"reads amout, which is no declared field of bronze\.orders; write amount"),
        ("SELECT order_id, at FROM orders o WHERE\n o.xyzzy = 1", (2, 4), "reads xyzzy, which .*; write one of amount, at"),
        ("SELECT order_id, at, amount * 2 AS twice FROM orders\nWHERE twice > 2", (2, 7), "reads twice, which is no declared field"),
        ("SELECT order_id, at,\n upper(country) FROM orders", (2, 2), "has no name; write AS <name>"),
        ("SELECT order_id, at,\n country AS AT FROM orders", (2, 2), "has AT twice; write AS <another name>"),
        ("SELECT order_id, at, country AS _filtered FROM orders", (1, 22), "column _filtered; write a condition of WHERE"),
        ("SELECT _row_id, order_id, at FROM orders", (1, 8), "column _row_id; remove it: it is carried"),
        ("SELECT order_id, at, country AS _land FROM orders", (1, 22), "column _land; name it otherwise"),
        ("SELECT order_id, country FROM orders", (1, 1), r"no column at, which the keys or the order of silver\.orders need; return it"),
    ],
)  # fmt: skip
def test_what_a_flow_of_rows_must_not_do_is_refused_with_an_alternative(
    tmp_path: Path, text: str, place: tuple[int, int], message: str
) -> None:
    where = rf"^transform 'orders\.sql': spark_jobs/orders\.sql line {place[0]}, column {place[1]}: .*{message}"
    with pytest.raises(SpecError, match=where):
        check(tmp_path, ROWS, text)


@pytest.mark.parametrize(
    ("flow", "text"),
    [
        (GROUPS, "SELECT day, count(DISTINCT customer) AS n, max_by(country, at) AS land FROM orders GROUP BY day"),
        (GROUPS, "WITH big AS (SELECT * FROM orders WHERE amount > 3) SELECT DISTINCT day FROM big ORDER BY day"),
        (
            GROUPS,
            "SELECT day, first_value(at) OVER (PARTITION BY day ORDER BY at) AS f FROM orders UNION SELECT day, at FROM orders",
        ),
        (JOINED, "SELECT o.*, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id"),
    ],
)
def test_a_select_of_groups_is_accepted(tmp_path: Path, flow: Flow, text: str) -> None:
    check(tmp_path, flow, text)


@pytest.mark.parametrize(
    ("flow", "text", "place", "message"),
    [
        (GROUPS, "SELECT day FROM orders\nORDER BY at LIMIT 3", (2, 13), "limits the number of rows.*; write max_by or min_by"),
        (GROUPS, "SELECT day,\n first(at) AS at FROM orders GROUP BY day", (2, 2), "the value of any row.*; write max, min"),
        (GROUPS, "SELECT day,\n uuid() AS id FROM orders GROUP BY day", (2, 2), "uuid gives another value"),
        (GROUPS, "SELECT day,\n count(*) FROM orders GROUP BY day", (2, 2), "has no name"),
        (GROUPS, "SELECT at FROM orders", (1, 1), r"no column day, which the keys or the order of gold\.days need"),
        (GROUPS, "SELECT o.day FROM orders o\nJOIN customers c ON o.customer = c.id", (2, 6), "reads customers, which is not declared"),
        (GROUPS, "WITH o AS (SELECT * FROM orders) (SELECT day FROM o) UNION (SELECT day FROM o)", (1, 1), "is in parentheses"),
        (GROUPS, "WITH RECURSIVE r AS (SELECT 1 AS day) SELECT day FROM r", (1, 16), "recursive"),
        (GROUPS, "WITH orders AS (SELECT 1 AS day) SELECT day FROM orders", (1, 6), "gives the name of a source again: orders"),
        (JOINED, "SELECT order_id FROM orders", (1, 1), "does not read customers, a source of the flow; join it, or remove it"),
        (JOINED, "SELECT o.order_id FROM orders o JOIN\n customers c ON customer = id", (2, 2), "does not show which rows of orders"),
    ],
)  # fmt: skip
def test_what_a_flow_of_groups_must_not_do_is_refused_with_an_alternative(
    tmp_path: Path, flow: Flow, text: str, place: tuple[int, int], message: str
) -> None:
    where = rf"^transform 'orders\.sql': spark_jobs/orders\.sql line {place[0]}, column {place[1]}: .*{message}"
    with pytest.raises(SpecError, match=where):
        check(tmp_path, flow, text)


def test_a_flow_with_state_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    stateful = Flow(
        name="counts",
        source=ChangeFeed("silver.clicks"),
        transform="orders.sql",
        state=State(),
        target=Table("silver.orders"),
    )
    with pytest.raises(SpecError, match=r"line 1, column 1: a flow with state .*; write the transform in Python"):
        check(tmp_path, stateful, "SELECT * FROM clicks")
    with pytest.raises(SpecError, match=r"spark_jobs/orders\.sql does not exist; create it, or correct the transform"):
        statement_rules.check(ROWS, None, None)


def test_columns_that_only_spark_knows_are_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "orders.sql"
    path.write_text("SELECT order_id, at, anything FROM orders")
    statement_rules.check(ROWS, path, None)
    with pytest.raises(SpecError, match="reads anything"):
        statement_rules.check(ROWS, path, FIELDS)


def test_on_is_completed_where_it_is_not_declared(tmp_path: Path) -> None:
    path = tmp_path / "orders.sql"
    path.write_text("SELECT o.*, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id AND o.at = c.at")
    completed = statement_rules.completed(JOINED, path)
    assert [feed.on for feed in completed.feeds] == [{}, {"customer": "id", "at": "at"}]
    assert completed.source is completed.feeds[0]
    declared = Flow(
        name="gold",
        sources=(ChangeFeed("silver.orders"), ChangeFeed("silver.customers", on={"customer": "id"})),
        transform="orders.sql",
        target=JOINED.target,
    )
    assert statement_rules.completed(declared, path) == declared, (
        "what is declared is not completed: Spark's plan judges it"
    )
