"""Backfills by command and by API, beside other runs.

After each backfill the tables are as if the current code had always run.
"""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import pytest

from tests.live.tables import requested_by

if TYPE_CHECKING:
    from tests.live.conftest import Backfilled, Cleared
    from tests.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.timeout(2400)]

BACKFILLED = dict.fromkeys(("plan", "run", "silver", "gold"), "success") | {"bronze": "any"}


@pytest.mark.nightly
def test_an_airflow_backfill_runs_each_interval_in_order_beside_another_run(live: Live, backfilled: Backfilled) -> None:
    first, second = ({**states, "bronze": "any"} for states in backfilled.states)
    assert first == BACKFILLED
    assert second == BACKFILLED | {"silver": "failed", "gold": "upstream_failed"}
    assert "failed" not in backfilled.beside.values()
    assert backfilled.left_in_lower_case == {2}
    one, two = backfilled.runs
    assert live.tasks(one)["run"].end_date <= live.tasks(two)["run"].start_date
    assert requested_by(live.layout, one) == requested_by(live.layout, two) == {getpass.getuser()}


@pytest.mark.nightly
def test_what_failed_of_a_backfill_runs_again_alone(backfilled: Backfilled) -> None:
    assert backfilled.retried | {"bronze": "any"} == BACKFILLED
    before, after = backfilled.tries_of_first
    assert before == after, "the successful interval did not run again"


@pytest.mark.nightly
def test_after_a_backfill_the_tables_are_as_if_the_current_code_had_always_run(
    cleared: Cleared, backfilled: Backfilled
) -> None:
    assert cleared.in_lower_case == {1, 2}
    assert backfilled.in_lower_case == set()
    assert backfilled.ids == cleared.ids
    assert backfilled.wrong == []
