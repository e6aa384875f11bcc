"""What a flow of groups of several tables declares."""

from tidegate.kinds.groups import HOLDS_BATCHES, not_taken
from tidegate.spec.kinds import FlowKind

KIND = FlowKind(
    name="joins",
    several=True,
    shapes=(("recompute", True),),
    quarantines=False,
    holds_batches=HOLDS_BATCHES,
    refuses={"take": not_taken},
    unit="group",
)
