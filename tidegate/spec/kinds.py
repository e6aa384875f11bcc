"""The kinds of flow: what each declares, its words in plans, and the module that runs it. A new kind is one line in `KINDS`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import FieldError
from tidegate.spec.sources import ChangeFeed, FileSource, KafkaSource, Source

if TYPE_CHECKING:
    from tidegate.spec.flow import Flow
    from tidegate.spec.table import WriteMode

_NO_TRANSFORM = "None for a landing flow: bronze keeps the raw record"
_COPY = "a transform: without one this flow would only copy its source"
_AS_IT_IS = "none for a flow that sends a table: declare it on the flow that writes {}"


@dataclass(frozen=True, kw_only=True)
class FlowKind:
    """One kind of flow."""

    code: str
    """The module whose ``KIND`` reads the stream and splits its batches (`tidegate.spark.kinds.kind.Kind`). It is imported
    by the job only."""
    source: type[Source]
    shapes: tuple[tuple[WriteMode, bool], ...]
    """What a flow of this kind declares: the write mode of its target, and whether it has a transform."""
    several: bool = False
    """Whether it reads several sources."""
    gate: bool = True
    """Whether it may have a gate, and statistics."""
    sends: bool = False
    """Whether it sends changes to a sink: it has no table, so that nothing of it can be derived again, verified or undone."""
    unit: str = "row"
    """What a run of it rewrites, for plans; a flow whose unit is ``group`` derives its groups from rows of its source."""

    @property
    def has_groups(self) -> bool:
        """Whether the flow derives whole groups: windows and estimates count groups, and no group is ever quarantined."""
        return self.unit == "group"


KINDS: dict[str, FlowKind] = {
    "files": FlowKind(code="tidegate.spark.kinds.files", source=FileSource, shapes=(("append", False),), gate=False),
    "messages": FlowKind(
        code="tidegate.spark.kinds.messages", source=KafkaSource, shapes=(("append", False),), gate=False
    ),
    "rows": FlowKind(
        code="tidegate.spark.kinds.rows",
        source=ChangeFeed,
        shapes=(("upsert", False), ("upsert", True), ("append", True)),
        unit="key",
    ),
    "groups": FlowKind(
        code="tidegate.spark.kinds.groups", source=ChangeFeed, shapes=(("recompute", True),), unit="group"
    ),
    "joins": FlowKind(
        code="tidegate.spark.kinds.joins", source=ChangeFeed, several=True, shapes=(("recompute", True),), unit="group"
    ),
    "sinks": FlowKind(
        code="tidegate.spark.kinds.sinks", source=ChangeFeed, shapes=(("send", False),), gate=False, sends=True
    ),
}
"""Every kind of flow, by its name."""

_TRANSFORMS: Mapping[WriteMode, str] = {
    "append": _COPY,
    "recompute": "a transform that computes the groups",
    "send": _AS_IT_IS,
}


def kind_of(flow: Flow) -> FlowKind:
    """The kind that declares what this flow declares.

    Raises:
        FieldError: No kind does; the message says which field does not fit the others.
    """
    owner, landing = f"Flow {flow.name!r}", not isinstance(flow.source, ChangeFeed)
    shape = (flow.target.write_mode, flow.transform is not None)
    of_source = [kind for kind in KINDS.values() if isinstance(flow.source, kind.source)]
    kinds = [kind for kind in of_source if kind.several == bool(flow.sources)]
    for kind in kinds:
        if shape in kind.shapes and not (kind.several and flow.target.windows is not None):
            if flow.gate is not None and not kind.gate:
                allowed = "None for a landing flow: declare the gate on the next flow"
                if kind.sends:
                    allowed = _AS_IT_IS.format(flow.source_tables[0])
                raise FieldError(owner, "gate", flow.gate.suite, allowed)
            _check_statistics(owner, flow, kind)
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


def _check_statistics(owner: str, flow: Flow, kind: FlowKind) -> None:
    names = ", ".join(each.name for each in flow.statistics)
    if names and not kind.gate:
        allowed = "none for a landing flow: declare them on the next flow"
        if kind.sends:
            allowed = _AS_IT_IS.format(flow.source_tables[0])
        raise FieldError(owner, "statistics", names, allowed)
    dropping = ", ".join(each.name for each in flow.statistics if each.otherwise == "drop")
    if dropping and kind.has_groups:
        allowed = "otherwise='hold' for a flow that recomputes groups: without the new groups the table would keep outdated ones"
        raise FieldError(owner, "statistics", dropping, allowed)
