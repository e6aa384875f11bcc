"""Which columns are guessed as the key of a sample, and what is said about them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.scaffolding.test_draft import draft
from tidegate.scaffolding.draft import Draft


def table(folder: Path, header: str, *rows: str) -> Draft:
    return draft(folder, "\n".join((header, *rows)) + "\n")


def many(row: str, rows: int = 30) -> list[str]:
    """Rows in which ``#`` is the number of the row, from 100 on."""
    return [row.replace("#", str(number)) for number in range(100, 100 + rows)]


@pytest.mark.parametrize(
    ("header", "row", "key"),
    [
        ("amount,order_id", "#.50,A#", ("order_id",)),
        ("customer_id,id", "#,A#", ("id",)),
        ("Bestellnr;Betrag", "#;#,50", ("bestellnr",)),
        ("orderid,price", "#,#", ("orderid",)),
        ("label,code_of_it", "A-#,x", ("label",)),
        ("ref,note", "0b5e8c1e-1111-4222-8333-0000000#,x", ()),
        ("ref,note", "0b5e8c1e-1111-4222-8333-000000000#,x", ("ref",)),
    ],
)
def test_a_column_that_looks_like_an_identifier_and_is_different_in_all_records_is_the_key(
    tmp_path: Path, header: str, row: str, key: tuple[str, ...]
) -> None:
    drafted = table(tmp_path, header, *many(row))
    assert drafted.key.columns == key
    assert [*drafted.key.doubts] == (["customer_id could be the key too"] if "customer_id" in header else [])


MEASURES = ["price", "amount", "quantity", "total", "Menge", "size", "zip_code", "status_id"]


@pytest.mark.parametrize(
    ("column", "value"),
    [(column, value) for column in [*MEASURES, "age", "x", "day"] for value in ["#", "#.5", "2026-01-05T09:#"]]
    + [(column, "EUR#") for column in MEASURES],
)
def test_a_measure_is_no_key_however_small_the_sample_is(tmp_path: Path, column: str, value: str) -> None:
    for rows in (1, 2, 3, 30):
        drafted = table(tmp_path, f"{column},note", *many(f"{value},again and again", rows))
        assert drafted.key.columns == ()
        assert drafted.why[-1].startswith("no key: no field looks like an identifier")


def test_one_record_without_a_value_is_named_and_does_not_hide_the_key(tmp_path: Path) -> None:
    rows = many("A#,x", 384)
    rows[197] = ",x"
    drafted = table(tmp_path, "order_id,note", *rows)
    assert drafted.key.columns == ("order_id",)
    assert drafted.key.why == "key order_id: 383 records, all different; its name is like an identifier's"
    assert drafted.key.doubts == ("key order_id has no value in line 199: its record goes to quarantine",)


def test_without_many_values_a_column_is_no_key_and_lines_are_named(tmp_path: Path) -> None:
    rows = many("A#,x")
    rows[3], rows[7] = ",x", ",y"
    drafted = table(tmp_path, "order_id,note", *rows)
    assert drafted.why[-1] == "no key: order_id has no value in lines 5, 9. Silver keeps every record"


def test_two_records_of_the_same_value_that_differ_are_named(tmp_path: Path) -> None:
    rows = [*many("A#,x"), "A103,y"]
    drafted = table(tmp_path, "order_id,note", *rows)
    assert drafted.why[-1] == "no key: order_id is the same in lines 5, 32, which differ. Silver keeps every record"


def test_a_record_that_is_there_twice_does_not_hide_the_key(tmp_path: Path) -> None:
    drafted = table(tmp_path, "order_id,note", *many("A#,x"), "A103,x")
    assert drafted.key.columns == ("order_id",)
    assert drafted.key.doubts == ("line 32 repeats an earlier record: one row of each is kept",)


def test_records_that_a_version_tells_apart_have_the_same_key(tmp_path: Path) -> None:
    rows = [*many("A#,2026-01-05T09:30:00Z"), "A103,2026-01-06T09:30:00Z"]
    drafted = table(tmp_path, "order_id,updated_at", *rows)
    assert (drafted.key.columns, drafted.order) == (("order_id",), "updated_at")
    assert drafted.key.doubts == ("lines 5, 32 have the same order_id: taken for versions by updated_at",)


def test_events_of_few_devices_are_no_versions_of_devices(tmp_path: Path) -> None:
    rows = [f"D-{number % 3}00,2026-01-05T09:{number:02}:00Z" for number in range(30)]
    drafted = table(tmp_path, "device_id,timestamp", *rows)
    assert (drafted.key.columns, drafted.order) == (("device_id", "timestamp"), "landed_at")


def test_positions_tell_the_rows_of_an_identifier_apart(tmp_path: Path) -> None:
    rows = [f"A{number // 3},{number % 3},{number}.50" for number in range(60)]
    drafted = table(tmp_path, "order_id,line,price", *rows)
    assert drafted.key.columns == ("order_id", "line")


def test_one_time_without_a_value_is_named_and_stays_order_and_event_time(tmp_path: Path) -> None:
    rows = many("A#,2026-01-05,2026-01-05T09:30:00Z")
    rows[3], rows[7] = "A103,2026-01-05,", "A107,,2026-01-05T09:30:00Z"
    drafted = table(tmp_path, "order_id,order_day,updated_at", *rows)
    assert (drafted.order, drafted.event_time) == ("updated_at", "order_day")
    assert [*drafted.doubts()] == [
        "event time order_day has no value in line 9: no window of a backfill has it",
        "order updated_at has no value in line 5: its record goes to quarantine",
    ]


def test_a_small_sample_is_a_doubt(tmp_path: Path) -> None:
    drafted = table(tmp_path, "order_id,note", *many("A#,x", 3))
    assert drafted.key.doubts == ("only 3 records: too few to know that order_id is different in all",)


@pytest.mark.parametrize("seed", range(30))
def test_no_two_records_of_a_sample_that_differ_have_the_same_key_and_version(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = chance.sample(["order_id", "line", "day", "price", "code", "updated_at", "customer_id", "note"], 5)
    rows = []
    for _ in range(chance.choice([1, 4, 30, 200])):
        number = chance.randrange(chance.choice([3, 1_000]))
        values = {"day": f"2026-01-{number % 28 + 1:02}", "updated_at": f"2026-01-05T09:{number % 60:02}:00Z"}
        rows.append(
            [values.get(name, str(chance.randrange(number + 2))) if chance.random() > 0.01 else "" for name in names]
        )
    drafted = table(tmp_path, ",".join(names), *map(",".join, rows))
    if not drafted.key.columns:
        return
    assert not {"price", "note"} & {*drafted.key.columns}
    required = [name for name in (*drafted.key.columns, drafted.order) if name in names]
    complete = [
        dict(zip(names, row, strict=True))
        for row in rows
        if all(dict(zip(names, row, strict=True))[name] for name in required)
    ]
    assert len(rows) - len(complete) <= 2 * max(len(rows) >= 5, len(rows) // 100) + len(required)
    different = {tuple(record.values()) for record in complete}
    assert len(different) == len({tuple(record[name] for name in required) for record in complete})
