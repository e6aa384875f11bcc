"""What a person asks for is checked, stored and read back by its id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate import registry
from tidegate.errors import RequestError
from tidegate.layout import Layout
from tidegate.request import RunRequest, fresh_id
from tidegate.selection import Selection

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
        ({"path": "/etc"}, "unknown key 'path'; allowed: mode, flows"),
        ({"a": 1, "b": 2}, "unknown key 'a', 'b'"),
        ({"mode": "delete"}, "mode='delete' is not allowed; allowed: incremental"),
        ({"mode": None}, "mode=None is not allowed"),
        ({"flows": ["tin"]}, "has no flow 'tin'; it has: bronze, silver, gold"),
        ({"flows": ["silver", "../x"]}, "has no flow '../x'"),
        ({"flows": "silver"}, "has no flow 'silver'"),
        ({"flows": 5}, "has no flow 5"),
        ({"flows": [5]}, "has no flow 5"),
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
    asked = RunRequest.replay(FLIGHTS, "silver", "cli__1", selection, requested_by="ada", limit=5, dry_run=True)
    assert (asked.mode, asked.flows) == ("quarantine", ("silver",))
    assert RunRequest.read(layout, "flights", asked.run_key, asked.write(layout)) == asked
    with pytest.raises(RequestError, match="limit=0"):
        RunRequest.replay(FLIGHTS, "silver", "cli__1", selection, requested_by="ada", limit=0)
    with pytest.raises(RequestError, match="no flow"):
        RunRequest.replay(FLIGHTS, "tin", "cli__1", selection, requested_by="ada")
