"""Which rule catches text in a column of another type: a built-in rule, or the rules for NULL if the contract keeps the row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.resolved import resolved
from tidegate.cli.mutants import _mistyped
from tidegate.lake.layout import Layout
from tidegate.spec import ChangeFeed, Contract, FileSource, Flow, Gate, Pipeline, Table


def orders(contract: Contract) -> Pipeline:
    schema = "order_id STRING NOT NULL, amount DOUBLE, pieces INT"
    source = FileSource(path="orders", format="csv", schema=schema, contract=contract)
    silver = Flow(
        name="silver",
        source=ChangeFeed("bronze.orders"),
        target=Table("silver.orders", keys=("order_id",), sequence_by=("amount",)),
        gate=Gate("orders/silver"),
    )
    return Pipeline(name="orders", flows=(Flow(name="bronze", source=source, target=Table("bronze.orders")), silver))


def mistyped(folder: Path, contract: Contract) -> dict[str, Any]:
    nulls = [
        {"column": "order_id", "change": "null", "caught_by": ["null_key(order_id)"]},
        {"column": "amount", "change": "null", "caught_by": ["not_null(amount)"]},
        {"column": "pieces", "change": "null", "caught_by": []},
    ]
    silver = resolved(orders(contract)).flow("silver")
    lines = _mistyped(Layout.local(folder / "lake", folder / "landing"), silver, nulls)
    return {line["column"]: line["caught_by"] for line in lines}


def test_a_text_of_another_type_is_refused_by_the_built_in_rule(tmp_path: Path) -> None:
    assert mistyped(tmp_path, Contract()) == {"amount": ["wrong_type(amount)"], "pieces": ["wrong_type(pieces)"]}


def test_if_the_contract_keeps_the_row_only_rules_for_null_catch_it(tmp_path: Path) -> None:
    contract = Contract(columns={"amount": "rescue", "pieces": "rescue"})
    assert mistyped(tmp_path, contract) == {"amount": ["not_null(amount)"], "pieces": []}
