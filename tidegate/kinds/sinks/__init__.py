"""What a flow that sends changes declares."""

from __future__ import annotations

from tidegate.advice import Edit
from tidegate.errors import RequestError, SpecError
from tidegate.spec.kinds import DeclaredFlow, FlowKind


def _check_writer(flow: DeclaredFlow, writer: DeclaredFlow, *, in_pipeline: bool) -> None:
    """Check that the rows of a table that is sent have keys."""
    if not writer.target.keys:
        raise SpecError(
            f"its source {writer.target.name!r} has no keys, by which the changes are sent to {flow.target.name}",
            Edit("send the table with keys that is derived from it", "declaration"),
        )


def _not_verified(flow: DeclaredFlow) -> RequestError:
    source = flow.source_tables[0]
    return RequestError(
        f"flow {flow.name!r} cannot be verified: it has no table, but sends the changes of {source} to {flow.target.name}.",
        Edit(f"verify the flow that writes {source}, and compare the sink with that table", "request"),
    )


KIND = FlowKind(
    name="sinks",
    shapes=(("send", False),),
    gate=False,
    sends=True,
    refuses={"verify": _not_verified},
    check_writer=_check_writer,
)
