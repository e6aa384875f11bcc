"""Links that Airflow shows on tasks; where they lead is tested with a whole run (test_whole_runs.py)."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.airflow


def test_the_scheduler_knows_the_links_of_a_dag() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    from dags.flights import dag

    known = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert known.get_task("silver").extra_links == ["Data quality reports"]
    assert known.get_task("run").extra_links == ["Spark history"]
