"""A declaration says what a pipeline is; a wrong one fails at once with the field, its value and what is allowed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tidegate.ddl import Column, parse_ddl
from tidegate.errors import FieldError, SpecError
from tidegate.spec import (
    AfterTables,
    ChangeFeed,
    FileSource,
    Flow,
    Gate,
    KafkaSource,
    Pipeline,
    Table,
    fingerprint,
)

SCHEMA = "id INT NOT NULL, at TIMESTAMP"
FILES = FileSource(path="trips", format="csv", schema=SCHEMA)
TOPIC = KafkaSource(topic="trips", schema=SCHEMA)
FEED = ChangeFeed("bronze.trips")
UPSERTED = Table("silver.trips", keys=("id",), sequence_by=("at",))
RECOMPUTED = Table("gold.trips", keys=("day",))
BRONZE = Flow(name="bronze", source=FILES, target=Table("bronze.trips"))
SILVER = Flow(name="silver", source=FEED, transform="trips:clean", target=UPSERTED, gate=Gate("trips/silver"))
GOLD = Flow(name="gold", source=ChangeFeed("silver.trips"), transform="trips:daily", target=RECOMPUTED)
TRIPS = Pipeline(name="trips", schedule="@daily", flows=(BRONZE, SILVER, GOLD))

Make = Callable[..., Any]


def made_of(declared: Any) -> Make:
    return lambda **fields: replace(declared, **fields)


WRONG: list[tuple[Make, str, tuple[Any, ...]]] = [
    (
        made_of(FILES),
        "path",
        ("", "/abs", "../up", "a/../b", ".", "./a", "a/", "a//b", "s3:bucket", "a\nb", "\0", 5, None),
    ),
    (made_of(FILES), "format", ("xml", "CSV", None, ["csv"])),
    (made_of(FILES), "schema", ("", "id", "id INT,", "1d INT", "id INT, ID INT", 5, None)),
    (made_of(FILES), "null_values", ("NA", ["NA"], (1,), None)),
    (made_of(FILES), "glob", ("in/*.csv", "*.{csv", "[a", 5, None)),
    (made_of(FILES), "contract", ("freeze", None, {"mode": "freeze"})),
    (made_of(FILES), "max_files_per_trigger", (0, -1, 1.5, "1", True, None)),
    (made_of(TOPIC), "topic", ("", "a b", ".", "..", "a/b", "x" * 250, 5, None)),
    (made_of(TOPIC), "schema", ("", "id", 5)),
    (made_of(TOPIC), "format", ("csv", None)),
    (made_of(TOPIC), "max_offsets_per_trigger", (0, "5", True)),
    (made_of(FEED), "table", ("trips", "iron.trips", "bronze.", "bronze.Trips", "bronze.a.b", 5, None)),
    (made_of(FEED), "max_files_per_trigger", (0, None)),
    (made_of(FEED), "max_bytes_per_trigger", ("0m", "1", "1t", "g", "1 g", 5, None)),
    (made_of(UPSERTED), "name", ("trips", "tin.trips", "silver.", 5, None)),
    (made_of(RECOMPUTED), "keys", (["day"], (1,), ("1st",), ("a b",), ("day", "day"), 5, None)),
    (made_of(UPSERTED), "sequence_by", (["at"], (1,), ("_at",), ("at", "at"), None)),
    (lambda **fields: Table("silver.trips", **fields), "sequence_by", (("at",), "at")),
    (made_of(UPSERTED), "event_time", (("at",), "_at", "a b", "", 1)),
    (made_of(Gate("trips/silver")), "suite", ("silver", "a/b/c", "Trips/silver", "trips/silver.json", "../a", 5, None)),
    (made_of(SILVER), "name", ("", "Silver", "1st", "a-b", "a.b", "x" * 64, 5, None)),
    (made_of(SILVER), "source", ("bronze.trips", None, UPSERTED)),
    (made_of(SILVER), "target", ("silver.trips", None, FEED)),
    (made_of(SILVER), "transform", ("clean", "a:b:c", "Trips:clean", "a.b:clean", "", 5)),
    (made_of(SILVER), "gate", ("trips/silver", True)),
    (made_of(SILVER), "checkpoint_version", (0, -1, 1.0, "1", True, None)),
    (made_of(SILVER), "thresholds", ({}, 5)),
    (made_of(TRIPS), "name", ("", "Trips", "a b", 5)),
    (made_of(TRIPS), "flows", ((), [BRONZE], ("bronze",), None)),
    (made_of(TRIPS), "schedule", ("daily", "@never", "* * *", "61 * * * *", "a b c d e", "", 5)),
    (made_of(TRIPS), "timezone", ("Mars/Base", "", 5, None)),
    (made_of(TRIPS), "start_date", ("2026-13-01", "2026-1-1", "yesterday", 5, None)),
    (made_of(TRIPS), "owner", ("", " ", 5, None)),
    (made_of(TRIPS), "description", (5, None)),
    (made_of(TRIPS), "tags", ("a", ["a"], (1,), None)),
    (made_of(TRIPS), "retries", (-1, 21, 1.5, "3", True, None)),
    (made_of(TRIPS), "thresholds", (None, {}, 5)),
]


@pytest.mark.parametrize(
    ("make", "field", "value"),
    [(make, field, value) for make, field, values in WRONG for value in values],
    ids=[f"{number}-{field}={value!r:.24}" for number, (_, field, values) in enumerate(WRONG) for value in values],
)
def test_a_wrong_field_fails_with_its_name_its_value_and_what_is_allowed(make: Make, field: str, value: Any) -> None:
    with pytest.raises(FieldError) as raised:
        make(**{field: value})
    assert raised.value.field == field
    assert raised.value.allowed
    assert f"{field}=" in raised.value.message
    assert raised.value.allowed in raised.value.message
    assert raised.value.exit_code == 78


def test_every_field_of_every_declaration_has_a_wrong_value_above() -> None:
    tried = {(field) for _, field, _ in WRONG}
    for kind in (FileSource, KafkaSource, ChangeFeed, Table, Gate, Flow, Pipeline):
        assert {field.name for field in dataclasses.fields(kind)} <= tried, kind


@pytest.mark.parametrize(
    ("field", "value", "make"),
    [
        ("transform", "trips:clean", lambda: replace(BRONZE, transform="trips:clean")),
        ("target", "silver.trips", lambda: replace(BRONZE, target=UPSERTED)),
        ("gate", "trips/bronze", lambda: replace(BRONZE, gate=Gate("trips/bronze"))),
        ("target", "bronze.trips", lambda: replace(SILVER, target=Table("bronze.trips"))),
        ("transform", None, lambda: replace(SILVER, target=Table("silver.copy"), transform=None)),
        ("transform", None, lambda: replace(GOLD, transform=None)),
        ("flows", "bronze", lambda: replace(TRIPS, flows=(BRONZE, replace(BRONZE, target=Table("bronze.other"))))),
        ("flows", "bronze.trips", lambda: replace(TRIPS, flows=(BRONZE, replace(BRONZE, name="other")))),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(field: str, value: Any, make: Callable[[], Any]) -> None:
    with pytest.raises(FieldError) as raised:
        make()
    assert (raised.value.field, raised.value.value) == (field, repr(value))


def test_flows_that_feed_themselves_are_refused_with_their_chain() -> None:
    one = replace(SILVER, source=ChangeFeed("gold.trips"))
    with pytest.raises(FieldError, match="silver -> gold -> silver"):
        Pipeline(name="trips", flows=(one, GOLD))


def test_flows_come_in_graph_order_however_they_are_written() -> None:
    turned = Pipeline(name="trips", flows=(GOLD, SILVER, BRONZE))
    assert turned.flows == TRIPS.flows


def test_a_declaration_cannot_be_changed_or_written_by_position() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SILVER.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Flow("silver", FEED, UPSERTED)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("table", "layer", "mode"),
    [(Table("bronze.trips"), "bronze", "append"), (UPSERTED, "silver", "upsert"), (RECOMPUTED, "gold", "recompute")],
)
def test_keys_and_sequence_say_how_rows_get_in(table: Table, layer: str, mode: str) -> None:
    assert (table.layer, table.write_mode) == (layer, mode)


def test_one_column_may_be_written_without_its_tuple() -> None:
    assert Table("silver.trips", keys="id", sequence_by="at") == UPSERTED  # type: ignore[arg-type]


def test_each_format_has_its_usual_file_names() -> None:
    assert FILES.glob == "*.{csv,csv.gz,csv.bz2}"
    assert "jsonl.gz" in FileSource(path="x", format="json", schema=SCHEMA).glob
    assert replace(FILES, glob="daily-*.csv").glob == "daily-*.csv"


def test_a_pipeline_knows_who_writes_what() -> None:
    assert TRIPS.writer_of("silver.trips") == SILVER
    assert TRIPS.writer_of("silver.other") is None
    assert TRIPS.upstream_of(GOLD) == SILVER
    assert TRIPS.upstream_of(BRONZE) is None
    assert TRIPS.flow("gold") == GOLD
    with pytest.raises(SpecError, match="it has: bronze, silver, gold"):
        TRIPS.flow("tin")


def test_a_pipeline_follows_tables_of_others() -> None:
    following = replace(TRIPS, schedule=AfterTables("silver.stations", "bronze.weather"))
    assert following.to_json()["schedule"] == {"tables": ("silver.stations", "bronze.weather")}
    assert fingerprint(following.to_json()) != fingerprint(TRIPS.to_json())


def test_a_pipeline_that_follows_its_own_table_would_start_itself() -> None:
    with pytest.raises(FieldError, match=r"'silver\.trips'.*start itself"):
        replace(TRIPS, schedule=AfterTables("silver.stations", "silver.trips"))


@pytest.mark.parametrize("tables", [(), ("stations",), ("tin.stations",), ("silver.a", "silver.a"), (5,)])
def test_what_is_followed_are_tables_each_once(tables: tuple[Any, ...]) -> None:
    with pytest.raises(FieldError, match="tables"):
        AfterTables(*tables)


@pytest.mark.parametrize("schedule", [None, "@hourly", "@daily", "@weekly", "@monthly", "@yearly", "*/5 * * * 1-5"])
def test_usual_schedules_are_taken(schedule: str | None) -> None:
    assert replace(TRIPS, schedule=schedule).schedule == schedule


# ------------------------------------------------------------------------------------------- what a checkpoint remembers

REMEMBERED = [
    replace(SILVER, source=ChangeFeed("bronze.other")),
    replace(SILVER, target=Table("silver.other", keys=("id",), sequence_by=("at",))),
    replace(SILVER, target=Table("silver.trips", keys=("other",), sequence_by=("at",))),
    replace(SILVER, target=Table("silver.trips", keys=("id",), sequence_by=("other",))),
    replace(SILVER, transform="trips:other"),
]
FORGOTTEN = [
    replace(SILVER, source=ChangeFeed("bronze.trips", max_files_per_trigger=7, max_bytes_per_trigger="2g")),
    replace(SILVER, gate=None),
    replace(SILVER, checkpoint_version=9),
]


@pytest.mark.parametrize("changed", REMEMBERED)
def test_what_a_checkpoint_remembers_changes_the_fingerprint(changed: Flow) -> None:
    assert fingerprint(changed.remembered()) != fingerprint(SILVER.remembered())


@pytest.mark.parametrize("changed", FORGOTTEN)
def test_limits_gates_and_versions_do_not(changed: Flow) -> None:
    assert fingerprint(changed.remembered()) == fingerprint(SILVER.remembered())


@pytest.mark.parametrize(
    ("changed", "remembered"),
    [
        (replace(FILES, path="other"), True),
        (replace(FILES, format="json"), True),
        (replace(FILES, glob="*.csv"), True),
        (replace(FILES, schema="id INT, more STRING"), False),
        (replace(FILES, max_files_per_trigger=1), False),
        (TOPIC, True),
        (replace(TOPIC, topic="other"), True),
    ],
)
def test_a_landing_source_is_remembered_by_its_identity(changed: Any, remembered: bool) -> None:
    same = fingerprint(replace(BRONZE, source=changed).remembered()) == fingerprint(BRONZE.remembered())
    assert same is not remembered


def test_a_fingerprint_does_not_depend_on_the_order_of_fields() -> None:
    told = SILVER.remembered()
    assert fingerprint(dict(reversed(told.items()))) == fingerprint(told)
    assert len(fingerprint(told)) == 16


def test_a_whole_declaration_is_plain_json() -> None:
    told = json.loads(json.dumps(TRIPS.to_json()))
    assert [flow["source"]["kind"] for flow in told["flows"]] == ["files", "change_feed", "change_feed"]
    assert told["flows"][1]["target"]["keys"] == ["id"]


# ------------------------------------------------------------------------------------------------------------------- DDL


def test_ddl_is_split_into_fields() -> None:
    assert parse_ddl(
        "x", "id BIGINT not null,\n `name` STRING, tags: array<struct<a:int,b:decimal(10,2)>>, d decimal(10, 2)"
    ) == (
        Column("id", "BIGINT", True),
        Column("name", "STRING", False),
        Column("tags", "array<struct<a:int,b:decimal(10,2)>>", False),
        Column("d", "decimal(10, 2)", False),
    )


@pytest.mark.parametrize("ddl", ["", ",", "id INT,", "id", "_id INT", "id-x INT", "`id INT", "id INT,,b INT"])
def test_ddl_that_is_none_is_refused(ddl: str) -> None:
    with pytest.raises(FieldError):
        parse_ddl("FileSource", ddl)
