"""The extra links of tasks; their URLs are tested with whole runs (test_whole_runs.py)."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.airflow


def test_the_scheduler_knows_the_links_of_a_dag() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    from dags.flights import dag

    deserialized = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert deserialized.get_task("silver").extra_links == ["Data quality reports"]
    assert deserialized.get_task("run").extra_links == ["Spark history"]
