"""The parts of a flow must be compatible; the sidecar of its checkpoint stores the fields that must not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import BRONZE, FEED, FILES, GOLD, RECOMPUTED, SILVER, TRIPS, UPSERTED
from tests.with_fields import with_fields
from tidegate.errors import FieldError
from tidegate.project.fingerprints import fingerprint
from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, SnapshotFeed, Table, TimeWindows

TRIP_FEED, WEATHER = ChangeFeed("silver.trips"), ChangeFeed("silver.weather", on={"at": "hour"})
CARRIERS = ChangeFeed("silver.carriers", on={"carrier": "code"})
JOINED = Flow(name="joined", sources=(TRIP_FEED, WEATHER, CARRIERS), transform="trips:join", target=RECOMPUTED)
EXPORTS, DATED = SnapshotFeed("bronze.exports"), SnapshotFeed("bronze.exports", valid_from="at")
LIMITED = Table("silver.trips", keys=("id",), sequence_by=("at",), event_time="at", first_day="2026-01-01")
IN_THE_SIDECAR = [
    replace(SILVER, source=ChangeFeed("bronze.other")),
    replace(SILVER, target=Table("silver.other", keys=("id",), sequence_by=("at",))),
    replace(SILVER, target=Table("silver.trips", keys=("other",), sequence_by=("at",))),
    replace(SILVER, target=Table("silver.trips", keys=("id",), sequence_by=("other",))),
    replace(SILVER, transform="trips:other"),
]
NOT_IN_THE_SIDECAR = [
    replace(SILVER, source=ChangeFeed("bronze.trips", max_files_per_trigger=7, max_bytes_per_trigger="2g")),
    replace(SILVER, gate=None),
    replace(SILVER, snapshots=EXPORTS),
    replace(SILVER, checkpoint_version=9),
]


@pytest.mark.parametrize(
    ("field", "value", "make"),
    [
        ("transform", "trips:clean", lambda: replace(BRONZE, transform="trips:clean")),
        ("target", "silver.trips", lambda: replace(BRONZE, target=UPSERTED)),
        ("gate", "trips/bronze", lambda: replace(BRONZE, gate=Gate("trips/bronze"))),
        ("target", "bronze.trips", lambda: replace(SILVER, target=Table("bronze.trips"))),
        (
            "target",
            "bronze.trips",
            lambda: replace(BRONZE, target=Table("bronze.trips", event_time="at", first_day="2026-01-01")),
        ),
        ("transform", "trips.SQL", lambda: replace(SILVER, transform="trips.SQL")),
        ("transform", None, lambda: replace(SILVER, target=Table("silver.copy"), transform=None)),
        ("transform", None, lambda: replace(GOLD, transform=None)),
        ("target", "silver.trips", lambda: replace(JOINED, target=UPSERTED)),
        ("target", "silver.weather", lambda: replace(JOINED, target=Table("silver.weather", keys=("day",)))),
        ("transform", None, lambda: replace(JOINED, transform=None)),
        ("snapshots", FEED, lambda: with_fields(SILVER, snapshots=FEED)),
        ("snapshots", DATED, lambda: replace(SILVER, snapshots=DATED)),
        ("snapshots", EXPORTS, lambda: replace(GOLD, snapshots=EXPORTS)),
        ("snapshots", EXPORTS, lambda: replace(BRONZE, snapshots=EXPORTS)),
        ("snapshots", EXPORTS, lambda: replace(SILVER, snapshots=EXPORTS, target=LIMITED)),
        ("target", "silver.trips", lambda: replace(SILVER, snapshots=SnapshotFeed("silver.trips"))),
        ("flows", "bronze", lambda: replace(TRIPS, flows=(BRONZE, replace(BRONZE, target=Table("bronze.other"))))),
        ("flows", "bronze.trips", lambda: replace(TRIPS, flows=(BRONZE, replace(BRONZE, name="other")))),
    ],
)
def test_incompatible_parts_are_refused(field: str, value: Any, make: Callable[[], Any]) -> None:
    with pytest.raises(FieldError) as raised:
        make()
    assert (raised.value.field, raised.value.value) == (field, repr(value))


def test_only_sql_may_leave_on_out() -> None:
    without = (TRIP_FEED, ChangeFeed("silver.weather"))
    assert replace(JOINED, sources=without, transform="trips.sql").feeds == without
    with pytest.raises(
        FieldError, match=r"on for 'silver\.weather': \{<column of silver\.trips>: <column of silver\.weather>\}"
    ):
        replace(JOINED, sources=without)


@pytest.mark.parametrize("source", [None, "trips", FileSource])
def test_a_source_that_is_none_is_refused_with_the_names_of_those_that_are(source: Any) -> None:
    with pytest.raises(FieldError, match=r"allowed: FileSource, KafkaSource, ChangeFeed, SnapshotFeed$"):
        replace(BRONZE, source=source)


@pytest.mark.parametrize("changed", IN_THE_SIDECAR)
def test_a_change_of_a_field_in_the_sidecar_changes_the_fingerprint(changed: Flow) -> None:
    assert fingerprint(changed.remembered()) != fingerprint(SILVER.remembered())


def test_another_scope_changes_the_fingerprint() -> None:
    legs = replace(SILVER, target=Table("silver.trips", keys=("id", "leg"), sequence_by=("at",)))
    by_trip = replace(legs, target=with_fields(legs.target, replace_by=("id",)))

    assert fingerprint(by_trip.remembered()) != fingerprint(legs.remembered())


def test_time_windows_have_one_source() -> None:
    table = Table("gold.hours", keys=("window_start",), windows=TimeWindows(time="at", length="1 hour"))

    assert replace(GOLD, target=table).kind.has_groups
    with pytest.raises(FieldError, match="without sequence_by and windows, for several sources"):
        replace(JOINED, target=table)


def test_a_history_and_its_untracked_columns_change_the_fingerprint() -> None:
    table = Table("silver.trips", keys=("id", "at"), sequence_by=("at",))
    history = replace(table, history="scd2")
    flows = [replace(SILVER, target=each) for each in (table, history, replace(history, untracked=("note",)))]

    assert len({fingerprint(flow.remembered()) for flow in flows}) == 3


@pytest.mark.parametrize("changed", NOT_IN_THE_SIDECAR)
def test_limits_gates_and_versions_do_not_change_the_fingerprint(changed: Flow) -> None:
    assert fingerprint(changed.remembered()) == fingerprint(SILVER.remembered())


@pytest.mark.parametrize(
    "sources",
    [
        (TRIP_FEED, WEATHER),
        (TRIP_FEED, CARRIERS, WEATHER),
        (TRIP_FEED, replace(WEATHER, on={"at": "day"}), CARRIERS),
    ],
)
def test_several_sources_their_order_and_what_joins_them_are_in_the_fingerprint(
    sources: tuple[ChangeFeed, ...],
) -> None:
    assert fingerprint(replace(JOINED, sources=sources).remembered()) != fingerprint(JOINED.remembered())
    assert fingerprint(replace(JOINED, checkpoint_version=2).remembered()) == fingerprint(JOINED.remembered())


def test_the_first_of_several_sources_is_the_source() -> None:
    assert (JOINED.source, JOINED.source_tables) == (TRIP_FEED, ("silver.trips", "silver.weather", "silver.carriers"))
    assert (GOLD.feeds, BRONZE.feeds) == ((TRIP_FEED,), ())
    for wrong in (FILES, WEATHER):
        with pytest.raises(FieldError, match="none beside sources"):
            replace(JOINED, source=wrong)
    with pytest.raises(FieldError, match="without on"):
        replace(GOLD, source=WEATHER)
