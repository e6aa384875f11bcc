"""What a flow of groups declares."""

from __future__ import annotations

from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.spec.kinds import DeclaredFlow, FlowKind

HOLDS_BATCHES = "that recomputes groups: without the new groups the table would keep outdated ones"


def not_taken(flow: DeclaredFlow) -> RequestError:
    """A batch of groups does not go to quarantine."""
    return RequestError(
        f"flow {flow.name!r} recomputes groups, and groups cannot be quarantined",
        Edit("correct its suite or its transform", "suite"),
    )


KIND = FlowKind(
    name="groups",
    shapes=(("recompute", True),),
    quarantines=False,
    holds_batches=HOLDS_BATCHES,
    refuses={"take": not_taken},
    unit="group",
)
