"""What a landing flow of messages declares."""

from tidegate.spec.kinds import FlowKind

KIND = FlowKind(name="messages", shapes=(("append", False),), gate=False)
