"""What a flow with state declares."""

from __future__ import annotations

from tidegate.advice import Edit
from tidegate.errors import FieldError, RequestError, SpecError
from tidegate.spec.kinds import DeclaredFlow, FlowKind

_INSTEAD = (
    "a result depends on all rows before it: to derive the table again, run full_refresh or raise checkpoint_version"
)


def _check(owner: str, flow: DeclaredFlow) -> None:
    if flow.state is None:
        return
    if len(flow.feeds) != 1:
        allowed = "None, or one ChangeFeed of a table whose flow declares a watermark as the source"
        raise FieldError(owner, "state", flow.state, allowed)
    if flow.transform is None:
        raise FieldError(owner, "transform", None, "a transform with a stateful operator, for a flow with state")
    target = flow.target
    if target.write_mode not in ("append", "recompute") or target.replace_by or target.windows is not None:
        allowed = (
            "a table without keys, or with keys alone, for a flow with state: its operator says what a row replaces"
        )
        raise FieldError(owner, "target", target.name, allowed)


def _check_writer(_flow: DeclaredFlow, writer: DeclaredFlow, *, in_pipeline: bool) -> None:
    """Check that a stateful flow reads rows whose lateness is bounded."""
    name = writer.target.name
    if not in_pipeline:
        raise SpecError(
            f"it declares state, but another pipeline writes its source {name!r}: a run could read the table "
            "between its rows and the heartbeat that follows them.",
            Edit(f"declare the flow in the pipeline that writes {name!r}", "declaration"),
        )
    if writer.watermark is None:
        raise SpecError(
            f"it declares state, but flow {writer.name!r}, which writes its source {name!r}, declares no "
            "watermark: state would grow without bound, and no window would close.",
            Edit(
                f"declare Flow(…, watermark=Watermark(delay=…)) for {writer.name!r}, which appends to a table "
                "without keys and with event_time",
                "declaration",
            ),
        )


def _not_taken(flow: DeclaredFlow) -> RequestError:
    return RequestError(
        f"flow {flow.name!r} keeps state, and its results cannot be quarantined",
        Edit("correct its suite or its transform", "suite"),
    )


def _not_verified(flow: DeclaredFlow) -> RequestError:
    source = flow.source_tables[0]
    return RequestError(
        f"flow {flow.name!r} cannot be verified: its results depend on the batches in which the rows came, which no query over "
        f"{source} has.",
        Edit(f"verify the flow that writes {source}; {_INSTEAD}", "request"),
    )


KIND = FlowKind(
    name="stateful",
    stateful=True,
    shapes=(("append", True), ("recompute", True)),
    quarantines=False,
    holds_batches="with state: results that were dropped could not return in their order",
    derives_keys=False,
    refuses={"take": _not_taken, "verify": _not_verified},
    instead=_INSTEAD,
    unit="result",
    check=_check,
    check_writer=_check_writer,
)
