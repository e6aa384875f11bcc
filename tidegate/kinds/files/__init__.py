"""What a landing flow of files declares."""

from tidegate.spec.kinds import FlowKind

KIND = FlowKind(name="files", shapes=(("append", False),), gate=False)
