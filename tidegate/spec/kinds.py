"""The kinds of flow. A new kind is a folder in `tidegate.kinds`, and one line in `KINDS`.

Each folder has ``declare``, whose ``KIND`` says what a flow of this kind declares and how it differs from others, and ``run``, whose
``KIND`` reads its stream and splits its batches (`tidegate.spark.job.Kind`). The job alone imports ``run``, as it needs Spark.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from tidegate.errors import FieldError
from tidegate.spec.flow_kind import DeclaredFlow, FlowKind
from tidegate.spec.table import WriteMode

_NO_TRANSFORM = "None for a landing flow: bronze keeps the raw record"
_COPY = "a transform: without one this flow would only copy its source"
_AS_IT_IS = "none for a flow that sends a table: declare it on the flow that writes {}"


def declared(name: str) -> FlowKind:
    """The kind of flow of this folder."""
    kind: FlowKind = importlib.import_module(f"tidegate.kinds.{name}.declare").KIND
    return kind


KINDS: dict[str, FlowKind] = {
    name: declared(name) for name in ("files", "messages", "rows", "groups", "joins", "snapshots", "stateful", "sinks")
}
"""Every kind of flow, by its name."""

_TRANSFORMS: Mapping[WriteMode, str] = {
    "append": _COPY,
    "recompute": "a transform that computes the groups",
    "send": _AS_IT_IS,
}


def kind_of(flow: DeclaredFlow) -> FlowKind:
    """The kind that declares what this flow declares.

    Raises:
        FieldError: No kind does; the message says which field does not fit the others.
    """
    owner, landing = f"Flow {flow.name!r}", not flow.feeds
    shape = (flow.target.write_mode, flow.transform is not None)
    for kind in KINDS.values():
        kind.check(owner, flow)
    of_source = [kind for kind in KINDS.values() if type(flow.source) is kind.source]
    stateful = flow.state is not None
    kinds = [kind for kind in of_source if kind.several == bool(flow.sources) and kind.stateful == stateful]
    for kind in kinds:
        if shape in kind.shapes and not (kind.several and flow.target.windows is not None):
            if flow.gate is not None and not kind.gate:
                allowed = "None for a landing flow: declare the gate on the next flow"
                if kind.sends:
                    allowed = _AS_IT_IS.format(flow.source_tables[0])
                raise FieldError(owner, "gate", flow.gate.suite, allowed)
            _check_statistics(owner, flow, kind)
            _check_watermark(owner, flow, kind)
            return kind
    if landing and flow.transform is not None:
        raise FieldError(owner, "transform", flow.transform, _NO_TRANSFORM)
    if landing:
        raise FieldError(owner, "target", flow.target.name, "a table without keys for a landing flow")
    if flow.sources and (flow.target.write_mode != "recompute" or flow.target.windows is not None):
        allowed = "a table with keys alone, without sequence_by and windows, for several sources"
        raise FieldError(owner, "target", flow.target.name, allowed)
    allowed = _TRANSFORMS[flow.target.write_mode].format(*flow.source_tables)
    raise FieldError(owner, "transform", flow.transform, allowed)


def _check_statistics(owner: str, flow: DeclaredFlow, kind: FlowKind) -> None:
    names = ", ".join(each.name for each in flow.statistics)
    if names and not kind.gate:
        allowed = "none for a landing flow: declare them on the next flow"
        if kind.sends:
            allowed = _AS_IT_IS.format(flow.source_tables[0])
        raise FieldError(owner, "statistics", names, allowed)
    dropping = ", ".join(each.name for each in flow.statistics if each.otherwise == "drop")
    if dropping and not kind.takes_batches:
        raise FieldError(owner, "statistics", dropping, f"otherwise='hold' for a flow {kind.holds_batches}")


def _check_watermark(owner: str, flow: DeclaredFlow, kind: FlowKind) -> None:
    if flow.watermark is None:
        return
    if not kind.watermark or flow.target.write_mode != "append":
        allowed = (
            "None, or a flow that appends rows with a transform: declare it where the rows are parsed, before state"
        )
        raise FieldError(owner, "watermark", flow.watermark, allowed)
    if flow.target.event_time is None:
        allowed = "None, or a target with event_time=<a TIMESTAMP column>, which the watermark is about"
        raise FieldError(owner, "watermark", flow.watermark, allowed)
