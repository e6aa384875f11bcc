"""A flow declares how late its rows may come, and another the state that it keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import BRONZE, GOLD, SILVER, UPSERTED
from tests.with_fields import with_fields
from tidegate.errors import FieldError
from tidegate.spec import ChangeFeed, Flow, State, Statistic, Table, TimeWindows, Watermark

LATE = Watermark(delay="10 minutes")
APPENDED = replace(
    SILVER, target=Table("silver.trips", event_time="at"), transform="trips:clean", gate=None, watermark=LATE
)
COUNTED = Flow(
    name="counted",
    source=ChangeFeed("silver.trips"),
    transform="trips:count",
    target=Table("gold.counts"),
    state=State(),
)


def test_a_flow_with_state_is_stateful_with_and_without_keys() -> None:
    by_key = replace(COUNTED, target=Table("gold.counts", keys=("day",)))

    assert COUNTED.kind is by_key.kind
    assert (COUNTED.kind.stateful, COUNTED.kind.quarantines, COUNTED.kind.has_groups) == (True, False, False)
    assert GOLD.kind.stateful is False


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("delay", lambda: Watermark(delay="soon")),
        ("skew", lambda: Watermark(delay="1 hour", skew="0 minutes")),
        ("idle", lambda: Watermark(delay="1 hour", idle="never")),
        ("watermark", lambda: with_fields(APPENDED, watermark="10 minutes")),
        ("watermark", lambda: replace(APPENDED, target=UPSERTED)),
        ("watermark", lambda: replace(APPENDED, target=Table("silver.trips"))),
        ("watermark", lambda: replace(BRONZE, watermark=LATE)),
        ("watermark", lambda: replace(GOLD, watermark=LATE)),
        ("watermark", lambda: replace(COUNTED, watermark=LATE)),
        ("partitions", lambda: State(partitions=0)),
        ("partitions", lambda: State(partitions=True)),
        ("state", lambda: with_fields(COUNTED, state=2)),
        ("state", lambda: replace(BRONZE, state=State())),
        (
            "state",
            lambda: with_fields(COUNTED, sources=(COUNTED.source, ChangeFeed("silver.other", on={"day": "day"}))),
        ),
        ("transform", lambda: replace(COUNTED, transform=None)),
        ("target", lambda: replace(COUNTED, target=UPSERTED, source=ChangeFeed("silver.other"))),
        ("target", lambda: replace(COUNTED, target=Table("gold.counts", keys=("user", "day"), replace_by=("user",)))),
        (
            "target",
            lambda: replace(
                COUNTED,
                target=Table("gold.counts", keys=("window_start",), windows=TimeWindows(time="at", length="1 hour")),
            ),
        ),
        (
            "statistics",
            lambda: replace(COUNTED, statistics=(Statistic("n", "count(*)", rule="value > 0", otherwise="drop"),)),
        ),
    ],
)
def test_what_cannot_keep_its_promise_is_refused(field: str, make: Callable[[], Any]) -> None:
    with pytest.raises(FieldError) as raised:
        make()
    assert raised.value.field == field


def test_delay_and_skew_may_change_and_partitions_may_not() -> None:
    later = replace(APPENDED, watermark=Watermark(delay="1 hour", skew="1 minute", idle="1 day"))

    assert later.remembered() == APPENDED.remembered() != replace(APPENDED, watermark=None).remembered()
    assert COUNTED.remembered() != replace(COUNTED, state=State(partitions=4)).remembered()
    assert {"watermark", "state"}.isdisjoint(SILVER.remembered())


def test_durations_are_read_in_seconds() -> None:
    late = Watermark(delay="10 minutes", skew="1 hour", idle="2 days")

    assert (late.delay_seconds, late.skew_seconds, late.idle_seconds) == (600, 3_600, 172_800)
    assert LATE.idle_seconds is None
