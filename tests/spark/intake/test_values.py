"""A text becomes a value of its type whole, or it does not fit: no part of it is lost without a word."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.spark.intake import values

pytestmark = pytest.mark.jvm

PLACE = "STRUCT<lat: DOUBLE, floor: INT>"
FITTING = [
    ("INT", " 7 ", 7),
    (PLACE, '{"lat":1.5,"floor":2}', {"lat": 1.5, "floor": 2}),
    (PLACE, '{"lat":1}', {"lat": 1.0, "floor": None}),
    (PLACE, '{"lat":null,"note":"more"}', {"lat": None, "floor": None}),
    (PLACE, "{}", {"lat": None, "floor": None}),
    ("ARRAY<INT>", "[1,null]", [1, None]),
    ("ARRAY<STRUCT<a: INT>>", '[{"a":1}]', [{"a": 1}]),
    ("MAP<STRING,INT>", '{"a":1}', {"a": 1}),
    ("STRUCT<a: MAP<STRING,DOUBLE>>", '{"a":{"b":1}}', {"a": {"b": 1.0}}),
]
UNFIT = [
    ("INT", "seven"),
    *((PLACE, text) for text in ("abc", "", "null", "1", '"abc"', "[]", '[{"lat":1}]', '{"lat":1', '{"lat":1}}')),
    *((PLACE, text) for text in ('{"lat":"x"}', '{"lat":1,"floor":1.5}', '{"floor":9999999999}', '{"lat":1} more')),
    *(("ARRAY<INT>", text) for text in ("abc", "1", "{}", '[1,"x"]', "[1]]")),
    *(("ARRAY<STRUCT<a: INT>>", text) for text in ('{"a":1}', '[{"a":1},{"a":"x"}]')),
    *(("MAP<STRING,INT>", text) for text in ("abc", "[]", '{"a":1,"b":"x"}')),
    ("STRUCT<a: MAP<STRING,DOUBLE>>", '{"a":{"b":"x"}}'),
    ("STRUCT<p: STRUCT<a: DATE>, b: INT>", '{"p":{"a":"never"},"b":1}'),
]


def cast(spark: Any, cases: list[tuple[str, str]]) -> list[Any]:
    """Each text as its type: one column each, of one row."""
    from pyspark.sql import functions as F

    texts = spark.createDataFrame([[text for _, text in cases]], [f"t{n}" for n in range(len(cases))])
    (row,) = texts.select(*[values.cast(F.col(f"t{n}"), kind) for n, (kind, _) in enumerate(cases)]).collect()
    return [value.asDict(recursive=True) if hasattr(value, "asDict") else value for value in row]


def test_a_text_that_fits_has_all_its_parts(spark: Any) -> None:
    found = cast(spark, [(kind, text) for kind, text, _ in FITTING])
    found = [
        [getattr(part, "asDict", lambda part=part: part)() for part in v] if isinstance(v, list) else v for v in found
    ]
    assert found == [value for _, _, value in FITTING]


def test_a_text_of_which_any_part_does_not_fit_is_no_value(spark: Any) -> None:
    found = cast(spark, UNFIT)
    assert {case: value for case, value in zip(UNFIT, found, strict=True) if value is not None} == {}
