"""A driver of a stateful flow is SIGKILLed around what a batch stores: its state, the target, the ledger line, Spark's commit.

Spark's file ``commits/N`` alone makes the state of batch N valid, so every attempt at the batch makes the state again from that
of the batch before. The pipeline is the declared one, `payments`; its tables are compared with one computation in plain Python.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pytest

from demo import clicks_feed
from tests import histories_of_payments
from tests.chaos.sample import StartState
from tests.deployment import Deployment
from tests.pipelines.test_payments import expect_the_stream, produce, run
from tests.slices import of_week
from tidegate.checkpoints import progress
from tidegate.lake.place import Place
from tidegate.probes import delta

if TYPE_CHECKING:
    from devstack.broker import Broker

pytestmark = [pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.nightly]

APP_ID = "payments/decisions/v1/0"


class Stored(NamedTuple):
    """What a batch has left on the disk."""

    partitions: int
    """Those with its state, of two."""
    target: bool
    ledger: bool
    commit: bool


@dataclass(frozen=True)
class Undecided:
    """Builds the start state: some payments are decided, with state; others are in silver, and others in the topic only."""

    kafka: str

    def __call__(self, empty: Deployment) -> None:
        deployment = self.of(empty)
        decided, in_silver, in_topic = histories_of_payments.chunks(range(12), 3)
        produce(deployment, decided)
        run(deployment, "bronze", "silver", "decisions")
        produce(deployment, in_silver)
        run(deployment, "bronze", "silver")
        produce(deployment, in_topic)

    def of(self, deployment: Deployment) -> Deployment:
        """Payments of the broker. One task at a time stores the partitions of the state one after the other."""
        environment = dataclasses.replace(deployment.environment, kafka=self.kafka, master="local[1]")
        return dataclasses.replace(deployment, environment=environment, pipeline="payments")


def stored(deployment: Deployment, batch_id: int) -> Stored:
    """What a batch of the decisions has left."""
    checkpoint = Place(deployment.layout, "payments", "decisions", 1, 0).checkpoint
    written = delta.transaction_version(deployment.layout.table("silver.decisions"), APP_ID)
    changes = re.compile(rf"/state/0/(\d+)/{batch_id + 1}(_[^/]*)?\.changelog$")
    return Stored(
        partitions=len({match[1] for entry in checkpoint.walk() if (match := changes.search(entry.key))}),
        target=written is not None and written >= batch_id,
        ledger=(APP_ID, batch_id) in {(line["app_id"], line["batch_id"]) for line in deployment.ledger()},
        commit=(checkpoint / "commits" / str(batch_id)).exists(),
    )


STORING = ("storing:evaluate_batch", 0, Stored(1, target=False, ledger=False, commit=False))
"""Only in a process of its own: the state is half stored."""
POINTS = [
    ("before:evaluate_batch", 0, Stored(0, target=False, ledger=False, commit=False)),
    ("after:evaluate_batch", 0, Stored(2, target=False, ledger=False, commit=False)),
    ("after:write_target", 0, Stored(2, target=True, ledger=False, commit=False)),
    ("after:record_batch", 0, Stored(2, target=True, ledger=True, commit=False)),
    ("before:evaluate_batch", 1, Stored(2, target=True, ledger=True, commit=True)),
]


@pytest.mark.parametrize(("step", "batch", "left"), [STORING, *of_week(POINTS, 1)])
def test_a_rerun_makes_the_state_of_a_killed_batch_and_decides_as_the_stream_would(
    start_state: StartState, broker: Broker, step: str, batch: int, left: Stored
) -> None:
    for topic in ("payments", "payment-alerts"):
        broker.create_topic(topic, clicks_feed.PARTITIONS)
    undecided = Undecided(broker.bootstrap)
    payments = undecided.of(start_state(undecided))
    last = progress.read(Place(payments.layout, "payments", "decisions", 1, 0).checkpoint).last_committed
    assert last is not None

    payments.run_and_kill(f"{step}:decisions", "payments", ["decisions"], batch=batch)

    assert stored(payments, last + 1) == left
    run(payments)
    expect_the_stream(payments)
    assert stored(payments, last + 1) == Stored(2, target=True, ledger=True, commit=True)
