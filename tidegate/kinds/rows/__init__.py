"""What a flow of rows declares."""

from tidegate.spec.kinds import FlowKind

KIND = FlowKind(
    name="rows",
    shapes=(("upsert", False), ("upsert", True), ("append", True)),
    watermark=True,
    unit="key",
)
