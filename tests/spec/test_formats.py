"""Formats of values are plain data, validated when they are declared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.spec.trips import FILES, TOPIC
from tests.with_fields import with_fields
from tidegate.errors import FieldError
from tidegate.json_codec import changed_fields, decode, encode
from tidegate.ops.evolution import declared_fingerprint
from tidegate.spec import Formats

ALL = Formats(
    trim=True,
    rounding=True,
    decimal_comma=True,
    true=("Y", "1"),
    false=("N",),
    date="dd.MM.yyyy",
    timestamp="dd.MM.yyyy HH:mm",
    timezone="Europe/Paris",
)


@pytest.mark.parametrize("formats", [ALL, Formats(), Formats(trim=True), Formats(false=("0",))])
def test_formats_round_trip_through_json(formats: Formats) -> None:
    assert decode(encode(changed_fields(formats)), Formats) == formats


@pytest.mark.parametrize(
    ("pattern", "zone"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", True),
        ("d. MMM yyyy h:mm a z", True),
        ("yyyyMMddHHmmss", False),
        ("dd.MM.yy 'X' HH:mm", False),
        ("", False),
    ],
)
def test_a_zone_in_a_pattern_is_detected(pattern: str, zone: bool) -> None:
    assert Formats(timestamp=pattern).has_zone is zone


def test_a_pattern_with_a_zone_is_refused_for_a_timestamp_without_one() -> None:
    zoned = Formats(timestamp="yyyy-MM-dd HH:mmX")
    replace(TOPIC, schema="at TIMESTAMP", formats=zoned)
    for source in (FILES, TOPIC):
        with pytest.raises(FieldError, match="because local is TIMESTAMP_NTZ") as refused:
            replace(source, schema="at TIMESTAMP, local TIMESTAMP_NTZ", formats=zoned)
        assert refused.value.field == "timestamp"


def test_a_decimal_comma_is_allowed_for_csv_only() -> None:
    replace(FILES, format="csv", formats=ALL)
    for source in (TOPIC, *(with_fields(FILES, format=kind) for kind in ("json", "parquet", "avro"))):
        with pytest.raises(FieldError, match="have a point") as refused:
            with_fields(source, formats=Formats(decimal_comma=True))
        assert refused.value.field == "decimal_comma"


def test_a_change_of_formats_changes_the_fingerprint_so_that_a_refused_batch_is_tried_again() -> None:
    assert declared_fingerprint(FILES) == declared_fingerprint(replace(FILES, formats=Formats()))
    assert declared_fingerprint(FILES) != declared_fingerprint(replace(FILES, formats=Formats(trim=True)))
