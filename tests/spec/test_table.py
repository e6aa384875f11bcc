"""A table's keys and sequence columns determine its write mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import RECOMPUTED, UPSERTED
from tidegate.errors import FieldError
from tidegate.spec import Table, TimeWindows


@pytest.mark.parametrize(
    ("table", "layer", "mode"),
    [(Table("bronze.trips"), "bronze", "append"), (UPSERTED, "silver", "upsert"), (RECOMPUTED, "gold", "recompute")],
)
def test_keys_and_sequence_determine_the_write_mode(table: Table, layer: str, mode: str) -> None:
    assert (table.layer, table.write_mode) == (layer, mode)


def test_a_single_column_may_be_given_without_a_tuple() -> None:
    assert Table("silver.trips", keys="id", sequence_by="at") == UPSERTED  # type: ignore[arg-type]


def test_the_scope_is_the_key_unless_a_part_of_the_key_is_replaced_as_a_whole() -> None:
    legs = Table("silver.legs", keys=("id", "leg"), sequence_by=("at",), replace_by="id")  # type: ignore[arg-type]

    assert (UPSERTED.scope, UPSERTED.child_keys) == (("id",), ())
    assert (legs.write_mode, legs.scope, legs.child_keys) == ("upsert", ("id",), ("leg",))


def test_all_groups_of_a_scope_may_be_computed_together() -> None:
    sessions = Table("gold.sessions", keys=("user", "started_at"), replace_by=("user",))

    assert (sessions.write_mode, sessions.scope, sessions.child_keys) == ("recompute", ("user",), ("started_at",))


def test_the_first_sequence_column_is_a_key_of_a_history() -> None:
    history = Table("silver.trips", keys=("id",), sequence_by=("at", "line"), history="scd2")

    assert (history.write_mode, history.keys, history.scope, history.child_keys) == (
        *("upsert", ("id", "at"), ("id",), ("at",)),
    )
    assert replace(history) == Table("silver.trips", keys=("id", "at"), sequence_by=("at", "line"), history="scd2")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"first_day": "2026-01-01"}, "first_day"),
        ({"first_day": "2026-02-30", "event_time": "day"}, "first_day"),
        ({"last_day": "soon", "event_time": "day"}, "last_day"),
        ({"first_day": "2026-01-02", "last_day": "2026-01-01", "event_time": "day"}, "last_day"),
        ({"first_day": "2026-01-01", "event_time": "id", "sequence_by": ()}, "first_day"),
    ],
)
def test_a_table_is_limited_to_days_of_its_event_time_unless_it_has_groups(fields: dict[str, Any], field: str) -> None:
    limited = replace(UPSERTED, event_time="day", first_day="2026-01-01", last_day="2026-01-31")
    assert limited.remembered() == UPSERTED.remembered(), "a changed limit needs no new checkpoint version"
    with pytest.raises(FieldError) as raised:
        replace(UPSERTED, **fields)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"keys": ("id",)}, "history"),
        ({"keys": ("id", "leg"), "sequence_by": ("at",), "replace_by": ("id",)}, "history"),
        ({"keys": ("at",), "sequence_by": ("at",)}, "keys"),
        ({"keys": ("valid_to",), "sequence_by": ("at",)}, "keys"),
        ({"keys": ("id",), "sequence_by": ("at",), "untracked": ("id",)}, "keys"),
        ({"keys": ("id",), "sequence_by": ("at",), "history": "scd1"}, "history"),
        ({"keys": ("id",), "sequence_by": ("at",), "event_time": "valid_from"}, "event_time"),
        ({"keys": ("id",), "sequence_by": ("at",), "history": None, "untracked": ("note",)}, "untracked"),
    ],
)
def test_a_history_needs_a_key_and_a_time(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as raised:
        Table("silver.trips", **{"history": "scd2", **fields})
    assert raised.value.field == field


@pytest.mark.parametrize(
    "text_order",
    [{"id": "text"}, {"at": "digits"}, ("at",), {"at": "numbers"}],
    ids=["no sequence column", "no order", "no mapping", "the time of a history"],
)
def test_how_texts_compare_is_declared_for_sequence_columns(text_order: Any) -> None:
    with pytest.raises(FieldError) as raised:
        replace(UPSERTED, history="scd2", text_order=text_order)
    assert raised.value.field == "text_order"


def test_another_order_of_texts_needs_a_new_checkpoint_version_and_that_of_earlier_releases_does_not() -> None:
    assert replace(UPSERTED, text_order={"at": "text"}).remembered() == UPSERTED.remembered()
    assert replace(UPSERTED, text_order={"at": "numbers"}).remembered()["text_order"] == {"at": "numbers"}


def test_time_windows_tumble_or_slide() -> None:
    hours, sliding = (
        TimeWindows(time="at", length="1 hour"),
        TimeWindows(time="at", length="1 hour", every="15 minutes"),
    )

    assert (hours.length_seconds, hours.every_seconds, sliding.every_seconds) == (3600, 3600, 900)
    assert hours.identity() == replace(hours, length="60 minutes").identity() != sliding.identity()
    per_page = Table("gold.views", keys=("page", "window_start"), windows=sliding)
    assert per_page.remembered()["windows"] == "at in windows of 3600 s every 900 s"


@pytest.mark.parametrize("fields", [{"keys": ("page",)}, {"keys": ("window_start",), "sequence_by": ("at",)}])
def test_windows_need_their_start_as_a_key_of_a_recomputed_table(fields: dict[str, Any]) -> None:
    with pytest.raises(FieldError) as raised:
        Table("gold.views", windows=TimeWindows(time="at", length="1 day"), **fields)
    assert raised.value.field == "windows"
