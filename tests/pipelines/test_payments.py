"""Increments equal the stream: generated histories of payments, cut and restarted anywhere, judged by plain Python.

The pipeline is the declared one, with a topic of the test and two flows that aggregate windows. Many histories go through it
together (`tests.histories_of_payments`): fifty of a thousand each week, with aborts at every kind of step. Per merge, other histories go
through the processor without Spark (tests/spark_jobs) and stateful flows on few rows (tests/spark/kinds).
"""

from __future__ import annotations

import dataclasses
import importlib
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from demo import checks, clicks_feed, recompute, recompute_payments
from demo.recompute_payments import DELAY, Expected
from tests import histories_of_payments
from tests.deployment import Deployment
from tests.slices import of_week
from tests.with_fields import with_fields
from tidegate.spec import ChangeFeed, Flow, KafkaSink, Pipeline, State, Table

if TYPE_CHECKING:
    from devstack.broker import Broker

pytestmark = [pytest.mark.jvm, pytest.mark.kafka]

WINDOW = timedelta(minutes=15)
JOB = """
from pyspark.sql import functions as F


def per_kind(rows):
    # Without a filter: Spark would filter before the watermark, which only the other rows would move.
    windows = rows.groupBy(F.window("occurred_at", "15 minutes"), "kind")
    counted = windows.agg(F.count("*").alias("events"), F.sum(F.coalesce("amount_cents", F.lit(0))).alias("cents"))
    return counted.select(F.col("window.start").alias("opened_at"), "kind", "events", "cents")
"""
POINTS = tuple(
    f"{when}:{step}:{flow}"
    for flow in ("silver", "decisions", "closed")
    for when, step in (("before", "write_target"), ("after", "write_target"), ("after", "record_batch"))
)
"""Where a run is aborted; afterwards the batch is not committed."""


@pytest.fixture
def payments(
    deployment: Deployment, broker: Broker, topic: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    """A deployment with topics of its own, and windows per kind of event: when they close, and as soon as they change."""
    import pipelines.payments
    import spark_jobs

    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "windows_of_payments.py").write_text(JOB)
    monkeypatch.setattr(spark_jobs, "__path__", [*spark_jobs.__path__, str(tmp_path / "jobs")])
    importlib.invalidate_caches()
    bronze, silver, *others, sent = pipelines.payments.pipeline.flows
    windows = Flow(
        name="closed",
        source=ChangeFeed("silver.payments"),
        transform="windows_of_payments:per_kind",
        target=Table("gold.closed_windows"),
        state=State(partitions=1),
    )
    keyed = Table("gold.open_windows", keys=("opened_at", "kind"))
    flows = (
        dataclasses.replace(bronze, source=with_fields(bronze.source, topic=topic, max_offsets_per_trigger=400)),
        silver,
        *others,
        dataclasses.replace(sent, target=KafkaSink(f"{topic}-alerts")),
        windows,
        dataclasses.replace(windows, name="open", target=keyed),
    )
    declared = dataclasses.replace(pipelines.payments.pipeline, flows=flows)
    monkeypatch.setattr(pipelines.payments, "pipeline", declared)
    for name in (topic, f"{topic}-alerts"):
        broker.create_topic(name, clicks_feed.PARTITIONS)
    yield dataclasses.replace(deployment.at(broker.bootstrap), pipeline="payments")


def declared() -> Pipeline:
    import pipelines.payments

    return pipelines.payments.pipeline


def produce(payments: Deployment, messages: list[clicks_feed.Message]) -> None:
    source: Any = declared().flow("bronze").source
    clicks_feed.produce(payments.environment.cluster("default"), messages, source.topic)


def run(payments: Deployment, *flows: str) -> None:
    assert [each.error for each in payments.run(flows=flows).flows if each.error] == []


def expect_the_stream(payments: Deployment, *windows: str) -> Expected:
    """Check every table against one computation over all messages; what is late is in the late table and in the ledger."""
    source: Any = declared().flow("bronze").source
    sink: Any = declared().flow("sent_alerts").target
    messages, sent = (
        recompute.read_topic(payments.environment.cluster("default"), each.topic) for each in (source, sink)
    )
    results = checks.payments(payments.layout, declared(), messages, sent)
    assert [check for check in results if not check.passed] == []
    payments.expect_a_balanced_ledger()
    bronze = payments.table("bronze.payments")
    ingested_at = dict(zip(bronze["_row_id"].to_pylist(), bronze["_ingested_at"].to_pylist(), strict=True))
    expected = recompute_payments.payments(messages, ingested_at)
    assert sum(line["late"] or 0 for line in payments.ledger()) == len(expected.late)
    for name in windows:
        rows = payments.table(f"gold.{name}_windows").select(["opened_at", "kind", "events", "cents"])
        expect_windows(Counter(tuple(row.values()) for row in rows.to_pylist()), expected, only_closed=name == "closed")
    return expected


def expect_windows(rows: Counter[tuple[Any, ...]], expected: Expected, *, only_closed: bool) -> None:
    windows: Counter[tuple[datetime, str]] = Counter()
    cents: Counter[tuple[datetime, str]] = Counter()
    for event in expected.silver:
        window = (event.occurred_at - (event.occurred_at - datetime(1970, 1, 1, tzinfo=UTC)) % WINDOW, event.kind)
        windows[window] += 1
        cents[window] += event.amount_cents or 0
    # Spark's watermark may be a millisecond lower than ours.
    watermark = max(event.occurred_at for event in expected.silver) - DELAY - timedelta(milliseconds=1)
    wanted = {
        (*window, number, cents[window])
        for window, number in windows.items()
        if not only_closed or window[0] + WINDOW <= watermark
    }
    assert rows == Counter(wanted)


@pytest.mark.nightly
@pytest.mark.chaos
@pytest.mark.parametrize("part", of_week(range(20), 1))
def test_fifty_of_a_thousand_histories_equal_one_computation_over_all_rows(payments: Deployment, part: int) -> None:
    rng, aborted = random.Random(part), list[str]()
    seeds = range(50 * part, 50 * (part + 1))
    for chunk in histories_of_payments.chunks(seeds, 4):
        produce(payments, chunk)
        if rng.random() < 0.8:
            aborted.append(rng.choice(POINTS))
            payments.run_and_abort(aborted[-1], "payments")
        run(payments)
    expected = expect_the_stream(payments, "closed", "open")
    print(
        f"histories {seeds[0]} to {seeds[-1]}: {len(expected.ids)} messages, {len(expected.late)} late, {len(expected.silver)} in "
        f"silver, {len(expected.decisions)} decisions, {len(expected.alerts)} alerts; aborted {', '.join(aborted)}"
    )
