"""What showing the state is."""

from __future__ import annotations

from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.requests.runs import RunKind
from tidegate.spec import Flow, Pipeline


def _check(pipeline: Pipeline, flow: Flow) -> None:
    if not flow.kind.stateful:
        stateful = ", ".join(each.name for each in pipeline.flows if each.kind.stateful)
        raise RequestError(
            f"flow {flow.name!r} keeps no state",
            Edit(f"stateful flows of this pipeline: {stateful or 'none'}", "request"),
        )


KIND = RunKind(
    name="state",
    meaning="",
    applies_to=lambda _: True,
    check=_check,
    reads_source=False,
    increments=False,
    derives=False,
    only_reads=True,
)
