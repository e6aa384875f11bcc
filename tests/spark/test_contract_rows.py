"""What becomes of rows whose values do not fit, by what a contract says and a person answered; the history says so too."""

from __future__ import annotations

import json
from datetime import date

import pytest

from tests.spark.orders import Declare, Orders, row
from tidegate.ops import evolution

pytestmark = pytest.mark.jvm

PLACE = "id INT NOT NULL, at DATE, place STRUCT<lat: DOUBLE, floor: INT>, tags ARRAY<INT>"


def test_a_value_of_which_a_part_does_not_fit_sends_its_row_to_quarantine(orders: Orders, declare: Declare) -> None:
    declare(schema=PLACE, columns='"place", "tags"')
    good = {"lat": 1.5, "floor": 2}
    orders.land(
        {"id": 1, "at": "2026-01-01", "place": good, "tags": [1]},
        {"id": 2, "at": "2026-01-01", "place": "abc"},
        {"id": 3, "at": "2026-01-01", "place": {"lat": "x", "floor": 2}},
        {"id": 4, "at": "2026-01-01", "place": good, "tags": [1, "x"]},
    )
    assert [flow.error for flow in orders.run().flows] == [None, None]
    assert [(r["id"], r["place"], r["tags"]) for r in orders.silver()] == [(1, good, [1])]
    assert sorted(orders.quarantined()) == [["wrong_type(place)"], ["wrong_type(place)"], ["wrong_type(tags)"]]
    assert orders.history() == [], "others fit"

    orders.land({"id": 5, "at": "2026-01-01", "place": [1.5, 2]})
    orders.run()
    (line,) = orders.history()
    assert (line.change.kind, line.change.field, line.decision) == ("type_change", "place", "quarantine")


def test_a_rescued_column_keeps_the_text_of_a_structure_that_does_not_fit(orders: Orders, declare: Declare) -> None:
    declare("Contract(columns={'place': 'rescue'})", schema=PLACE, columns='"place"')
    orders.land({"id": 1, "at": "2026-01-01", "place": {"lat": 1.5, "floor": "two"}}, {"id": 2, "at": "2026-01-01"})
    assert [flow.error for flow in orders.run().flows] == [None, None]
    kept = [(r["id"], r["place"], json.loads(r["_rescued"] or "{}")) for r in orders.silver()]
    assert kept == [(1, None, {"place": '{"lat":1.5,"floor":"two"}'}), (2, None, {})]


def test_a_table_that_discards_has_nothing_of_an_unknown_field_and_the_history_names_it(
    orders: Orders, declare: Declare
) -> None:
    declare("Contract(mode='discard_value', columns={'gate': 'rescue'})")
    orders.land(row(1, gate="B12", noise="x"), {**row(2), "amount": "a lot"})
    assert [flow.error for flow in orders.run().flows] == [None, None]
    assert orders.silver() == [{"id": 1, "at": date(2026, 1, 1), "amount": 1.5, "_rescued": '{"gate":"B12"}'}]
    assert orders.quarantined() == [["wrong_type(amount)"]]
    assert {(line.change.field, line.decision) for line in orders.history()} == {
        ("gate", "rescue"),
        ("noise", "discard_value"),
    }
    assert "noise" in str(orders.deployment.table("bronze.orders").to_pylist()), "bronze keeps it"


def test_of_a_type_that_changed_the_history_says_that_its_rows_were_set_aside(orders: Orders, declare: Declare) -> None:
    declare()
    orders.land({**row(1), "amount": "much"}, {**row(2), "amount": "more"})
    assert [flow.error for flow in orders.run().flows] == [None, None]
    assert orders.quarantined() == [["wrong_type(amount)"], ["wrong_type(amount)"]]
    assert [(line.change.kind, line.decision) for line in orders.history()] == [("type_change", "quarantine")]


def test_once_a_wider_type_is_accepted_what_is_too_large_is_rescued(orders: Orders, declare: Declare) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    declare("Contract(mode='freeze')", schema="id INT NOT NULL, at DATE, amount INT", format="parquet")
    columns = {
        "id": pa.array([1, 2], pa.int32()),
        "at": pa.array([date(2026, 1, 1)] * 2),
        "amount": pa.array([7, 2**40]),
    }
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content)
    orders.deployment.land("a.parquet", content.getvalue(), "orders")
    refused = orders.run().flow("silver").error
    assert refused is not None
    assert refused["changes"] == ("amount is widened (int -> bigint)",)
    evolution.answer(orders.deployment.layout, "orders", refused["drift"], "evolve", "ada")

    assert orders.run().flow("silver").error is None

    assert [(r["id"], r["amount"], r["_rescued"]) for r in orders.silver()] == [
        (1, 7, None),
        (2, None, '{"amount":"1099511627776"}'),
    ]
    assert (orders.quarantined(), orders.history()[-1].decision) == ([], "rescue")
