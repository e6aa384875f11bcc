"""Texts are cast by the grammar of their type in docs/formats.md; other texts do not fit."""

from __future__ import annotations

import datetime
import functools
import json
import math
import struct
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.spark.intake.cast_cases import CASES
from tests.spark.intake.test_parse import bronze, messages
from tidegate import json_codec
from tidegate.spark.intake import casts, parse
from tidegate.spec import FileSource, Formats, KafkaSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  # all times here are UTC
PLAIN = Formats()


def cast(spark: SparkSession, kind: str, texts: list[str], formats: Formats = PLAIN) -> list[Any]:
    """Cast all texts in one query. Dates and times are returned as Spark formats them, NaN as the text "NaN"."""
    from pyspark.sql import functions as F

    value = casts.cast(F.col("text"), kind, formats)
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        value = value.cast("string")
    frame = spark.createDataFrame(list(enumerate(texts)), "position int, text string").coalesce(1)
    return [plain(row["value"]) for row in frame.select("position", value.alias("value")).collect()]


def plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: plain(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize(
    ("kind", "formats", "fitting", "wrong"),
    CASES,
    ids=[f"{kind} {json_codec.encode(json_codec.changed_fields(formats))}" for kind, formats, *_ in CASES],
)
def test_a_text_is_cast_by_the_grammar_of_its_type(
    spark: SparkSession, kind: str, formats: Formats, fitting: dict[str, Any], wrong: tuple[str, ...]
) -> None:
    values = cast(spark, kind, [*fitting, *wrong], formats)

    expected = {**fitting, **dict.fromkeys(wrong)}
    assert {text: value for text, value in zip(expected, values, strict=True) if value != expected[text]} == {}


# The functions below compute the expected values in Python. They share no expression and no cast with the product.


def digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def unsigned(text: str) -> str:
    return text[1:] if text[:1] in ("+", "-") else text


def number(text: str) -> tuple[str, str, int] | None:
    """The digits before and after the point, and the exponent; None for a text that is not a number."""
    mantissa, _, exponent = unsigned(text).replace("E", "e").partition("e")
    integer, _, fraction = mantissa.partition(".")
    if not all(digits(part) for part in (integer, fraction) if part) or not integer + fraction:
        return None
    if "e" in text.replace("E", "e"):
        return (integer, fraction, int(exponent)) if digits(unsigned(exponent)) else None
    return integer, fraction, 0


def expected_int(text: str) -> int | None:
    return int(text) if digits(unsigned(text)) and -(2**31) <= int(text) < 2**31 else None


def expected_decimal(text: str) -> Decimal | None:
    """The value as DECIMAL(12,2)."""
    if number(text) is None:
        return None
    value = Decimal(text)
    return value if abs(value) < 10**10 and (Fraction(value) * 100).denominator == 1 else None


def expected_double(text: str) -> Any:
    if text in ("NaN", "Infinity", "-Infinity"):
        return plain(float(text))
    if number(text) is None or math.isinf(float(text)):
        return None
    return float(text)


def expected_float(text: str) -> Any:
    """The nearest float, ties to even. Converting the nearest double instead would round twice."""
    value = expected_double(text)
    if value is None or isinstance(value, str) or math.isinf(value):
        return value
    exact = Fraction(Context(prec=2000).create_decimal(text))
    limit = Fraction(2**24 - 1) * 2**104
    if abs(exact) >= limit + Fraction(2) ** 103:
        return None
    (bits,) = struct.unpack("<i", struct.pack("<f", max(min(value, float(limit)), -float(limit))))
    near = [
        struct.unpack("<f", struct.pack("<i", bits + step))[0]
        for step in (-1, 0, 1)
        if (bits + step) & 0x7FFFFFFF < 0x7F800000
    ]
    return min(near, key=lambda value: (abs(Fraction(value) - exact), struct.pack("<f", value)[0] & 1))


def expected_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower()) if text.isascii() else None


def expected_date(text: str) -> str | None:
    if len(text) != 10 or text[4] + text[7] != "--" or not digits(text[:4] + text[5:7] + text[8:]):
        return None
    try:
        return datetime.date(int(text[:4]), int(text[5:7]), int(text[8:])).isoformat()
    except ValueError:
        return None


def expected_local_time(text: str) -> datetime.datetime | None:
    day, time_text = expected_date(text[:10]), text[10:]
    if day is None or not time_text:
        return datetime.datetime.fromisoformat(day) if day else None
    clock, point, fraction = time_text[1:].partition(".")
    parts = clock.split(":")
    fraction = fraction.rstrip("0") if digits(fraction) else "x" if point else ""
    if time_text[0] not in "T " or len(parts) not in (2, 3) or (point and len(parts) == 2):
        return None
    if (
        not all(len(part) == 2 and digits(part) for part in parts)
        or (fraction and not digits(fraction))
        or len(fraction) > 6
    ):
        return None
    try:
        hour, minute, second = (*map(int, parts), 0)[:3]
        time = datetime.time(hour, minute, second, int(fraction.ljust(6, "0")))
    except ValueError:
        return None
    return datetime.datetime.combine(datetime.date.fromisoformat(day), time)


def spark_text(moment: datetime.datetime | None) -> str | None:
    """A time as Spark formats it."""
    if moment is None:
        return None
    text = moment.isoformat(" ", "microseconds")
    return text.rstrip("0").rstrip(".")


def expected_timestamp(text: str) -> str | None:
    local, zone = text, ""
    if "Z" in text:
        local, _, suffix = text.partition("Z")
        zone = "x" if suffix else "+00:00"
    elif (position := max(text.rfind("+"), text.rfind("-"))) >= 16:
        local, zone = text[:position], text[position:]
    moment = expected_local_time(local)
    if moment is None or not zone:
        return spark_text(moment)
    hours, minutes = zone[1:3], zone[3:].removeprefix(":") if len(zone) > 4 else zone[3:]
    if (
        len(local) < 16
        or not (digits(hours) and len(hours) == 2)
        or (zone[3:] and not (digits(minutes) and len(minutes) == 2))
    ):
        return None
    offset = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0))
    if int(minutes or 0) > 59 or offset > datetime.timedelta(hours=18):
        return None
    try:
        return spark_text(moment - offset if zone[0] == "+" else moment + offset)
    except OverflowError:
        return None


NUMBERS = st.one_of(
    st.from_regex(r"[+-]?[0-9]{0,12}(\.[0-9]{0,4}0{0,3})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.from_regex(r"[+-]?[0-9]{1,3}\.[0-9]{1,40}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.integers(-(2**31) - 3, 2**31 + 3).map(str),
    st.floats(width=32).map(repr),
    st.floats().map(repr),
    st.decimals(-(10**11), 10**11, places=3).map(str),
    st.from_regex(r"[0-9]{1,6}0{0,30}(\.0{0,30}[0-9]{0,4})?[eE][+-]?[0-9]{1,2}", fullmatch=True),
    st.text("0123456789+-.eEdfNaInity_ x\n\t\0\uff11\u0663", max_size=7),
)
DAYS = st.one_of(
    st.dates().map(str),
    st.from_regex(r"(000[01]|9999|[0-9]{4})-[01][0-9]-[0-3][0-9]", fullmatch=True),
    st.text("0129-: T\n\uff11", max_size=11),
)
CLOCKS = st.from_regex(r"[T ](2[0-4]|[01][0-9]):[0-6][0-9](:[0-6][0-9](\.[0-9]{0,7}0{0,4})?)?", fullmatch=True)
ZONES = st.one_of(
    st.just(""), st.just("Z"), st.from_regex(r" ?[+-][012][0-9](:?[0-6][0-9])?", fullmatch=True), st.just("z")
)
TIMES = st.one_of(
    DAYS,
    st.builds(lambda *parts: "".join(parts), DAYS, CLOCKS, ZONES),
    st.builds(
        lambda *parts: "".join(parts), st.sampled_from(("0001-01-01", "9999-12-31", "2024-02-29")), CLOCKS, ZONES
    ),
    st.datetimes(timezones=st.timezones()).map(datetime.datetime.isoformat),
)
WORDS = st.one_of(
    st.sampled_from(("true", "false", "t", "f", "yes", "no", "1", "0")), st.text("truefalsTRUEFALS \u017f", max_size=6)
)
EXPECTED: dict[str, tuple[st.SearchStrategy[str], Callable[[str], Any]]] = {
    "INT": (NUMBERS, expected_int),
    "DECIMAL(12,2)": (NUMBERS, expected_decimal),
    "DOUBLE": (NUMBERS, expected_double),
    "FLOAT": (NUMBERS, expected_float),
    "BOOLEAN": (
        WORDS.flatmap(lambda word: st.sampled_from((word, word.upper(), word.title(), f" {word}"))),
        expected_boolean,
    ),
    "DATE": (DAYS, expected_date),
    "TIMESTAMP": (TIMES, expected_timestamp),
    "TIMESTAMP_NTZ": (TIMES, lambda text: spark_text(expected_local_time(text))),
}


def generated(strategy: st.SearchStrategy[str], count: int) -> list[str]:
    """Generate texts with Hypothesis. They are collected, so that one query can cast all of them."""
    texts: dict[str, None] = {}

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(text: str) -> None:
        texts[text] = None

    collect()
    return list(texts)


@pytest.mark.parametrize("count", [150, pytest.param(1500, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", EXPECTED)
def test_generated_texts_are_cast_to_the_values_that_python_computes(
    spark: SparkSession, kind: str, count: int
) -> None:
    strategy, expected_value = EXPECTED[kind]
    texts = generated(strategy, count)

    values = cast(spark, kind, texts)

    expected = [expected_value(text) for text in texts]
    wrong = {text: pair for text, *pair in zip(texts, values, expected, strict=True) if pair[0] != pair[1]}
    assert wrong == {}, "the value of the cast, and the value that Python computes"
    assert any(value is None for value in expected)
    assert len([value for value in expected if value is not None]) > 3, "the test needs texts that fit"


SCHEMA = "i INT, d DECIMAL(12,2), x DOUBLE, b BOOLEAN, day DATE, at TIMESTAMP, l ARRAY<DECIMAL(12,2)>, s STRING"
TEXTS = (
    "7", " 7", "1.50", "1.005", "1e2", "1e400", "1d", "\uff11", "true", "y", "2026-01-02", "2026-01-02 x", "12:00",
    "2026-01-02T03:04+02:00", "9999-12-31T23:59-01:00", "NaN", "[1.50]", "[1.005]", "x\u2028", "01.02.2026", "1.234,5",
)  # fmt: skip


@pytest.mark.parametrize(
    "formats",
    [pytest.param(PLAIN, marks=pytest.mark.nightly), Formats(trim=True, rounding=True, true=("y",), date="dd.MM.yyyy")],
    ids=["default formats", "declared formats"],
)
def test_a_text_is_cast_to_the_same_value_in_every_file_format(spark: SparkSession, formats: Formats) -> None:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    names = [part.split()[0] for part in SCHEMA.split(", ")]
    rows = [dict.fromkeys(names, text) for text in TEXTS]
    header = ",".join(names)
    quoted: list[tuple[str, str | None]] = [
        (",".join('"' + text.replace('"', '""') + '"' for text in row.values()), header) for row in rows
    ]
    typed = json.dumps([[name, "string"] for name in names])
    lines = [json.dumps(row) for row in rows]

    def file(kind: Any, records: list[tuple[str, str | None]]) -> parse.Parsed:
        source = FileSource(path="x", format=kind, schema=SCHEMA, formats=formats)
        return parse.parse(bronze(spark, *records), source)

    topic = KafkaSource(topic="x", schema=SCHEMA, formats=formats)
    parsed = {
        "csv": file("csv", quoted),
        "json": file("json", [(line, None) for line in lines]),
        "parquet": file("parquet", [(line, typed) for line in lines]),
        "avro": file("avro", [(line, typed) for line in lines]),
        "kafka": parse.parse(messages(spark, *(line.encode() for line in lines)), topic),
    }
    frames = [result.rows.select(F.lit(kind), *names, "_origin.broken") for kind, result in parsed.items()]
    rows_by_kind: dict[str, list[Any]] = {kind: [] for kind in parsed}
    for kind, *values in functools.reduce(DataFrame.union, frames).collect():
        rows_by_kind[kind].append([plain(value) for value in values])

    by_text = [{row[-2]: row for row in rows} for rows in rows_by_kind.values()]
    assert [set(rows) for rows in by_text] == [set(TEXTS)] * 5
    assert all(rows == by_text[0] for rows in by_text), rows_by_kind
    fits = {text: len(names) - 1 - len(row[-1]) for text, row in by_text[0].items()}
    assert fits["x\u2028"] == 0
    different = (fits[" 7"], fits["1.005"], fits["[1.005]"], fits["y"], fits["01.02.2026"])
    assert different == ((0, 1, 0, 0, 0) if formats == PLAIN else (3, 2, 1, 1, 1))
