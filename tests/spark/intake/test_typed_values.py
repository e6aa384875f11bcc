"""Which texts are values, and how texts that do not fit are rescued."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.intake.test_parse import bronze, fields, read, source
from tidegate.schema.contract import Contract
from tidegate.spark.intake import parse
from tidegate.spec import Formats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

HEADER = "id,at,amount,note"


def test_blanks_are_part_of_a_value_unless_they_are_trimmed_and_trimmed_blanks_are_no_value(
    spark: SparkSession,
) -> None:
    feed = bronze(spark, (" 1, ,\t2.5 , x ", HEADER), ("2, NA ,NA,NA", HEADER))

    trimmed = read(parse.parse(feed, source(null_values=("", "NA"), formats=Formats(trim=True))))
    plain = read(parse.parse(feed, source(null_values=("", "NA"))))

    assert [fields(row) for row in trimmed] == [(1, None, 2.5, " x "), (2, None, None, None)]
    assert [row["broken"] for row in trimmed] == [[], []]
    assert [row["broken"] for row in plain] == [
        ["wrong_type(id)", "wrong_type(at)", "wrong_type(amount)"],
        ["wrong_type(at)"],
    ]
    assert [row["_origin"]["filled"] for row in trimmed] == [[0b1101], [0b0001]]


def test_a_rescued_value_is_the_original_text(spark: SparkSession) -> None:
    contract = Contract(columns={"amount": "rescue", "at": "rescue"})
    feed = bronze(spark, ("1,2026-01-01 noon, 1e400 ,x", HEADER))

    (row,) = read(parse.parse(feed, source(contract=contract, formats=Formats(trim=True))))

    assert (row["_rescued"], row["broken"]) == ({"amount": " 1e400 ", "at": "2026-01-01 noon"}, [])
