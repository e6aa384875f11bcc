"""The kinds of flow: what each declares, its words in plans, and the module that runs it. A new kind is one line in `KINDS`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import FieldError
from tidegate.spec.sources import ChangeFeed, FileSource, KafkaSource, SnapshotFeed, Source
from tidegate.spec.table import Table, WriteMode

if TYPE_CHECKING:
    from tidegate.spec.flow import Flow

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
    stateful: bool = False
    """Whether it keeps state between batches: it declares `tidegate.spec.State`."""
    gate: bool = True
    """Whether it may have a gate, and statistics."""
    quarantines: bool = True
    """Whether single rows can go to quarantine. Without a group, the table would keep an outdated one; a result of state that
    was held back could not return in its order."""
    sends: bool = False
    """Whether it sends changes to a sink: it has no table, so that nothing of it can be derived again, verified or undone."""
    instead: str = ""
    """What to do where a kind of run does not apply to it."""
    snapshots: bool = False
    """Whether it compares whole snapshots with its table: each is judged for what it deletes, and gives way to a newer one."""
    unit: str = "row"
    """What a run of it rewrites, for plans; a flow whose unit is ``group`` derives its groups from rows of its source."""

    @property
    def has_groups(self) -> bool:
        """Whether the flow derives whole groups: windows and estimates count groups, and no group is ever quarantined."""
        return self.unit == "group"

    @property
    def takes_batches(self) -> bool:
        """Whether all rows of a batch may go to quarantine.

        A table of groups would keep outdated ones, and one that follows snapshots would lose the rows that the refused one lacks.
        """
        return self.quarantines and not self.snapshots


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
        code="tidegate.spark.kinds.groups",
        source=ChangeFeed,
        shapes=(("recompute", True),),
        quarantines=False,
        unit="group",
    ),
    "joins": FlowKind(
        code="tidegate.spark.kinds.joins",
        source=ChangeFeed,
        several=True,
        shapes=(("recompute", True),),
        quarantines=False,
        unit="group",
    ),
    "stateful": FlowKind(
        code="tidegate.spark.kinds.stateful",
        source=ChangeFeed,
        stateful=True,
        shapes=(("append", True), ("recompute", True)),
        quarantines=False,
        instead="a result depends on all rows before it: to derive the table again, run full_refresh or raise checkpoint_version",
        unit="result",
    ),
    "snapshots": FlowKind(
        code="tidegate.spark.kinds.snapshots",
        source=SnapshotFeed,
        shapes=(("recompute", False), ("recompute", True)),
        snapshots=True,
        unit="key",
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
    owner, landing = f"Flow {flow.name!r}", not flow.feeds
    shape = (flow.target.write_mode, flow.transform is not None)
    _check_compared(owner, flow)
    of_source = [kind for kind in KINDS.values() if type(flow.source) is kind.source]
    stateful = flow.state is not None
    if stateful:
        _check_state(owner, flow)
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


def _check_compared(owner: str, flow: Flow) -> None:
    """Refuse a target whose rows cannot be compared with a snapshot by their keys alone."""
    target = flow.target
    plain = isinstance(target, Table) and target.write_mode == "recompute" and not (target.replace_by or target.windows)
    if isinstance(flow.source, SnapshotFeed) and not plain:
        allowed = "a table with keys alone for snapshots, without sequence_by, replace_by, history and windows: its rows are those of one"
        raise FieldError(owner, "target", target.name, allowed)


def _check_statistics(owner: str, flow: Flow, kind: FlowKind) -> None:
    names = ", ".join(each.name for each in flow.statistics)
    if names and not kind.gate:
        allowed = "none for a landing flow: declare them on the next flow"
        if kind.sends:
            allowed = _AS_IT_IS.format(flow.source_tables[0])
        raise FieldError(owner, "statistics", names, allowed)
    dropping = ", ".join(each.name for each in flow.statistics if each.otherwise == "drop")
    if dropping and not kind.takes_batches:
        allowed = "otherwise='hold' for a flow that recomputes groups: without the new groups the table would keep outdated ones"
        if kind.stateful:
            allowed = (
                "otherwise='hold' for a flow with state: results that were dropped could not return in their order"
            )
        if kind.snapshots:
            allowed = (
                "otherwise='hold' for a flow that compares snapshots: a newer snapshot takes the place of a held one"
            )
        raise FieldError(owner, "statistics", dropping, allowed)


def _check_state(owner: str, flow: Flow) -> None:
    """Check what a flow with state declares besides it."""
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


def _check_watermark(owner: str, flow: Flow, kind: FlowKind) -> None:
    if flow.watermark is None:
        return
    if kind.code != KINDS["rows"].code or flow.target.write_mode != "append":
        allowed = (
            "None, or a flow that appends rows with a transform: declare it where the rows are parsed, before state"
        )
        raise FieldError(owner, "watermark", flow.watermark, allowed)
    if flow.target.event_time is None:
        allowed = "None, or a target with event_time=<a TIMESTAMP column>, which the watermark is about"
        raise FieldError(owner, "watermark", flow.watermark, allowed)
