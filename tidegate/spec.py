"""What a pipeline is: frozen declarations that a person edits, checked the moment they are made.

A declaration names things and never imports them: schemas are DDL strings, transforms are ``module:function`` in
``spark_jobs``, suites are files in ``expectations``. So a DAG file can load it without Spark, and a test resolves
every name. A wrong declaration fails at import with the field, its value and what is allowed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pendulum

from tidegate.contract import Contract as Contract
from tidegate.errors import FieldError, SpecError
from tidegate.fields import (
    Layer,
    check_name,
    check_once,
    check_positive,
    check_table,
    check_texts,
    fits,
)
from tidegate.sources import ChangeFeed as ChangeFeed
from tidegate.sources import FileFormat as FileFormat
from tidegate.sources import FileSource as FileSource
from tidegate.sources import KafkaSource as KafkaSource
from tidegate.sources import Source as Source
from tidegate.sources import ValueFormat as ValueFormat
from tidegate.thresholds import Thresholds as Thresholds

WriteMode = Literal["append", "upsert", "recompute"]

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TRANSFORM = re.compile(r"[a-z][a-z0-9_]*:[a-z][a-z0-9_]*")
_SUITE = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CRON = re.compile(r"\S+ \S+ \S+ \S+ \S+")
_PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")


@dataclass(frozen=True)
class Table:
    """A Delta table that one flow writes.

    ``keys`` and ``sequence_by`` say how: neither appends (bronze); both upsert, the last by sequence wins and deletes
    leave tombstones (silver); ``keys`` alone recompute the groups that the change feed names (gold).
    """

    name: str
    """``<layer>.<table>``, the layer one of bronze, silver, gold."""
    _: dataclasses.KW_ONLY
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    """Columns that order the changes of one key; ties are broken by the source's own coordinates."""
    event_time: str | None = None
    """The column (a date or a timestamp) that says when a row happened: what a window of a replay means."""

    def __post_init__(self) -> None:
        check_table(self, "name", self.name)
        for name in ("keys", "sequence_by"):
            value = getattr(self, name)
            if isinstance(value, str):
                value = (value,)
                object.__setattr__(self, name, value)
            if not isinstance(value, tuple) or not all(isinstance(c, str) and _COLUMN.fullmatch(c) for c in value):
                raise FieldError(
                    f"Table {self.name!r}", name, value, "a tuple of column names that begin with a letter"
                )
            if len(set(value)) != len(value):
                raise FieldError(f"Table {self.name!r}", name, value, "each column once")
        if self.sequence_by and not self.keys:
            raise FieldError(f"Table {self.name!r}", "sequence_by", self.sequence_by, "only together with keys")
        if self.event_time is not None and not fits(_COLUMN, self.event_time):
            raise FieldError(f"Table {self.name!r}", "event_time", self.event_time, "one column's name")

    @property
    def layer(self) -> Layer:
        """The part of the name before the dot."""
        layer, _, _ = self.name.partition(".")
        return layer  # type: ignore[return-value]  # check_table admits only the layers

    @property
    def write_mode(self) -> WriteMode:
        """How rows get into the table."""
        if not self.keys:
            return "append"
        return "upsert" if self.sequence_by else "recompute"


@dataclass(frozen=True)
class Gate:
    """The suite that judges every batch of a flow before it is written."""

    suite: str
    """``<pipeline>/<flow>``: the file ``expectations/<pipeline>/<flow>.json`` in Great Expectations' own format."""

    def __post_init__(self) -> None:
        if not fits(_SUITE, self.suite):
            raise FieldError("Gate", "suite", self.suite, "'<pipeline>/<flow>' in lower case, as in 'flights/silver'")


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One arrow of a pipeline: a source, how its rows change, a gate, a target and a checkpoint version."""

    name: str
    source: Source
    target: Table
    transform: str | None = None
    """``<module>:<function>`` in ``spark_jobs``. Takes and returns a DataFrame and carries ``_row_id`` along.
    A landing flow has none: bronze keeps the raw record."""
    gate: Gate | None = None
    checkpoint_version: int = 1
    """Raised by a person when the declaration changes in a way that the checkpoint cannot follow."""
    thresholds: Thresholds | None = None
    """When this flow is worth an alert; None takes the pipeline's."""

    def __post_init__(self) -> None:
        owner = f"Flow {self.name!r}"
        check_name(owner, "name", self.name)
        if not isinstance(self.source, Source):
            raise FieldError(owner, "source", self.source, "a FileSource, a KafkaSource or a ChangeFeed")
        if not isinstance(self.target, Table):
            raise FieldError(owner, "target", self.target, "a Table")
        if self.transform is not None and not fits(_TRANSFORM, self.transform):
            raise FieldError(
                owner, "transform", self.transform, "'<module>:<function>' in spark_jobs, as in 'flights:clean'"
            )
        if self.gate is not None and not isinstance(self.gate, Gate):
            raise FieldError(owner, "gate", self.gate, "a Gate or None")
        check_positive(self, "checkpoint_version", self.checkpoint_version, owner)
        if self.thresholds is not None:
            _check_thresholds(owner, self.thresholds)
            if self.thresholds.freshness_hours is not None and self.target.event_time is None:
                raise FieldError(
                    owner, "thresholds", self.thresholds, "freshness_hours only for a target with event_time"
                )
        if isinstance(self.source, ChangeFeed):
            if self.source.table == self.target.name:
                raise FieldError(owner, "target", self.target.name, "another table than the source")
            if self.target.write_mode == "append" and self.transform is None:
                raise FieldError(
                    owner, "transform", None, "a transform: without one this flow would only copy its source"
                )
            if self.target.write_mode == "recompute" and self.transform is None:
                raise FieldError(owner, "transform", None, "a transform that makes the groups")
        else:
            if self.transform is not None:
                raise FieldError(
                    owner, "transform", self.transform, "None for a landing flow: bronze keeps the raw record"
                )
            if self.target.write_mode != "append":
                raise FieldError(owner, "target", self.target.name, "a table without keys for a landing flow")
            if self.gate is not None:
                raise FieldError(owner, "gate", self.gate.suite, "None for a landing flow: judge in the flow behind it")

    def remembered(self) -> dict[str, Any]:
        """What the checkpoint of this flow remembers; a change here asks for a new ``checkpoint_version``."""
        return {
            "source": self.source.identity(),
            "target": self.target.name,
            "keys": list(self.target.keys),
            "sequence_by": list(self.target.sequence_by),
            "transform": self.transform,
        }


@dataclass(frozen=True, init=False)
class AfterTables:
    """A schedule: a run whenever another pipeline has written new rows to one of these tables.

    ``AfterTables("silver.flights", "silver.clicks")``. An increment without a new row starts nothing. What several
    increments wrote while a run went on is read by one run.
    """

    tables: tuple[str, ...]
    """Each as ``<layer>.<table>``."""

    def __init__(self, *tables: str) -> None:
        object.__setattr__(self, "tables", tables)
        if not tables:
            raise FieldError("AfterTables", "tables", tables, "one table or more, as in AfterTables('silver.flights')")
        for table in tables:
            check_table(self, "tables", table)
        check_once("AfterTables", "tables", list(tables), "tables")


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A named chain of flows with a schedule: what one DAG runs."""

    name: str
    """Also the DAG's id and the stem of its files in every folder."""
    flows: tuple[Flow, ...]
    schedule: str | AfterTables | None = None
    """A cron expression, ``@hourly``, ``@daily``, ``@weekly``, ``@monthly``, ``@yearly``, the tables of other pipelines
    that it follows (`AfterTables`), or None for manual runs only."""
    timezone: str = "UTC"
    start_date: str = "2026-01-01"
    """The first data interval begins at or after this date (``YYYY-MM-DD``)."""
    owner: str = "data-engineering"
    description: str = ""
    tags: tuple[str, ...] = ()
    retries: int = 3
    """How often Airflow runs the application again after a transient error."""
    thresholds: Thresholds = dataclasses.field(default_factory=Thresholds)
    """When a flow that has no thresholds of its own is worth an alert."""

    def __post_init__(self) -> None:
        owner = f"Pipeline {self.name!r}"
        check_name(owner, "name", self.name)
        if not isinstance(self.flows, tuple) or not self.flows or not all(isinstance(f, Flow) for f in self.flows):
            raise FieldError(owner, "flows", self.flows, "a tuple of one Flow or more")
        check_once(owner, "flows", [flow.name for flow in self.flows], "names")
        check_once(owner, "flows", [flow.target.name for flow in self.flows], "targets (one writer per table)")
        self._check_schedule(owner)
        if not isinstance(self.timezone, str):
            raise FieldError(owner, "timezone", self.timezone, "an IANA zone, as in 'Europe/Paris'")
        try:
            pendulum.timezone(self.timezone)
        except Exception:
            raise FieldError(owner, "timezone", self.timezone, "an IANA zone, as in 'Europe/Paris'") from None
        try:
            if not fits(_DATE, self.start_date):
                raise ValueError(self.start_date)
            pendulum.from_format(self.start_date, "YYYY-MM-DD")
        except ValueError:
            raise FieldError(owner, "start_date", self.start_date, "a date as YYYY-MM-DD") from None
        if not isinstance(self.retries, int) or isinstance(self.retries, bool) or not 0 <= self.retries <= 20:
            raise FieldError(owner, "retries", self.retries, "0 to 20")
        check_texts(owner, "tags", self.tags)
        _check_thresholds(owner, self.thresholds)
        if not isinstance(self.owner, str) or not self.owner.strip():
            raise FieldError(owner, "owner", self.owner, "a name")
        if not isinstance(self.description, str):
            raise FieldError(owner, "description", self.description, "a text")
        object.__setattr__(self, "flows", _in_graph_order(owner, self.flows))

    def _check_schedule(self, owner: str) -> None:
        if isinstance(self.schedule, AfterTables):
            if own := [table for table in self.schedule.tables if self.writer_of(table)]:
                raise FieldError(owner, "schedule", own[0], "tables of other pipelines: it would start itself")
        elif self.schedule is not None and self.schedule not in _PRESETS and not _is_cron(self.schedule):
            allowed = f"None, five cron fields, one of {', '.join(_PRESETS)}, or AfterTables(…)"
            raise FieldError(owner, "schedule", self.schedule, allowed)

    def flow(self, name: str) -> Flow:
        """The flow of that name.

        Raises:
            SpecError: There is none; the message lists those that exist.
        """
        for flow in self.flows:
            if flow.name == name:
                return flow
        raise SpecError(f"pipeline {self.name!r} has no flow {name!r}; it has: {', '.join(f.name for f in self.flows)}")

    def thresholds_of(self, flow: Flow) -> Thresholds:
        """When a flow is worth an alert: its own thresholds, or the pipeline's."""
        return self.thresholds if flow.thresholds is None else flow.thresholds

    def writer_of(self, table: str) -> Flow | None:
        """The flow of this pipeline that writes ``table``, if one does."""
        return next((flow for flow in self.flows if flow.target.name == table), None)

    def upstream_of(self, flow: Flow) -> Flow | None:
        """The flow of this pipeline that writes what ``flow`` reads, if one does."""
        return self.writer_of(flow.source.table) if isinstance(flow.source, ChangeFeed) else None

    def to_json(self) -> dict[str, Any]:
        """The whole declaration as plain values, with the kind of each source."""
        plain = dataclasses.asdict(self)
        for flow, told in zip(self.flows, plain["flows"], strict=True):
            told["source"] = {"kind": flow.source.identity()["kind"], **told["source"]}
        return plain


def fingerprint(remembered: Mapping[str, Any]) -> str:
    """A short, stable hash of plain values; the order of fields does not matter.

    SHA-256 over canonical JSON, 16 hex digits: enough that two declarations of one lake never meet by chance.
    """
    canonical = json.dumps(remembered, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _is_cron(value: object) -> bool:
    if not isinstance(value, str) or not fits(_CRON, value):
        return False
    from croniter import croniter

    return bool(croniter.is_valid(value))


def _check_thresholds(owner: str, value: object) -> None:
    if not isinstance(value, Thresholds):
        raise FieldError(owner, "thresholds", value, "Thresholds(…)")


def _in_graph_order(owner: str, flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    by_target = {flow.target.name: flow for flow in flows}
    ordered: list[Flow] = []
    visiting: list[str] = []

    def visit(flow: Flow) -> None:
        if flow in ordered:
            return
        if flow.name in visiting:
            raise FieldError(owner, "flows", " -> ".join([*visiting, flow.name]), "flows that do not feed themselves")
        visiting.append(flow.name)
        upstream = by_target.get(flow.source.table) if isinstance(flow.source, ChangeFeed) else None
        if upstream is not None:
            visit(upstream)
        visiting.pop()
        ordered.append(flow)

    for flow in flows:
        visit(flow)
    return tuple(ordered)
