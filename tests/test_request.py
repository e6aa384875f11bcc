"""What a person asks for is checked, stored and read back by its id."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pendulum
import pytest

from tidegate import registry
from tidegate.errors import RequestError
from tidegate.layout import Layout
from tidegate.quarantine.selection import Selection
from tidegate.request import RunRequest, fresh_id
from tidegate.spec import ChangeFeed
from tidegate.window import Window

FLIGHTS = registry.load("flights")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def check(asked: dict[str, Any]) -> RunRequest:
    return RunRequest.check(FLIGHTS, "manual__1", asked, requested_by="ada")


def test_nothing_asked_for_means_all_flows_incrementally() -> None:
    request = check({})
    assert (request.dag_id, request.mode, request.requested_by) == ("flights", "incremental", "ada")
    assert request.chosen(FLIGHTS) == FLIGHTS.flows


def test_chosen_flows_come_in_graph_order() -> None:
    assert [flow.name for flow in check({"flows": ["gold", "bronze"]}).chosen(FLIGHTS)] == ["bronze", "gold"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"path": "/etc"}, "unknown key 'path'; allowed: mode, flows, from_date, to_date, dry_run"),
        ({"a": 1, "b": 2}, "unknown key 'a', 'b'"),
        ({"mode": "delete"}, "mode='delete' is not allowed; allowed: incremental"),
        ({"mode": None}, "mode=None is not allowed"),
        ({"flows": ["tin"]}, "has no flow 'tin'; it has: bronze, silver, gold"),
        ({"flows": ["silver", "../x"]}, "has no flow '../x'"),
        ({"flows": "silver"}, "flows='silver' is not a list"),
        ({"flows": 5}, "flows=5 is not a list"),
        ({"flows": [5]}, "has no flow 5"),
        ({"dry_run": "yes"}, "dry_run='yes' is not allowed; allowed: true, false"),
        ({"mode": "replay"}, "mode='replay' needs from_date and to_date"),
        ({"mode": "replay", "from_date": "2013-01-01"}, "go together"),
        ({"mode": "replay", "from_date": "2013-01-02", "to_date": "2013-01-01"}, "lies after to_date"),
        (
            {"mode": "replay", "from_date": "2013-02-30", "to_date": "2013-03-01"},
            "from_date='2013-02-30' is not a date",
        ),
        ({"mode": "replay", "from_date": "garbage; rm", "to_date": "2013-03-01"}, "is not a date"),
        ({"mode": "replay", "from_date": 20130101, "to_date": "2013-03-01"}, "is not a date"),
        ({"from_date": "2013-01-01", "to_date": "2013-01-01"}, "do not go with mode='incremental'"),
        (
            {"mode": "full_refresh", "from_date": "2013-01-01", "to_date": "2013-01-01"},
            "they go with: replay, reingest",
        ),
        ({"mode": "full_refresh", "flows": ["bronze"]}, "is not for flow 'bronze'; it is for: silver, gold"),
        ({"mode": "reingest", "flows": ["gold"]}, "is not for flow 'gold'; it is for: bronze"),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError) as raised:
        check(asked)
    assert told in raised.value.message
    assert raised.value.exit_code == 64


def test_a_stored_request_is_read_back_as_it_was(layout: Layout) -> None:
    request = check({"flows": ["silver"]})
    request_id = request.write(layout)
    assert RunRequest.read(layout, "flights", request.run_key, request_id) == request
    assert [path.suffix for path in layout.reports("flights").rglob("*.*")] == [".json"], "no draft is left"


@pytest.mark.parametrize("request_id", ["q1", "../q", ""])
def test_a_request_that_is_not_there_is_told(layout: Layout, request_id: str) -> None:
    with pytest.raises(RequestError):
        RunRequest.read(layout, "flights", "k", request_id)


def test_ids_are_plain_and_never_repeat(layout: Layout) -> None:
    ids = [fresh_id("a") for _ in range(200)]
    assert len(set(ids)) == 200
    for made in ids:
        layout.attempt("flights", "k", made)


def test_a_replay_is_asked_for_one_flow_and_read_back_whole(layout: Layout) -> None:
    selection = Selection.check(rule="between(dep_delay)", since="2026-01-05")
    asked = RunRequest.of_quarantine(FLIGHTS, "silver", "cli__1", selection, requested_by="ada", limit=5, dry_run=True)
    assert (asked.mode, asked.flows) == ("quarantine", ("silver",))
    assert RunRequest.read(layout, "flights", asked.run_key, asked.write(layout)) == asked
    with pytest.raises(RequestError, match="limit=0"):
        RunRequest.of_quarantine(FLIGHTS, "silver", "cli__1", selection, requested_by="ada", limit=0)
    with pytest.raises(RequestError, match="no flow"):
        RunRequest.of_quarantine(FLIGHTS, "tin", "cli__1", selection, requested_by="ada")


def test_a_replay_takes_whole_days_of_the_pipelines_time_zone() -> None:
    pipeline = dataclasses.replace(FLIGHTS, timezone="America/New_York")
    request = RunRequest.check(
        pipeline, "manual__1", {"mode": "replay", "from_date": "2013-03-10", "to_date": "2013-03-10"}
    )
    assert request.window is not None
    # The clocks went forward that night: the day had 23 hours.
    assert (request.window.start, request.window.end) == ("2013-03-10T05:00:00Z", "2013-03-11T04:00:00Z")
    assert request.told() == "replay of 2013-03-10"


def test_a_window_without_an_event_time_is_refused_with_the_field_to_write() -> None:
    silver = FLIGHTS.flow("silver")
    timeless = dataclasses.replace(silver, target=dataclasses.replace(silver.target, event_time=None))
    pipeline = dataclasses.replace(FLIGHTS, flows=tuple(timeless if flow is silver else flow for flow in FLIGHTS.flows))
    with pytest.raises(RequestError, match="no event_time is declared"):
        RunRequest.check(pipeline, "r", {"mode": "replay", "from_date": "2013-01-01", "to_date": "2013-01-01"})


def test_a_window_of_groups_of_another_pipelines_table_is_refused_with_what_to_replay_instead() -> None:
    gold = dataclasses.replace(FLIGHTS.flow("gold"), source=ChangeFeed("silver.weather"))
    pipeline = dataclasses.replace(FLIGHTS, flows=(gold,))
    with pytest.raises(RequestError, match=r"another pipeline writes 'silver\.weather'.*Replay that pipeline"):
        RunRequest.check(pipeline, "r", {"mode": "replay", "from_date": "2013-01-01", "to_date": "2013-01-01"})


def test_the_form_of_airflow_may_send_every_key_empty() -> None:
    sent = {"mode": "incremental", "flows": None, "from_date": None, "to_date": None, "dry_run": False}
    assert check(sent) == check({})


def test_a_request_with_a_window_is_read_back_as_it_was(layout: Layout) -> None:
    request = check({"mode": "replay", "from_date": "2013-01-01", "to_date": "2013-01-31", "flows": ["silver"]})
    assert RunRequest.read(layout, "flights", request.run_key, request.write(layout)) == request


def test_a_run_of_a_backfill_replays_its_own_interval_and_takes_no_dates() -> None:
    window = Window.of_interval(pendulum.datetime(2013, 1, 1), pendulum.datetime(2013, 1, 2), "UTC")
    request = RunRequest.of_window(FLIGHTS, "scheduled__2013", {}, window)
    assert (request.mode, request.window) == ("replay", window)
    with pytest.raises(RequestError, match="its own interval"):
        RunRequest.of_window(FLIGHTS, "r", {"from_date": "2013-01-01"}, window)


@pytest.mark.parametrize("mode", ["full_refresh", "reingest"])
def test_a_backfill_that_would_do_something_whole_at_each_interval_is_refused(mode: str) -> None:
    window = Window.of_interval(pendulum.datetime(2013, 1, 1), pendulum.datetime(2013, 1, 2), "UTC")
    with pytest.raises(RequestError, match=f"mode='{mode}' does not go with a backfill"):
        RunRequest.of_window(FLIGHTS, "r", {"mode": mode}, window)
    for replays in ({"mode": "replay"}, {"mode": "incremental"}):
        assert RunRequest.of_window(FLIGHTS, "r", replays, window).mode == "replay"


def test_each_request_has_an_id_of_its_own_that_it_keeps_when_it_is_read_back(layout: Layout) -> None:
    first, second = check({}), check({})
    assert first == second
    assert first.request_id != second.request_id
    assert RunRequest.read(layout, "flights", first.run_key, first.write(layout)).request_id == first.request_id
