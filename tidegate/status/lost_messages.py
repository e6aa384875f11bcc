"""Accept that a topic lost messages before they were read; the flow's next run continues after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.advice import Edit
from tidegate.checkpoints import checkpoint, gap, lease
from tidegate.errors import GapError, RequestError
from tidegate.lake.layout import Layout
from tidegate.ops import ledger
from tidegate.probes import kafka
from tidegate.spec import KafkaSource
from tidegate.status import lag

if TYPE_CHECKING:
    from tidegate.checkpoints.overrides import Override
    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedFlow


def accept_gap(
    environment: Environment, resolved: ResolvedFlow, offsets: gap.Offsets, *, by: str, reason: str, prefix: str = ""
) -> Override:
    """Accept a gap under the flow's lease: records the decision, then a ledger line.

    Args:
        resolved: A flow that reads a topic.
        offsets: The lost offsets of a topic that are accepted; must be exactly those that are missing and not accepted yet.
        prefix: As `KafkaSource.prefix`.

    Raises:
        RequestError: The flow reads no topic, nothing is missing, other offsets are missing than those given, or the reason
            is empty.
        LeaseHeldError: A run works on the flow. Transient.
        SourceError: The topic does not exist, was created again, or no broker answers.
    """
    pipeline, flow = resolved.pipeline, resolved.flow
    if not isinstance(flow.source, KafkaSource):
        raise RequestError(
            f"flow {flow.name!r} reads no topic, so it has no gap to accept",
            Edit("name a flow with a KafkaSource", "request"),
        )
    layout = Layout.of(environment)
    resource = lease.checkpoint_resource(pipeline.name, flow.name)
    with lease.hold(layout, (resource,), what=f"accept-gap of {pipeline.name}/{flow.name}, by {by}"):
        checkpoint.check_compatible(layout, resolved)
        topic, missing = _missing_offsets(environment, resolved)
        if (flow.source.prefix(topic), missing) != (prefix if missing else "", offsets):
            state = (
                f"missing and not accepted: {gap.format_offsets(missing, flow.source.prefix(topic))}"
                if missing
                else "no unread messages of the topic are missing"
            )
            raise RequestError(
                f"{gap.format_offsets(offsets, prefix)} cannot be accepted as a gap: {state}",
                Edit("accept the offsets that are missing, as the error of the run names them", "request"),
            )
        topic_id = kafka.topic_id(environment.cluster(flow.source.cluster), topic)
        place = resolved.place(layout)
        decision = gap.accept(place, topic, topic_id, missing, by=by, reason=reason)
        ledger.record_gaps(place)
    return decision


def _missing_offsets(environment: Environment, resolved: ResolvedFlow) -> tuple[str, gap.Offsets]:
    """The first topic that has lost messages, and which."""
    try:
        lag.measure(environment, resolved)
    except GapError as error:
        return error.topic, {int(partition): (first, last) for partition, (first, last) in error.lost.items()}
    return "", {}
