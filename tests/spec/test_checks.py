"""An invalid declaration fails when it is created, with the field, its value and what is allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import BRONZE, FEED, FILES, RECOMPUTED, SILVER, TOPIC, TRIPS, UPSERTED
from tidegate.errors import FieldError
from tidegate.spec import (
    ChangeFeed,
    Dialect,
    FileSource,
    Flow,
    Formats,
    Gate,
    Intervals,
    KafkaSource,
    Pipeline,
    State,
    Statistic,
    Table,
    TimeWindows,
    TopicIntervals,
    Watermark,
)

Make = Callable[..., Any]


def variant_of(declared: Any) -> Make:
    return lambda **fields: replace(declared, **fields)


DAYS = Intervals("dt=%Y-%m-%d", marker="dt=%Y-%m-%d/_SUCCESS")
LATE = Watermark(delay="10 minutes")
ROWS = Statistic("rows", "count(*)", rule="value > 0")
WINDOWS = TimeWindows(time="at", length="1 hour")

WRONG: list[tuple[Make, str, tuple[Any, ...]]] = [
    (
        variant_of(FILES),
        "path",
        ("", "/abs", "../up", "a/../b", ".", "./a", "a/", "a//b", "s3:bucket", "a\nb", "\0", 5, None),
    ),
    (variant_of(FILES), "format", ("xml", "CSV", None, ["csv"])),
    (
        variant_of(FILES),
        "schema",
        (
            "",
            "id",
            "id INT,",
            "1d INT",
            "id INT, ID INT",
            "m MAP<INT, STRING>",
            "s STRUCT<id: INT NOT NULL>",
            "a ARRAY<STRUCT<id: INT, name: STRING COMMENT 'a, b'>>",
            "id INT COMMENT 'the id'",
            "id INT, l array<struct<a: Map < DATE ,int>>>",
            5,
            None,
        ),
    ),
    (variant_of(FILES), "null_values", ("NA", ["NA"], (1,), None)),
    (variant_of(FILES), "dialect", (None, {"separator": ";"}, ";")),
    (
        lambda **own: KafkaSource(**{"topic": "t", "schema": "id INT"} | own),
        "cluster",
        ("", "Main", "a-b", "a__b", None),
    ),
    (variant_of(Dialect()), "separator", ("", ";;", "\n", '"', None)),
    (variant_of(Dialect()), "quote", ('""', "\0", 5)),
    (variant_of(Dialect()), "escape", ("\\\\", "\r", None)),
    (variant_of(Dialect()), "header", (None, 1, "id,amount")),
    (variant_of(Dialect()), "comment", ("//", "\n", 5)),
    (variant_of(Dialect()), "blank_lines", ("keep", None, True)),
    (variant_of(Dialect()), "encoding", ("latin-0", "base64", "", None)),
    (variant_of(FILES), "glob", ("in/*.csv", "*.{csv", "[a", 5, None)),
    (variant_of(FILES), "fields", ({"ID": "unknown"}, {"ID": 1}, "id", None)),
    (variant_of(FILES), "contract", ("freeze", None, {"mode": "freeze"})),
    (variant_of(FILES), "max_files_per_trigger", (0, -1, 1.5, "1", True, None)),
    (variant_of(FILES), "formats", ("", None, {"trim": True})),
    (variant_of(TOPIC), "formats", ("", None, {"trim": True})),
    (variant_of(FILES), "changes", ("debezium", {"operation": "op"}, ())),
    *((variant_of(Formats()), name, ("", 1, None)) for name in ("trim", "rounding", "decimal_comma")),
    (variant_of(Formats()), "true", ("Y", ["Y"], (1,), ("",), ("FALSE",), None)),
    (variant_of(Formats(true=("Y",))), "false", ("N", ["N"], (1,), ("",), ("True",), ("N", "Y"), None)),
    (
        variant_of(Formats()),
        "date",
        ("dd.MM", "MM.yyyy", "dd.MM.yyyy HH", "YYYY-MM-dd", "dd.MMMMM.yyyy", "dd.MM.yyyyy", 5, None),
    ),
    (variant_of(Formats()), "date", ("dd'MM.yyyy", "dd[.]MM.yyyy", "dd.MM.yyyy\n", "ISO", "%d.%m.%Y")),
    (
        variant_of(Formats()),
        "timestamp",
        ("HH:mm", "dd.MM.yyyy hh:mm", "dd.MM.yyyy HH:mm:ss.SSSSSSS", "dd.MM.yyyy VV", "D.M.y", 5, None),
    ),
    (variant_of(Formats()), "timezone", ("Mars/Base", "CEST+1", 5, 3600, None)),
    (variant_of(TOPIC), "topic", ("", "a b", ".", "..", "a/b", "x" * 250, 5, None)),
    (variant_of(TOPIC), "topic", ((), ["a", "b"], ("a", "a"), ("a", ".."), ("a", 5), ("a", ["b"]))),
    (variant_of(TOPIC), "missing", ("skip", "", None, True)),
    (variant_of(replace(TOPIC, topic=("a", "b"))), "start", ("0:15",)),
    (variant_of(TOPIC), "schema", ("", "id", 5)),
    (variant_of(TOPIC), "format", ("csv", None)),
    (variant_of(TOPIC), "max_offsets_per_trigger", (0, "5", True)),
    (variant_of(TOPIC), "max_bytes_per_trigger", ("0m", "1", "1t", "g", "1 g", 5, None)),
    (variant_of(TOPIC), "intervals", (DAYS, "day", 6)),
    (variant_of(TopicIntervals(quiet_hours=6)), "unit", ("week", "", None)),
    (variant_of(TopicIntervals(quiet_hours=6)), "quiet_hours", (0, -1, True, "6", None, 100_001)),
    (variant_of(TOPIC), "isolation", ("dirty", "", None, True)),
    (variant_of(TOPIC), "start", ("first", "", "2026-11-01", "0:-1", None, True)),
    (variant_of(TOPIC), "fields", ({"ID": "unknown"}, {"ID": 1}, "id", None)),
    (variant_of(TOPIC), "metadata", ({"id": "value"}, {"unknown": "key"}, ["id"], None)),
    (variant_of(FEED), "table", ("trips", "iron.trips", "bronze.", "bronze.Trips", "bronze.a.b", 5, None)),
    (variant_of(FILES), "max_bytes_per_trigger", ("0m", "1", 5, None)),
    (variant_of(FEED), "max_files_per_trigger", (0, None)),
    (variant_of(FEED), "max_bytes_per_trigger", ("0m", "1", "1t", "g", "1 g", 5, None)),
    (variant_of(SILVER), "snapshots", (5, "bronze.exports", ())),
    (variant_of(SILVER), "watermark", ("10 minutes", LATE)),
    (variant_of(SILVER), "state", (2,)),
    *((variant_of(LATE), name, ("", "soon", "0 hours", 5)) for name in ("delay", "skew", "idle")),
    (variant_of(State()), "partitions", (0, 1025, True, 1.5, None)),
    (variant_of(SILVER), "statistics", (None, [ROWS], ("rows",), (ROWS, ROWS))),
    (variant_of(ROWS), "name", ("Rows", "", None)),
    *((variant_of(ROWS), name, ("", " ", None)) for name in ("expression", "rule")),
    (variant_of(ROWS), "otherwise", ("warn", None)),
    (variant_of(ROWS), "batches", (0, 1001, True, 1.5, None)),
    (variant_of(FILES), "intervals", ("dt=%Y-%m-%d", 5)),
    (variant_of(DAYS), "path", ("", "dt=%Y-%m", "%Y-%m-%d/%Y", "%Y%m%d%j", "/%Y-%m-%d", "%Y-%m-%d%", None)),
    (variant_of(DAYS), "marker", ("", "_SUCCESS", "%Y%m%d%H", "../%Y%m%d", 5)),
    (variant_of(replace(DAYS, marker="", manifest="%Y%m%d")), "manifest", ("_manifest", "/%Y%m%d", 5)),
    (variant_of(replace(DAYS, marker="", files=1)), "files", (0, -1, True, 1.5, "1")),
    (variant_of(replace(DAYS, marker="", quiet_hours=1)), "quiet_hours", (0, -1, True, "1", float("inf"))),
    (
        variant_of(FEED),
        "on",
        (None, ("at",), {"at": "1st"}, {"_at": "at"}, {"at": 5}, {"from_zone": "zone", "to_zone": "zone"}),
    ),
    (
        lambda **fields: Flow(name="gold", transform="trips:join", target=RECOMPUTED, **fields),
        "sources",
        (
            (ChangeFeed("silver.trips"),),
            [ChangeFeed("silver.trips"), ChangeFeed("silver.weather", on={"at": "hour"})],
            (ChangeFeed("silver.trips"), FILES),
            (ChangeFeed("silver.trips"), ChangeFeed("silver.weather")),
            (ChangeFeed("silver.trips"), ChangeFeed("bronze.trips", on={"at": "hour"})),
        ),
    ),
    (variant_of(UPSERTED), "name", ("trips", "tin.trips", "silver.", 5, None)),
    (variant_of(RECOMPUTED), "keys", (["day"], (1,), ("1st",), ("a b",), ("day", "day"), 5, None)),
    (variant_of(UPSERTED), "sequence_by", (["at"], (1,), ("_at",), ("at", "at"), None)),
    (lambda **fields: Table("silver.trips", **fields), "sequence_by", (("at",), "at")),
    (lambda **fields: Table("silver.trips", **fields), "text_order", ("text", {"at": "text"}, {"at": "length"})),
    (
        variant_of(replace(UPSERTED, keys=("id", "leg"))),
        "replace_by",
        (["id"], (1,), ("id", "id"), ("id", "leg"), ("at",), None),
    ),
    *(
        (variant_of(table), "replace_by", (("day",), ("id",)))
        for table in (UPSERTED, RECOMPUTED, Table("silver.trips"))
    ),
    (variant_of(UPSERTED), "history", ("scd1", "", True, 5)),
    (variant_of(UPSERTED), "untracked", (["note"], (1,), ("note", "note"), ("note",), None)),
    (variant_of(RECOMPUTED), "windows", ("1 hour", 5, WINDOWS)),
    (variant_of(WINDOWS), "time", ("", "a b", 5, None)),
    (variant_of(WINDOWS), "length", ("", "1h", "0 hours", "1.5 hours", "2 weeks", 60, None)),
    (variant_of(WINDOWS), "every", ("45 minutes", "2 hours", "7 minutes", "", 5)),
    (variant_of(UPSERTED), "event_time", (("at",), "_at", "a b", "", 1)),
    (variant_of(replace(UPSERTED, event_time="at")), "first_day", ("", "soon", "2026-02-30", "0001-01-01", 2026)),
    (variant_of(replace(UPSERTED, event_time="at")), "last_day", ("", "soon", "2026-02-30", "9999-12-31", 2026)),
    (
        variant_of(Gate("trips/silver")),
        "suite",
        ("silver", "a/b/c", "Trips/silver", "trips/silver.json", "../a", 5, None),
    ),
    (variant_of(SILVER), "name", ("", "Silver", "1st", "a-b", "a.b", "x" * 64, 5, None)),
    (variant_of(SILVER), "source", ("bronze.trips", None, UPSERTED)),
    (variant_of(SILVER), "target", ("silver.trips", None, FEED)),
    (variant_of(SILVER), "transform", ("clean", "a:b:c", "Trips:clean", "a.b:clean", "", 5)),
    (variant_of(SILVER), "gate", ("trips/silver", True)),
    (variant_of(SILVER), "checkpoint_version", (0, -1, 1.0, "1", True, None)),
    (variant_of(SILVER), "thresholds", ({}, 5)),
    (variant_of(SILVER), "rewrite_limits", ({}, 0.1)),
    (variant_of(TRIPS), "name", ("", "Trips", "a b", 5)),
    (variant_of(TRIPS), "flows", ((), [BRONZE], ("bronze",), None)),
    (variant_of(TRIPS), "schedule", ("daily", "@never", "* * *", "61 * * * *", "a b c d e", "", 5)),
    (variant_of(TRIPS), "timezone", ("Mars/Base", "", 5, None)),
    (variant_of(TRIPS), "start_date", ("2026-13-01", "2026-1-1", "yesterday", 5, None)),
    (variant_of(TRIPS), "owner", ("", " ", 5, None)),
    (variant_of(TRIPS), "description", (5, None)),
    (variant_of(TRIPS), "tags", ("a", ["a"], (1,), None)),
    (variant_of(TRIPS), "retries", (-1, 21, 1.5, "3", True, None)),
    (variant_of(TRIPS), "thresholds", (None, {}, 5)),
    (variant_of(TRIPS), "rewrite_limits", (None, {}, 0.1)),
    (variant_of(TRIPS), "resources", ({}, {"executors": 2}, "4g", 5)),
    (variant_of(TRIPS), "tables", ("shop.csv", {}, 5)),
    (variant_of(TRIPS), "listed", ("a", ["a"], (1,), None)),
    (variant_of(TRIPS), "invalid_tables", (("a",), [], None)),
]


@pytest.mark.parametrize(
    ("make", "field", "value"),
    [(make, field, value) for make, field, values in WRONG for value in values],
    ids=[f"{number}-{field}={value!r:.24}" for number, (_, field, values) in enumerate(WRONG) for value in values],
)
def test_an_invalid_field_is_refused_with_its_name_its_value_and_what_is_allowed(
    make: Make, field: str, value: Any
) -> None:
    with pytest.raises(FieldError) as raised:
        make(**{field: value})
    assert raised.value.field == field
    assert raised.value.allowed
    assert f"{field}=" in raised.value.message
    assert raised.value.allowed in raised.value.message
    assert raised.value.exit_code == 78


def test_every_field_of_every_declaration_has_an_invalid_value_above() -> None:
    tested = {(field) for _, field, _ in WRONG}
    for kind in (Dialect, FileSource, KafkaSource, Formats, ChangeFeed, Table, TimeWindows, Gate, Flow, Pipeline):
        assert {field.name for field in dataclasses.fields(kind)} <= tested, kind


def test_a_declaration_is_frozen_and_takes_keyword_arguments_only() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SILVER.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Flow("silver", FEED, UPSERTED)  # type: ignore[call-arg, arg-type]
