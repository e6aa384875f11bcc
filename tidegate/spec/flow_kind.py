"""`FlowKind`: what a kind of flow declares, and how it differs from others. Modules ask its fields, and none for its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.errors import RequestError
from tidegate.sources.tables.declare import ChangeFeed
from tidegate.spec.gate import Gate
from tidegate.spec.sinks import Sink
from tidegate.spec.sources import Source
from tidegate.spec.state import State
from tidegate.spec.statistics import Statistic
from tidegate.spec.table import Table, WriteMode
from tidegate.spec.watermark import Watermark


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
    source: type[Source]
    shapes: tuple[tuple[WriteMode, bool], ...]
    """What a flow of this kind declares: the write mode of its target, and whether it has a transform."""
    several: bool = False
    """Whether it reads several sources."""
    stateful: bool = False
    """Whether it keeps state between batches: it declares `tidegate.spec.State`."""
    gate: bool = True
    """Whether it may have a gate, and statistics."""
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
    """Raises `FieldError` for a flow that has the mark of this kind, and other fields that do not fit; called for every flow, with its
    name for messages."""
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
