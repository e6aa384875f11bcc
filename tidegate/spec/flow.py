"""Declarations of a flow."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from tidegate.errors import FieldError
from tidegate.sources.tables import ChangeFeed, check_sources
from tidegate.spec.checks import check_name, check_positive, check_unique, fits
from tidegate.spec.gate import Gate, Statistic
from tidegate.spec.intervals import Intervals, TopicIntervals
from tidegate.spec.kinds import SOURCES, FlowKind, kind_of, source_folder
from tidegate.spec.limits import RewriteLimits, Thresholds, check_thresholds
from tidegate.spec.state import State, Watermark
from tidegate.spec.table import OtherTarget, Table

if TYPE_CHECKING:
    from tidegate.sources.snapshots import SnapshotFeed
    from tidegate.spec.sinks import Target
    from tidegate.spec.sources import LandingSource, Source

SQL = ".sql"
"""How the name of a transform in SQL ends."""
_TRANSFORM = re.compile(r"[a-z][a-z0-9_]*(:[a-z][a-z0-9_]*|\.sql)")
_FIRST_OF_SOURCES = cast("Source", None)


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One step of a pipeline: a source, a transform, a gate, a target table and a checkpoint version."""

    name: str
    source: Source = _FIRST_OF_SOURCES
    """What it reads; with ``sources``, the first of them."""
    sources: tuple[ChangeFeed, ...] = ()
    """Instead of ``source``, for a table of groups that are computed from several tables. The first source has the target's keys
    and determines the groups; the others are joined with its rows by their ``on``."""
    snapshots: SnapshotFeed | None = None
    """Full snapshots of the table whose changes it reads, into a table with ``sequence_by``. Where the rows of a snapshot have one value in
    these columns, that is its position: the table becomes the snapshot and the changes after it. Any other is only compared."""
    target: Target
    """The table that it writes, or the sink to which it sends every change of its source table."""
    transform: str | None = None
    """``<module>:<function>`` in ``spark_jobs``. Takes and returns a DataFrame and keeps the column ``_row_id``. With ``sources``
    it takes one DataFrame for each, as parameters that have the names of the tables without their layers, in that order.
    Or ``<name>.sql`` in ``spark_jobs``: one SELECT that reads the sources by these names.
    A landing flow has none: bronze stores the raw record."""
    gate: Gate | None = None
    statistics: tuple[Statistic, ...] = ()
    """Numbers of each batch of the stream, with the rules that hold or drop it. Not for a landing flow, as a gate."""
    watermark: Watermark | None = None
    """How late rows may come that the flow appends to a table with ``event_time``. Its source is a bronze table of the same
    pipeline. Flows with ``state`` read tables that have one."""
    state: State | None = None
    """What the flow remembers between batches. With it the flow is stateful: its transform takes and returns a streaming
    DataFrame with one stateful operator."""
    checkpoint_version: int = 1
    """Raised by a person when the declaration becomes incompatible with the checkpoint."""
    thresholds: Thresholds | None = None
    """Limits for alerts about this flow; None takes the pipeline's."""
    rewrite_limits: RewriteLimits | None = None
    """How much a backfill, a full refresh or a new version may delete or refuse; None takes the pipeline's."""

    def __post_init__(self) -> None:
        owner = f"Flow {self.name!r}"
        check_name(owner, "name", self.name)
        self._check_sources(owner)
        if not isinstance(self.target, (Table, OtherTarget)):
            raise FieldError(owner, "target", self.target, "a Table, a KafkaSink or a FunctionSink")
        if self.transform is not None and not fits(_TRANSFORM, self.transform):
            raise FieldError(
                owner,
                "transform",
                self.transform,
                "'<module>:<function>' or '<name>.sql' in spark_jobs, as in 'flights:clean'",
            )
        if self.gate is not None and not isinstance(self.gate, Gate):
            raise FieldError(owner, "gate", self.gate, "a Gate or None")
        if not isinstance(self.statistics, tuple) or not all(isinstance(each, Statistic) for each in self.statistics):
            raise FieldError(owner, "statistics", self.statistics, "a tuple of Statistic(…)")
        check_unique(owner, "statistics", [each.name for each in self.statistics], "names")
        if self.watermark is not None and not isinstance(self.watermark, Watermark):
            raise FieldError(owner, "watermark", self.watermark, "Watermark(delay=…) or None")
        if self.snapshots is not None and source_folder(type(self.snapshots)) != "snapshots":
            raise FieldError(owner, "snapshots", self.snapshots, "SnapshotFeed(…) or None")
        if self.state is not None and not isinstance(self.state, State):
            raise FieldError(owner, "state", self.state, "State(…) or None")
        check_positive(self, "checkpoint_version", self.checkpoint_version, owner)
        if self.rewrite_limits is not None and not isinstance(self.rewrite_limits, RewriteLimits):
            raise FieldError(owner, "rewrite_limits", self.rewrite_limits, "RewriteLimits(…) or None")
        if self.thresholds is not None:
            check_thresholds(owner, self.thresholds)
            if self.thresholds.freshness_hours is not None and self.target.event_time is None:
                raise FieldError(
                    owner, "thresholds", self.thresholds, "freshness_hours only for a target with event_time"
                )
        if (self.target.first_day or self.target.last_day) and not self.feeds:
            allowed = (
                "without first_day and last_day for a landing flow, which keeps every record: limit the next table"
            )
            raise FieldError(owner, "target", self.target.name, allowed)
        if self.target.name in self.read_tables:
            raise FieldError(owner, "target", self.target.name, "another table than the source")
        kind_of(self)

    def _check_sources(self, owner: str) -> None:
        if self.sources:
            check_sources(owner, self.sources, shown=self.is_sql)
            if self.source not in (None, self.sources[0]):
                raise FieldError(owner, "source", self.source, "none beside sources")
            object.__setattr__(self, "source", self.sources[0])
        if source_folder(type(self.source)) is None:
            raise FieldError(owner, "source", self.source, ", ".join(SOURCES.values()))
        if isinstance(self.source, ChangeFeed) and self.source.on:
            raise FieldError(owner, "source", self.source, "without on: only the sources after the first have it")

    @property
    def is_sql(self) -> bool:
        """Whether its transform is a file with SQL."""
        return isinstance(self.transform, str) and self.transform.endswith(SQL)

    @property
    def transform_place(self) -> str:
        """Where its transform is, for messages: ``clean in spark_jobs/flights.py``, or ``spark_jobs/flights.sql``; empty without one."""
        if self.transform is None or self.is_sql:
            return f"spark_jobs/{self.transform}" if self.transform else ""
        module, _, function = self.transform.partition(":")
        return f"{function} in spark_jobs/{module}.py"

    @property
    def feeds(self) -> tuple[ChangeFeed, ...]:
        """The change feeds that it reads, the first source first; none for a landing flow."""
        return self.sources or ((self.source,) if isinstance(self.source, ChangeFeed) else ())

    @property
    def landed_source(self) -> LandingSource | None:
        """The source whose records it keeps as they arrive; None for a flow that reads tables."""
        return None if isinstance(self.source, ChangeFeed) else self.source

    @property
    def source_tables(self) -> tuple[str, ...]:
        """The tables of its change feeds, the first source first."""
        return tuple(feed.table for feed in self.feeds)

    @property
    def read_tables(self) -> tuple[str, ...]:
        """The tables of its change feeds, and that of its snapshots."""
        return self.source_tables if self.snapshots is None else (*self.source_tables, self.snapshots.table)

    @property
    def of_snapshots(self) -> Flow:
        """The flow that would compare its snapshots alone, by whose steps they are read."""
        assert self.snapshots is not None and isinstance(self.target, Table)
        keyed = replace(self.target, sequence_by=(), text_order={})
        return replace(self, source=self.snapshots, snapshots=None, target=keyed, statistics=())

    @property
    def intervals(self) -> Intervals | TopicIntervals | None:
        """The days or hours that its source declares."""
        return None if isinstance(self.source, ChangeFeed) else self.source.intervals

    @property
    def kind(self) -> FlowKind:
        """What the flow's source, target and transform make it: `tidegate.spec.kinds`."""
        return kind_of(self)

    @property
    def is_staged(self) -> bool:
        """Whether a new version or a full refresh builds the whole table again, in staging.

        To bronze, missing rows are added instead; a sink gets all rows again.
        """
        return bool(self.feeds) and not self.kind.sends

    @property
    def keeps_rows(self) -> bool:
        """Whether rows are only ever added to the table, in no order: whoever has one row fewer after a swap must have accepted it.

        Of a table with one row for each change of a keyed table, those of earlier changes cannot be derived again.
        """
        return self.is_staged and not self.target.keys and self.state is None and self.watermark is None

    @property
    def recovered_by(self) -> tuple[str]:
        """The table by which a recovery reaches what the flow has written: its own, or the source of a sink's flow."""
        return (self.source_tables[0] if self.kind.sends else self.target.name,)

    def remembered(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores; changing one needs a new ``checkpoint_version``."""
        return {
            "source": self.source.identity(),
            **({"sources": [feed.identity() for feed in self.sources]} if self.sources else {}),
            "target": self.target.name,
            **self.target.remembered(),
            "transform": self.transform,
            # The skew may change, and the delay may grow (`tidegate.checkpoints.checkpoint.check_compatible`).
            **({"watermark": True} if self.watermark is not None else {}),
            **({"state": self.state.remembered()} if self.state is not None else {}),
        }
