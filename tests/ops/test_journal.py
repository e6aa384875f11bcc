"""What batches did, for people who look: on real Delta tables and without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.airflow.lake import Lake
from tidegate.layout import Layout
from tidegate.ops.journal import Journal

ADA = {"mode": "replay", "requested_by": "ada"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    layout = Layout(tmp_path / "lake", tmp_path / "landing")
    layout.open()
    return Lake(layout)


def told(lake: Lake) -> list[tuple[str, str | None, str]]:
    lines = Journal(lake.layout).lines("flights", flow="silver", limit=10)
    return [(line.called, line.outcome, line.asked) for line in lines]


def test_a_refused_replay_stands_beside_the_batch_that_has_its_number(lake: Lake) -> None:
    lake.verdict("silver", 0, "split")
    lake.batch("flights", "silver", 0, read=3, written=2, quarantined=1)
    lake.verdict("silver", 0, "refused", ("in_set(origin)",), purpose="window", asked=ADA)
    assert told(lake) == [("replay 0", "refused", "replay by ada"), ("batch 0", "split", "")]
    replay, batch = Journal(lake.layout).lines("flights", limit=10)
    assert (replay.is_batch, replay.record, replay.unmet) == (False, None, ("in_set(origin)",))
    assert (batch.is_batch, batch.judgements) == (True, 1)


def test_a_swap_is_told_from_the_batch_before_it_and_has_no_verdict(lake: Lake) -> None:
    lake.verdict("silver", 4, "passed")
    lake.batch("flights", "silver", 4, read=3, written=3)
    lake.batch("flights", "silver", 4, kind="swap", groups=9, unchanged=9, asked={"mode": "full_refresh"})
    assert told(lake) == [("swap", None, "full refresh"), ("batch 4", "passed", "")]


def test_a_verdict_of_an_older_version_is_its_batchs(lake: Lake) -> None:
    from deltalake import DeltaTable, write_deltalake

    lake.verdict("silver", 0, "passed")
    path = str(lake.layout.ops("flights", "verdicts"))
    old = DeltaTable(path).to_pyarrow_table().drop_columns(["app_id", "mode", "requested_by"])
    write_deltalake(path, old, mode="overwrite", schema_mode="overwrite")
    lake.batch("flights", "silver", 0, read=3, written=3)
    lake.verdict("silver", 1, "refused")
    assert told(lake) == [("batch 1", "refused", ""), ("batch 0", "passed", "")]


def test_a_summary_is_of_batches_alone(lake: Lake) -> None:
    lake.batch("flights", "silver", 0, read=100, written=100)
    lake.batch("flights", "silver", 0, read=7, written=7, purpose="window", kind="rederive", asked=ADA)
    lake.batch("flights", "silver", 0, groups=5, upserted=5, kind="swap")
    lake.batch("flights", "gold", 0, read=9, groups=2, upserted=2, purpose="window", asked=ADA)
    found = Journal(lake.layout).summaries(["flights"])
    assert list(found) == [("flights", "silver")], "a flow of which only a window was replayed has no batch"
    summary = found["flights", "silver"]
    assert (summary.batches, summary.read_today, summary.trend) == (1, 100, (100,))
    assert [version.batches for version in Journal(lake.layout).versions("flights", "silver")] == [1]
