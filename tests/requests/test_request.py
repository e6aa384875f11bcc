"""Requests are validated, stored and read by their id."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pendulum
import pytest

from tests.with_fields import with_fields
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, PipelinePlace
from tidegate.project import registry
from tidegate.quarantine.selection import Selection
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.spec import (
    ChangeFeed,
    FileSource,
    Flow,
    Intervals,
    KafkaSink,
    KafkaSource,
    SnapshotFeed,
    State,
    Table,
    TopicIntervals,
)
from tidegate.times.window import Window

FLIGHTS = registry.load("flights")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


def check(params: dict[str, Any]) -> RunRequest:
    return RunRequest.check(FLIGHTS, "manual__1", params, requested_by="ada")


def test_without_parameters_all_flows_run_incrementally() -> None:
    request = check({})
    assert (request.dag_id, request.mode, request.requested_by) == ("flights", "incremental", "ada")
    assert request.selected(FLIGHTS) == FLIGHTS.flows


def test_selected_flows_are_in_graph_order() -> None:
    assert [flow.name for flow in check({"flows": ["gold", "bronze"]}).selected(FLIGHTS)] == ["bronze", "gold"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"path": "/etc"},
            "unknown key 'path'; allowed: mode, flows, from_date, to_date, gaps, undo_run, dry_run, accept",
        ),
        ({"a": 1, "b": 2}, "unknown key 'a', 'b'"),
        ({"mode": "delete"}, "mode='delete' is not allowed; allowed: incremental"),
        ({"mode": None}, "mode=None is not allowed"),
        ({"flows": ["tin"]}, "has no flow 'tin'; it has: bronze, silver, gold"),
        ({"flows": ["silver", "../x"]}, "has no flow '../x'"),
        ({"flows": "silver"}, "flows='silver' is not a list"),
        ({"flows": 5}, "flows=5 is not a list"),
        ({"flows": [5]}, "has no flow 5"),
        ({"dry_run": "yes"}, "dry_run='yes' is not allowed; allowed: true, false"),
        ({"gaps": "yes"}, "gaps='yes' is not allowed; allowed: true, false"),
        ({"gaps": True}, "gaps cannot be used with mode='incremental'; allowed with: reingest"),
        (
            {"mode": "reingest", "gaps": True},
            "pipeline 'flights' has no gaps: none of its sources of files declares intervals",
        ),
        ({"accept": "silver:deleted=355"}, "accept='silver:deleted=355' is not a list"),
        ({"accept": ["355"]}, "accept='355' is not allowed; allowed: <flow>:deleted=<number>"),
        ({"accept": ["silver:deleted=all"]}, "accept='silver:deleted=all' is not allowed"),
        ({"accept": ["bronze:deleted=5"]}, "with a flow of silver, gold"),
        ({"accept": [{"silver": 5}]}, "is not allowed"),
        ({"mode": "backfill"}, "mode='backfill' needs from_date and to_date"),
        ({"mode": "backfill", "from_date": "2013-01-01"}, "only allowed together"),
        ({"mode": "backfill", "from_date": "2013-01-02", "to_date": "2013-01-01"}, "is after to_date"),
        (
            {"mode": "backfill", "from_date": "2013-02-30", "to_date": "2013-03-01"},
            "from_date='2013-02-30' is not a date",
        ),
        ({"mode": "backfill", "from_date": "garbage; rm", "to_date": "2013-03-01"}, "is not a date"),
        ({"mode": "backfill", "from_date": 20130101, "to_date": "2013-03-01"}, "is not a date"),
        ({"from_date": "2013-01-01", "to_date": "2013-01-01"}, "cannot be used with mode='incremental'"),
        (
            {"mode": "full_refresh", "from_date": "2013-01-01", "to_date": "2013-01-01"},
            "allowed with: backfill, reingest",
        ),
        ({"mode": "full_refresh", "flows": ["bronze"]}, "does not apply to flow 'bronze'; it applies to: silver, gold"),
        ({"mode": "reingest", "flows": ["gold"]}, "does not apply to flow 'gold'; it applies to: bronze"),
    ],
)
def test_invalid_parameters_are_refused_with_what_is_allowed(params: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        check(params)
    assert message in raised.value.message
    assert raised.value.exit_code == 64


def test_only_files_with_intervals_have_gaps_and_other_flows_run_an_increment(layout: Layout) -> None:
    bronze = FLIGHTS.flow("bronze")
    assert isinstance(bronze.source, FileSource)
    own = dataclasses.replace(bronze.source, intervals=Intervals("dt=%Y-%m-%d", files=1))
    topic = KafkaSource(topic="clicks", schema="id INT", intervals=TopicIntervals(quiet_hours=6))
    clicks = Flow(name="clicks", source=topic, target=Table("bronze.clicks"))
    flows = (dataclasses.replace(bronze, source=own), clicks, *FLIGHTS.flows[1:])
    pipeline = dataclasses.replace(FLIGHTS, flows=flows)
    days = {"from_date": "2013-01-01", "to_date": "2013-01-31"}

    request = RunRequest.check(pipeline, "r", {"mode": "reingest", "gaps": True, **days})

    assert [flow.name for flow in flows if request.applies_to(flow)] == ["bronze"]
    assert request.summary() == "reingest of the gaps of 2013-01-01 to 2013-01-31"
    assert RunRequest.read(layout, "flights", request.run_key, request.write(layout)) == request
    with pytest.raises(RequestError, match="with gaps does not apply to flow 'clicks'; it applies to: bronze"):
        RunRequest.check(pipeline, "r", {"mode": "reingest", "gaps": True, "flows": ["clicks"]})


def test_a_stored_request_is_read_back_unchanged(layout: Layout) -> None:
    request = check({"flows": ["silver"]})
    request_id = request.write(layout)
    assert RunRequest.read(layout, "flights", request.run_key, request_id) == request
    assert [path.suffix for path in Path(PipelinePlace(layout, "flights").reports).rglob("*.*")] == [".json"], (
        "no temporary file is left"
    )


@pytest.mark.parametrize("request_id", ["q1", "../q", ""])
def test_reading_a_missing_request_raises(layout: Layout, request_id: str) -> None:
    with pytest.raises(RequestError):
        RunRequest.read(layout, "flights", "k", request_id)


def test_ids_are_unique_and_valid_in_paths(layout: Layout) -> None:
    ids = [fresh_id("a") for _ in range(200)]
    assert len(set(ids)) == 200
    for attempt in ids:
        assert AttemptPlace(layout, "flights", "k", attempt).folder.name == attempt


def test_the_request_of_a_replay_is_for_one_flow_and_is_read_back_unchanged(layout: Layout) -> None:
    selection = Selection.check(rule="between(dep_delay)", since="2026-01-05")
    request = RunRequest.of_replay(FLIGHTS, "silver", "cli__1", selection, requested_by="ada", limit=5, dry_run=True)
    assert (request.mode, request.flows) == ("replay", ("silver",))
    assert RunRequest.read(layout, "flights", request.run_key, request.write(layout)) == request
    with pytest.raises(RequestError, match="limit=0"):
        RunRequest.of_replay(FLIGHTS, "silver", "cli__1", selection, requested_by="ada", limit=0)
    with pytest.raises(RequestError, match="no flow"):
        RunRequest.of_replay(FLIGHTS, "tin", "cli__1", selection, requested_by="ada")


def test_a_flow_that_sends_a_table_cannot_be_verified_backfilled_or_refreshed() -> None:
    sent = Flow(name="sent", source=ChangeFeed("silver.flights"), target=KafkaSink("flights"))
    pipeline = dataclasses.replace(FLIGHTS, flows=(*FLIGHTS.flows, sent))
    with pytest.raises(RequestError, match="cannot be verified: it has no table"):
        RunRequest.of_verification(pipeline, "sent", "r", requested_by="ada", limit=5)
    for mode in ("full_refresh", "reingest"):
        with pytest.raises(RequestError, match="does not apply to flow 'sent'"):
            RunRequest.check(pipeline, "r", {"mode": mode, "flows": ["sent"]})


def test_rows_of_a_snapshot_are_neither_backfilled_nor_replayed() -> None:
    silver = Flow(name="silver", source=SnapshotFeed("bronze.flights"), target=Table("silver.flights", keys=("id",)))
    pipeline = dataclasses.replace(FLIGHTS, flows=(FLIGHTS.flow("bronze"), silver))
    window = {"from_date": "2013-01-01", "to_date": "2013-01-01"}
    with pytest.raises(RequestError, match="mode='backfill' does not apply to flow 'silver'"):
        RunRequest.check(pipeline, "r", {"mode": "backfill", "flows": ["silver"], **window})
    with pytest.raises(RequestError, match=r"only a whole one is compared.*mode='full_refresh'"):
        RunRequest.of_replay(pipeline, "silver", "r", Selection.check(), requested_by="ada")
    assert RunRequest.check(pipeline, "r", {"mode": "full_refresh", "flows": ["silver"]}).mode == "full_refresh"


def test_a_history_of_snapshots_is_backfilled_by_its_event_time_and_not_replayed() -> None:
    table = Table(
        "silver.flights", keys=("id",), sequence_by=("snapshot_at",), history="scd2", event_time="snapshot_at"
    )
    silver = Flow(name="silver", source=SnapshotFeed("bronze.flights"), target=table)
    pipeline = dataclasses.replace(FLIGHTS, flows=(FLIGHTS.flow("bronze"), silver))
    window = {"from_date": "2013-01-01", "to_date": "2013-01-01"}
    request = RunRequest.check(pipeline, "r", {"mode": "backfill", "flows": ["silver"], **window})
    assert request.applies_to(silver)
    with pytest.raises(RequestError, match=r"depends on the others of its key.*mode='backfill'"):
        RunRequest.of_replay(pipeline, "silver", "r", Selection.check(), requested_by="ada")


def test_the_request_of_a_verification_is_a_dry_run_of_one_flow_and_is_read_back_unchanged(layout: Layout) -> None:
    request = RunRequest.of_verification(FLIGHTS, "silver", "cli__1", requested_by="ada", limit=5, keys=["flight_id=7"])
    assert (request.mode, request.flows, request.dry_run) == ("verify", ("silver",), True)
    assert RunRequest.read(layout, "flights", request.run_key, request.write(layout)) == request
    with pytest.raises(RequestError, match="limit=0"):
        RunRequest.of_verification(FLIGHTS, "silver", "cli__1", requested_by="ada", limit=0)
    with pytest.raises(RequestError, match="'carrier' is not allowed; write column=value"):
        RunRequest.of_verification(FLIGHTS, "silver", "cli__1", requested_by="ada", limit=5, keys=["carrier"])
    with pytest.raises(
        RequestError, match=r"'carrier' is not allowed; rows of 'silver.flights' are compared by flight_id"
    ):
        RunRequest.of_verification(FLIGHTS, "silver", "cli__1", requested_by="ada", limit=5, keys=["carrier=UA"])
    assert RunRequest.of_verification(
        FLIGHTS, "bronze", "cli__1", requested_by="ada", limit=5, keys=["_row_id=a.csv@1#1"]
    ).keys


def test_a_backfill_covers_whole_days_of_the_pipelines_time_zone() -> None:
    pipeline = dataclasses.replace(FLIGHTS, timezone="America/New_York")
    request = RunRequest.check(
        pipeline, "manual__1", {"mode": "backfill", "from_date": "2013-03-10", "to_date": "2013-03-10"}
    )
    assert request.window is not None
    # Daylight saving time began: the day had 23 hours.
    assert (request.window.start, request.window.end) == ("2013-03-10T05:00:00Z", "2013-03-11T04:00:00Z")
    assert request.summary() == "backfill of 2013-03-10"


def test_a_backfill_without_an_event_time_is_refused_with_the_field_to_declare() -> None:
    silver = FLIGHTS.flow("silver")
    without_event_time = dataclasses.replace(silver, target=with_fields(silver.target, event_time=None))
    pipeline = dataclasses.replace(
        FLIGHTS, flows=tuple(without_event_time if flow is silver else flow for flow in FLIGHTS.flows)
    )
    with pytest.raises(RequestError, match="no event_time is declared"):
        RunRequest.check(pipeline, "r", {"mode": "backfill", "from_date": "2013-01-01", "to_date": "2013-01-01"})


def test_a_backfill_of_groups_of_another_pipelines_table_needs_an_event_time_among_their_keys() -> None:
    gold = dataclasses.replace(FLIGHTS.flow("gold"), source=ChangeFeed("silver.weather"))
    request = {"mode": "backfill", "from_date": "2013-01-01", "to_date": "2013-01-01"}
    for event_time in (None, "mean_delay"):
        of_groups = dataclasses.replace(gold, target=with_fields(gold.target, event_time=event_time))
        pipeline = dataclasses.replace(FLIGHTS, flows=(of_groups,))
        with pytest.raises(RequestError, match=r"another pipeline writes 'silver\.weather'.*Backfill that pipeline"):
            RunRequest.check(pipeline, "r", request)
    of_key = dataclasses.replace(gold, target=with_fields(gold.target, event_time="day"))
    assert RunRequest.check(dataclasses.replace(FLIGHTS, flows=(of_key,)), "r", request).window is not None


@pytest.mark.parametrize("keys", [(), ("day",)])
def test_a_flow_with_state_is_refreshed_and_neither_backfilled_nor_undone_nor_verified(keys: tuple[str, ...]) -> None:
    stateful = dataclasses.replace(FLIGHTS.flow("gold"), target=Table("gold.delays", keys=keys), state=State())
    pipeline = dataclasses.replace(
        FLIGHTS, flows=tuple(stateful if flow.name == "gold" else flow for flow in FLIGHTS.flows)
    )
    assert RunRequest.check(pipeline, "r", {"mode": "full_refresh", "flows": ["gold"]}).applies_to(stateful)
    window = {"from_date": "2013-01-01", "to_date": "2013-01-01"}
    for params in ({"mode": "backfill", **window}, {"mode": "undo", "undo_run": "earlier"}):
        with pytest.raises(
            RequestError, match=r"does not apply to flow 'gold'.*run full_refresh or raise checkpoint_version"
        ):
            RunRequest.check(pipeline, "r", {**params, "flows": ["gold"]})
    with pytest.raises(RequestError, match="cannot be verified: its results depend on the batches"):
        RunRequest.of_verification(pipeline, "gold", "r", requested_by="ada", limit=1)


def test_empty_parameters_of_the_form_are_the_defaults() -> None:
    params = {"mode": "incremental", "flows": None, "from_date": None, "to_date": None, "dry_run": False}
    assert check(params) == check({})


def test_a_request_with_a_window_is_read_back_unchanged(layout: Layout) -> None:
    request = check({"mode": "backfill", "from_date": "2013-01-01", "to_date": "2013-01-31", "flows": ["silver"]})
    assert RunRequest.read(layout, "flights", request.run_key, request.write(layout)) == request


def test_a_run_of_an_airflow_backfill_backfills_its_own_interval_and_takes_no_dates() -> None:
    window = Window.of_interval(pendulum.datetime(2013, 1, 1), pendulum.datetime(2013, 1, 2), "UTC")
    request = RunRequest.of_window(FLIGHTS, "scheduled__2013", {}, window)
    assert (request.mode, request.window) == ("backfill", window)
    with pytest.raises(RequestError, match="its own data interval"):
        RunRequest.of_window(FLIGHTS, "r", {"from_date": "2013-01-01"}, window)


@pytest.mark.parametrize("mode", ["full_refresh", "reingest"])
def test_an_airflow_backfill_with_another_mode_is_refused(mode: str) -> None:
    window = Window.of_interval(pendulum.datetime(2013, 1, 1), pendulum.datetime(2013, 1, 2), "UTC")
    with pytest.raises(RequestError, match=f"mode='{mode}' cannot be used with `airflow backfill create`"):
        RunRequest.of_window(FLIGHTS, "r", {"mode": mode}, window)
    for params in ({"mode": "backfill"}, {"mode": "incremental"}):
        assert RunRequest.of_window(FLIGHTS, "r", params, window).mode == "backfill"


def test_each_request_has_its_own_id_and_is_read_back_with_it(layout: Layout) -> None:
    first, second = check({}), check({})
    assert first == second
    assert first.request_id != second.request_id
    assert RunRequest.read(layout, "flights", first.run_key, first.write(layout)).request_id == first.request_id
