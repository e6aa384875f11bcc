"""The kinds of flow and of source, found by what a flow declares.

A new kind of flow is a folder in `tidegate.kinds` and one line in `READS`, one of source a folder in `tidegate.sources` and one line in
`SOURCES`. `FlowKind` says what a kind of flow declares, and how it differs from others: modules ask its fields, and none for its name.

The package of a folder of `tidegate.kinds` has the ``KIND`` that says what a flow of this kind declares and how it differs from others, and
its module ``run`` the ``KIND`` that reads its stream and splits its batches (`tidegate.spark.job.Kind`). The package of a folder of
`tidegate.sources` has the class of the declaration, ``measure`` the ``SOURCE`` that says what is to be read, without a JVM
(`tidegate.status.source.MeasuredSource`); and where no flow writes the records, ``read`` has the ``BRONZE`` that reads rows of the bronze
table (`tidegate.spark.intake.bronze.Bronze`). The job alone imports ``run`` and ``read``, as they need Spark.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from tidegate.errors import FieldError, RequestError
from tidegate.spec.table import Table, WriteMode

if TYPE_CHECKING:
    from tidegate.sources.snapshots import SnapshotFeed
    from tidegate.sources.tables import ChangeFeed
    from tidegate.spec.gate import Gate, Statistic
    from tidegate.spec.sinks import Sink
    from tidegate.spec.sources import Source
    from tidegate.spec.state import State, Watermark

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """The kinds in the folders of a package, by their names. Each is imported when it is asked for: a job needs few of them."""

    def __init__(self, package: str, names: Collection[str]) -> None:
        self.package, self.names = package, names

    def __getitem__(self, name: str) -> T:
        if name not in self.names:
            raise KeyError(name)
        kind: T = importlib.import_module(f"tidegate.{self.package}.{name}").KIND
        return kind

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class DeclaredFlow(Protocol):
    """The fields of a `tidegate.spec.Flow` by which its kind is found."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> Source: ...
    @property
    def sources(self) -> tuple[ChangeFeed, ...]: ...
    @property
    def feeds(self) -> tuple[ChangeFeed, ...]: ...
    @property
    def source_tables(self) -> tuple[str, ...]: ...
    @property
    def snapshots(self) -> SnapshotFeed | None: ...
    @property
    def target(self) -> Table | Sink: ...
    @property
    def transform(self) -> str | None: ...
    @property
    def gate(self) -> Gate | None: ...
    @property
    def statistics(self) -> tuple[Statistic, ...]: ...
    @property
    def watermark(self) -> Watermark | None: ...
    @property
    def state(self) -> State | None: ...


Refusal = Callable[[DeclaredFlow], RequestError]
"""Why a run, or a decision about a batch, does not apply to a flow, and what to do instead."""


def _accept(_owner: str, _flow: DeclaredFlow) -> None:
    """Refuse nothing."""


def _accept_writer(_flow: DeclaredFlow, _writer: DeclaredFlow, *, in_pipeline: bool) -> None:
    """Refuse nothing."""


class WriterCheck(Protocol):
    """Raises `SpecError` for a flow whose source has a writer that does not suit it."""

    def __call__(self, flow: DeclaredFlow, writer: DeclaredFlow, /, *, in_pipeline: bool) -> None: ...


@dataclass(frozen=True, kw_only=True)
class FlowKind:
    """One kind of flow."""

    name: str
    """The folder of its modules in `tidegate.kinds`."""
    shapes: tuple[tuple[WriteMode, bool], ...]
    """What a flow of this kind declares: the write mode of its target, and whether it has a transform."""
    several: bool = False
    """Whether it reads several sources."""
    stateful: bool = False
    """Whether it keeps state between batches: it declares `tidegate.spec.State`."""
    gate: bool = True
    """Whether it may have a gate, and statistics."""
    snapshots: bool = False
    """Whether it has snapshots beside its changes."""
    watermark: bool = False
    """Whether it may have a watermark, if it appends rows."""
    quarantines: bool = True
    """Whether single rows can go to quarantine. Without a group, the table would keep an outdated one; a result of state that
    was held back could not return in its order."""
    holds_batches: str = ""
    """Why no batch of it can go to quarantine as a whole, so that a statistic can only hold one: after "for a flow ", in messages.
    Empty if one can; else `refuses` has ``take`` as well."""
    sends: bool = False
    """Whether it sends changes to a sink: it has no table, so that nothing of it can be derived again, verified or undone."""
    follows_feed: bool = True
    """Whether its position is one in the logs of the tables that it reads; if not, a batch reads records whenever they were added,
    and its rows do not follow every change of its source."""
    derives_keys: bool = True
    """Whether rows of some keys can be derived, or put back, without the others."""
    superseded_by: str = ""
    """What takes the place of a refused batch, which does not wait then: ``a newer snapshot``. Empty if batches keep their order."""
    instead_for_history: str = "read the bronze table"
    """What to do where a table with history reads a table of this kind, which has only the newest row of a key."""
    not_there: str = ""
    """Why a row of its source may not be in its table, for `tidegate trace`. Empty where the position in the feed says it."""
    refuses: Mapping[str, Refusal] = field(default_factory=dict)
    """What does not apply to it: runs by their names (`tidegate.requests.runs`), and ``take``, by which a person quarantines a batch."""
    instead: str = ""
    """What to do where a kind of run does not apply to it."""
    unit: str = "row"
    """What a run of it rewrites, for plans; a flow whose unit is ``group`` derives its groups from rows of its source."""
    check: Callable[[str, DeclaredFlow], None] = _accept
    """Raises `FieldError` for a flow that has the mark of this kind, and other fields that do not fit; called for flows of this kind and
    for those of none, with the name of the flow for messages."""
    check_writer: WriterCheck = _accept_writer
    """Called with the flow that writes the first source, when the project is resolved."""

    @property
    def code(self) -> str:
        """The module whose ``KIND`` reads the stream and splits its batches; the job alone imports it."""
        return f"tidegate.kinds.{self.name}.run"

    @property
    def has_groups(self) -> bool:
        """Whether the flow derives whole groups: windows and estimates count groups, and no group is ever quarantined."""
        return self.unit == "group"

    @property
    def takes_batches(self) -> bool:
        """Whether all rows of a batch may go to quarantine."""
        return not self.holds_batches


SOURCES = {"files": "FileSource", "topics": "KafkaSource", "tables": "ChangeFeed", "snapshots": "SnapshotFeed"}
"""Every kind of source: the class of its declaration by its folder."""
LANDED = ("files", "topics")
"""Those whose records no flow writes."""

READS = {
    "files": "files",
    "messages": "topics",
    "rows": "tables",
    "groups": "tables",
    "joins": "tables",
    "snapshots": "snapshots",
    "snapshot_histories": "snapshots",
    "stateful": "tables",
    "sinks": "tables",
    "rows_with_snapshots": "tables",
}
"""Every kind of flow: the kind of source that it reads by its folder. A kind is imported for a flow that none before it declares."""
KINDS: Registry[FlowKind] = Registry("kinds", READS)

_NO_TRANSFORM = "None for a landing flow: bronze keeps the raw record"
_COPY = "a transform: without one this flow would only copy its source"
_AS_IT_IS = "none for a flow that sends a table: declare it on the flow that writes {}"
_TRANSFORMS: Mapping[WriteMode, str] = {
    "append": _COPY,
    "recompute": "a transform that computes the groups",
    "send": _AS_IT_IS,
}


def source_folder(declared: type) -> str | None:
    """The folder of the kind of source that this class declares; None for a class that declares none."""
    for folder, name in SOURCES.items():
        if (declared.__module__, declared.__name__) == (f"tidegate.sources.{folder}", name):
            return folder
    return None


def kind_of(flow: DeclaredFlow) -> FlowKind:
    """The kind that declares what this flow declares.

    Raises:
        FieldError: No kind does; the message says which field does not fit the others.
    """
    owner, folder = f"Flow {flow.name!r}", source_folder(type(flow.source))
    candidates = map(KINDS.__getitem__, (name for name, source in READS.items() if source == folder))
    kind = next((each for each in candidates if _declares(each, flow)), None)
    for each in KINDS.values() if kind is None else (kind,):
        each.check(owner, flow)
    if kind is None:
        raise _misfit(owner, flow)
    if flow.gate is not None and not kind.gate:
        allowed = "None for a landing flow: declare the gate on the next flow"
        if kind.sends:
            allowed = _AS_IT_IS.format(flow.source_tables[0])
        raise FieldError(owner, "gate", flow.gate.suite, allowed)
    _check_statistics(owner, flow, kind)
    _check_watermark(owner, flow, kind)
    return kind


def _declares(kind: FlowKind, flow: DeclaredFlow) -> bool:
    """Whether the flow, which reads the kind of source that it should, declares what one of this kind declares."""
    declared = (bool(flow.sources), flow.state is not None, flow.snapshots is not None)
    if (kind.several, kind.stateful, kind.snapshots) != declared:
        return False
    shape = (flow.target.write_mode, flow.transform is not None)
    return shape in kind.shapes and not (kind.several and flow.target.windows is not None)


def _misfit(owner: str, flow: DeclaredFlow) -> FieldError:
    """The field of a flow of no kind that does not fit the others."""
    landing = not flow.feeds
    if landing and flow.transform is not None:
        return FieldError(owner, "transform", flow.transform, _NO_TRANSFORM)
    if landing:
        return FieldError(owner, "target", flow.target.name, "a table without keys for a landing flow")
    if flow.sources and (flow.target.write_mode != "recompute" or flow.target.windows is not None):
        allowed = "a table with keys alone, without sequence_by and windows, for several sources"
        return FieldError(owner, "target", flow.target.name, allowed)
    allowed = _TRANSFORMS[flow.target.write_mode].format(*flow.source_tables)
    return FieldError(owner, "transform", flow.transform, allowed)


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
