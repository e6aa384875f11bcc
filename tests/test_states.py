"""The first state of the table that holds is the state of a flow, by readings that are built in memory.

Of each state `tests/status/test_states.py` makes a lake, and reads it through every surface.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from tests.readings import reading_of, waiting
from tests.status.sample_project import BRONZE, GOLD, SILVER, TRIPS
from tidegate.advice import OutsideAct
from tidegate.checkpoints.overrides import Override
from tidegate.checkpoints.progress import Progress
from tidegate.errors import SourceError, SourceUnavailableError, TableInDoubtError
from tidegate.lake.table_history import Doubt
from tidegate.spec import Pipeline
from tidegate.states import STATES, status_of
from tidegate.status.reading import Reading
from tidegate.status.run_ends import RunEnds
from tidegate.status.upstream import upstream_of
from tidegate.status.wait import RefusedBy, Wait

QUIET: dict[str, Any] = {
    "off": None,
    "holder": None,
    "backlog": waiting(behind=0, rows=0, has_data=False),
    "wait": None,
    "written": False,
    "refresh_pending": False,
    "unfinished": "",
    "has_work": False,
    "progress": Progress(last_planned=0, last_committed=0),
    "reason": "nothing new",
}
IN_DOUBT = TableInDoubtError(
    Doubt(table="bronze.trips", version=3, reason="lost", what="its log ends at version 2"),
    flow="silver",
    known_by="trips/silver",
    is_own=True,
    way_out=OutsideAct("look"),
)
AWAY = SourceUnavailableError("no broker answers", OutsideAct("start it"))


def refused(by: RefusedBy) -> dict[str, Any]:
    return {"wait": Wait(by=by, reason="batch 1 was refused"), "reason": "batch 1 was refused"}


def reading(flow: str = "silver", **known: Any) -> Reading:
    return reading_of(TRIPS, {each.name: each for each in (BRONZE, SILVER, GOLD)}[flow], **(QUIET | known))


HOLDS: dict[str, dict[str, Any]] = {
    "off": {"off": Override(act="off", by="ada", reason="wrong numbers", at="2026-03-01T11:00:00Z")},
    "unreachable": {"error": AWAY, "late": False},
    "not read": {"error": AWAY, "late": True},
    "in doubt": {"error": IN_DOUBT, "late": False},
    "error": {"error": SourceError("the folder is not there"), "late": False},
    "running": {"holder": "a job"},
    "contract refused": refused("contract"),
    "refused": refused("gate"),
    "on hold": refused("statistic"),
    "rewrite refused": refused("limits"),
    "crashed": {"ends": RunEnds(failure="the last run crashed", crashed=True)},
    "failed": {"ends": RunEnds(failure="the last run failed", failed_runs=1)},
    "waits": {"upstream": upstream_of(reading("bronze", **refused("gate")))},
    "written": {"written": True},
    "refresh pending": {"refresh_pending": True},
    "unfinished": {"unfinished": "batch 1 was planned and not committed"},
    "behind": {"has_work": True},
    "not begun": {"progress": Progress(last_planned=None, last_committed=None)},
    "up to date": {},
}
"""State to what must be known, in the order of the table."""


def test_every_state_has_facts() -> None:
    assert list(HOLDS) == list(STATES)


@pytest.mark.parametrize("name", STATES)
def test_a_flow_is_in_the_state_whose_facts_are_known(name: str) -> None:
    status = status_of(reading(**HOLDS[name]))
    assert (status.name, bool(status.sentence)) == (name, True)


@pytest.mark.slow
def test_of_two_states_that_hold_the_first_one_is_the_state() -> None:
    for first, second in combinations(STATES, 2):
        # A process that holds the lease was started before the flow was switched off.
        expected = "running" if (first, second) == ("off", "running") else first
        assert status_of(reading(**(HOLDS[second] | HOLDS[first]))).name == expected, (first, second)


def test_a_flow_below_one_of_another_pipeline_that_is_stopped_reads_what_there_is() -> None:
    above = upstream_of(reading_of(Pipeline(name="other", flows=(BRONZE,)), BRONZE, **(QUIET | refused("gate"))))
    assert status_of(reading(upstream=above, has_work=True)).name == "behind"
    assert status_of(reading(upstream=above)).label == "waits for other/bronze"
