"""What a flow of rows declares."""

from tidegate.sources.tables.declare import ChangeFeed
from tidegate.spec.flow_kind import FlowKind

KIND = FlowKind(
    name="rows",
    source=ChangeFeed,
    shapes=(("upsert", False), ("upsert", True), ("append", True)),
    watermark=True,
    unit="key",
)
