"""Transforms and gates on a few rows: the steps of a micro-batch up to its first write, without a lake."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.environment import Environment
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, Place
from tidegate.project import resolution
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.spark.batch import dispositions, groups, rows, time_windows, transform_output
from tidegate.spark.batch.split import Decision
from tidegate.spark.batch.work import Stream
from tidegate.spark.functions import transform_of
from tidegate.spark.job import Job, Run, load_kind
from tidegate.spec import Pipeline
from tidegate.testing import records
from tidegate.testing.records import LANDED_AT, Record
from tidegate.testing.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.spark.gate import SuiteGate

_INTERNAL = (hidden.ORIGIN, hidden.BROKEN)
_CHANGES = {hidden.CHANGE_TYPE: "string", hidden.COMMIT_VERSION: "bigint", hidden.COMMIT_TIMESTAMP: "timestamp"}


@dataclass(frozen=True)
class Judged:
    """What becomes of a row that the transform returns, in a batch of an empty table."""

    disposition: str
    """``written``, ``quarantined``, ``filtered`` or ``deduplicated``: another row of the batch has the same key and is newer."""
    rules: tuple[str, ...]
    """The rules that it breaks if it is quarantined, or that filtered it."""
    row: Mapping[str, Any]
    """Its columns, as from `transform_rows`."""


def transform_rows(pipeline: str, flow: str, *given: Record, **tables: Sequence[Record]) -> list[dict[str, Any]]:
    """The rows that the transform of a flow makes of a few rows of its sources.

    ``transform_rows("flights", "silver", {"carrier": "UA", …}, …)``. For a flow that parses records, they are written as the
    landing source declares, and parsed by the platform: a value that does not fit is None. For a flow that reads a table of silver
    or gold, they have the columns that the transform of that table returns, and Python's values; a missing column is None.

    Args:
        pipeline: The pipeline's name.
        flow: The flow's name.
        given: Rows of the source, or of the first of several.
        tables: Rows of the other sources, by table without its layer: ``weather=[…]``.

    Returns:
        The columns of each row; times are in UTC. For a row flow they are in the order of ``_row_id``, ``r0``, ``r1``, …, and have
        ``_filtered``, ``_deleted`` and, after a value that did not fit, ``_rescued``.

    Raises:
        RequestError: There is no such pipeline or flow, it has no transform, or ``tables`` are not its other sources.
        SpecError: The transform does not return what it must.
    """
    with _job(pipeline, flow) as job:
        return _plain(_output(job, given, tables))


def judge_rows(pipeline: str, flow: str, *given: Record) -> list[Judged]:
    """What becomes of a few rows in a row flow: its transform, its gate, and the order of rows with the same key.

    Args:
        pipeline: The pipeline's name.
        flow: The flow's name.
        given: Rows of its source, as for `transform_rows`.

    Returns:
        Each row that the transform returns, in the order of ``_row_id``.

    Raises:
        GateRefusedError: A critical expectation refuses the batch.
        BatchHeldError: A statistic of the batch breaks its rule.
        RequestError: The flow computes groups: run it in a `tidegate.testing.Lake`.
        TidegateError: As `transform_rows`.
    """
    with _job(pipeline, flow, gated=True) as job:
        if not job.flow.kind.quarantines:
            what = "keeps state" if job.flow.kind.stateful else "computes groups"
            raise RequestError(
                f"flow {flow!r} of {pipeline!r} {what}", Edit("run it in a tidegate.testing.Lake", "request")
            )
        judged = rows.judge_rows(job, _feed(job, given), 0, Decision(quarantined=False, written=False))
        return (
            []
            if judged is None
            else [_judged(row) for row in _plain(judged.assigned.where(f"{hidden.DISPOSITION} IS NOT NULL"))]
        )


def _judged(row: Mapping[str, Any]) -> Judged:
    disposition = dispositions.NAMES[row[hidden.DISPOSITION]]
    rules = {"quarantined": row[hidden.ERRORS], "filtered": [row[hidden.FILTERED]]}.get(disposition, [])
    return Judged(disposition, tuple(rules), {name: row[name] for name in row if name not in _OF_JUDGEMENT})


_OF_JUDGEMENT = (hidden.DISPOSITION, hidden.ERRORS, hidden.ORDER, hidden.LATE, hidden.WATERMARK)


@contextmanager
def _job(pipeline: str, flow: str, *, gated: bool = False) -> Iterator[Job]:
    """The flow in an empty lake, which is removed afterwards."""
    environment = Environment.read()
    resolved = resolution.load(pipeline, environment.project).flow(flow)
    if resolved.error is not None:
        raise resolved.error
    if not resolved.flow.feeds:
        raise RequestError(
            f"flow {flow!r} of {pipeline!r} lands records as they are",
            Edit("it has no transform and no gate to test: name another flow", "request"),
        )
    if resolved.writer is not None and resolved.landing is not None:
        writer = dataclasses.replace(resolved.writer, source=records.readable(resolved.landing))
        resolved = dataclasses.replace(resolved, writer=writer)
    with tempfile.TemporaryDirectory(prefix="tidegate-testing-") as folder:
        layout = Layout.local(Path(folder), environment.landing)
        report = FlowReport(flow=flow, target=resolved.flow.target.name, checkpoint_version=1, refresh=0)
        # A dry run records neither verdicts nor schema changes.
        request = RunRequest(dag_id=pipeline, run_id=fresh_id("test"), requested_by="a test", dry_run=True)
        job = Job(
            run=Run(
                request=request,
                place=AttemptPlace(layout, pipeline, request.run_key, fresh_id("a")),
                report=report,
                publish=_nothing,
            ),
            resolved=resolved,
            kind=load_kind(resolved.flow),
            place=Place(layout, pipeline, flow, resolved.flow.checkpoint_version, 0),
            work=Stream(),
            transform=transform_of(resolved.flow),
            gate=_gate(resolved, layout) if gated else None,
            spark=session(),
            clusters=Environment.read().cluster,
        )
        try:
            yield job
        finally:
            job.release()


def _nothing() -> None:
    """No report is published."""


def _gate(resolved: resolution.ResolvedFlow, layout: Layout) -> SuiteGate | None:
    if resolved.flow.gate is None or resolved.suite is None:
        return None
    from tidegate.spark.gate import LakeContext, SuiteGate, load_suite

    suite = load_suite(resolved.suite, resolved.flow.gate.suite)
    return SuiteGate(suite, resolved.code_fingerprint(), LakeContext(layout))


def _output(job: Job, given: Sequence[Record], tables: Mapping[str, Sequence[Record]]) -> DataFrame:
    feeds = job.flow.feeds
    if expected := {feed.name for feed in feeds[1:]} ^ tables.keys():
        raise RequestError(
            f"flow {job.flow.name!r} of {job.place.pipeline!r} has the other sources "
            f"{[feed.name for feed in feeds[1:]]}, but the rows are for {list(tables)}",
            Edit(f"give rows for the former and no others: {', '.join(sorted(expected))}", "request"),
        )
    if not job.flow.kind.has_groups:
        return transform_output.transform_records(job, _feed(job, given))
    first, *others = (
        _frame(each, _schema(job, feed.table))
        for feed, each in zip(feeds, (given, *(tables[feed.name] for feed in feeds[1:])), strict=True)
    )
    return groups.derive(job, [time_windows.with_windows(job, first), *others])


def _feed(job: Job, given: Sequence[Record]) -> DataFrame:
    """The rows as changes of the source."""
    landing = job.resolved.landing
    if landing is not None:
        return records.feed(job.spark, landing, given)
    schema = _schema(job, job.flow.source_tables[0])
    for name, kind_of_column in _CHANGES.items():
        schema = schema.add(name, kind_of_column)
    change = {hidden.CHANGE_TYPE: "insert", hidden.COMMIT_VERSION: 1, hidden.COMMIT_TIMESTAMP: LANDED_AT}
    return _frame([{**change, **record} for record in given], schema)


def _frame(given: Sequence[Record], schema: StructType) -> DataFrame:
    if unknown := {name for record in given for name in record} - set(schema.names):
        raise RequestError(
            f"the source has no column {', '.join(sorted(unknown))}",
            Edit(f"it has {', '.join(schema.names)}", "request"),
        )
    return session().createDataFrame(
        [tuple(_utc(record.get(name)) for name in schema.names) for record in given], schema
    )


def _utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _schema(job: Job, table: str) -> StructType:
    """The columns of a source table, without those of the platform: what the transform of its flow returns."""
    declared = [each for each in job.resolved.declared.values() if isinstance(each, Pipeline)]
    ((pipeline, writer),) = ((each, flow) for each in declared for flow in each.flows if flow.target.name == table)
    with _job(pipeline.name, writer.name) as of_writer:
        output = _output(of_writer, [], {feed.name: [] for feed in writer.feeds[1:]})
        names = [name for name in output.columns if not name.startswith("_") or name == hidden.RESCUED]
        if writer.target.history:
            time = output[writer.target.sequence_by[0]]
            output = output.withColumns({"valid_from": time, "valid_to": time})
            names += ["valid_from", "valid_to"]
        schema = output.select(*names).schema
        for column in schema.fields:
            column.nullable = True
        return schema


def _plain(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows as Python's values, without the columns that no user sees, sorted by id: ``r10`` after ``r9``."""
    plain: list[dict[str, Any]] = frame.drop(*_INTERNAL).toArrow().to_pylist(maps_as_pydicts="strict")
    return sorted(plain, key=lambda row: (len(row.get(hidden.ROW_ID, "")), row.get(hidden.ROW_ID, "")))
