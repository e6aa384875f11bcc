"""What a landing flow of messages declares."""

from tidegate.sources.topics.declare import KafkaSource
from tidegate.spec.flow_kind import FlowKind

KIND = FlowKind(name="messages", source=KafkaSource, shapes=(("append", False),), gate=False)
