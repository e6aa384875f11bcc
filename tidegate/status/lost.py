"""A person gives up messages that a topic lost before they were read, by name; the flow's next run goes on behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint, gap, lease
from tidegate.errors import GapError, RequestError
from tidegate.layout import Layout
from tidegate.ops import ledger
from tidegate.probes import kafka
from tidegate.spec import KafkaSource
from tidegate.status import lag

if TYPE_CHECKING:
    from tidegate.checkpoints.intervention import Intervention
    from tidegate.environment import Environment
    from tidegate.spec import Flow, Pipeline


def give_up(
    environment: Environment, pipeline: Pipeline, flow: Flow, named: gap.Offsets, *, by: str, reason: str
) -> Intervention:
    """Give up what a topic no longer holds, under the flow's lease: a line of the decisions, and then of the ledger.

    Args:
        environment: Where the lake and the broker are.
        pipeline: Its declaration.
        flow: A flow that reads a topic.
        named: What the person means; exactly what is gone now, and not given up yet.
        by: Who decides.
        reason: Why.

    Raises:
        RequestError: The flow reads no topic, nothing is gone, something else is gone than what was named, or there is no
            reason.
        LeaseHeldError: A run works on the flow. Transient.
        SourceError: The topic is not there or was made anew, or no broker answers.
    """
    if not isinstance(flow.source, KafkaSource):
        raise RequestError(f"flow {flow.name!r} reads no topic, so no messages of it can be given up")
    layout = Layout.of(environment)
    resource = lease.checkpoint_resource(pipeline.name, flow.name)
    with lease.hold(layout, (resource,), what=f"accept-gap of {pipeline.name}/{flow.name}, by {by}"):
        checkpoint.check_compatible(layout, pipeline, flow)
        lost = _lost(environment, pipeline, flow)
        if lost != named:
            gone = (
                f"gone and not given up is {gap.told(lost)}"
                if lost
                else "nothing of the topic is gone that was not read"
            )
            raise RequestError(f"{gap.told(named)} cannot be given up: {gone}")
        topic_id = kafka.topic_id(environment.kafka, flow.source.topic)
        decided = gap.accept(layout, pipeline.name, flow.name, flow.source.topic, topic_id, lost, by=by, reason=reason)
        ledger.record_gaps(layout, pipeline.name, flow.name)
    return decided


def _lost(environment: Environment, pipeline: Pipeline, flow: Flow) -> gap.Offsets:
    try:
        lag.measure(environment, pipeline, flow)
    except GapError as error:
        return {int(partition): (first, last) for partition, (first, last) in error.lost.items()}
    return {}
