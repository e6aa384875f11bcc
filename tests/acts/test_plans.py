"""Plans after each foreign act, and after combinations of them: right, or refused by name. No JVM runs after the lake is prepared."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.acts.acts import ACTS, TABLES, Act
from tests.acts.judge import Example
from tests.acts.lake import SNAPSHOTS, Prepared
from tests.slices import of_week

pytestmark = [pytest.mark.jvm, pytest.mark.chaos, pytest.mark.nightly, pytest.mark.timeout(3600)]

EXAMPLES = int(os.environ.get("ACTS_EXAMPLES", "120"))
"""How many combinations a night tries."""


@pytest.mark.parametrize("kind", of_week(list(ACTS), 5))
def test_after_each_act_on_each_table_a_plan_is_right_or_refuses_by_name(kind: str, prepared: Prepared) -> None:
    for snapshot in SNAPSHOTS:
        for table in TABLES:
            for number in range(3):
                example = Example(prepared.start(snapshot))
                example.do(Act(kind, table, number))
                example.plan()


def test_after_several_acts_a_plan_is_right_or_refuses_by_name(prepared: Prepared) -> None:
    act = st.builds(Act, st.sampled_from(list(ACTS)), st.sampled_from(TABLES), st.integers(0, 99))

    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(SNAPSHOTS), st.lists(act, min_size=2, max_size=4))
    def check(snapshot: int, acts: list[Act]) -> None:
        example = Example(prepared.start(snapshot))
        example.do(*acts)
        example.plan()

    check()
