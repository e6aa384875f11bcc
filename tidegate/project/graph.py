"""Checks that the flows of a project fit each other: who writes their sources, and what these must have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.advice import Edit, Either
from tidegate.errors import SpecError, TidegateError
from tidegate.schema.changes import normal
from tidegate.schema.ddl import parse_ddl
from tidegate.spec import AfterTables, FileSource, Flow, Pipeline
from tidegate.spec.table import no_text_order

_NO_WRITER = "no declared flow writes its source table {!r}"
_WRITER = Either(Edit("correct the source", "declaration"), Edit("declare the flow that writes it", "declaration"))


@dataclass(frozen=True)
class FlowGraph:
    """The flows of all pipelines of a project by what they write and read, so that a flow finds its neighbours without a search."""

    unloadable: Sequence[str]
    """Files of pipelines that do not load, and entries of lists that are not valid."""
    _writers: Mapping[str, Sequence[tuple[Pipeline, Flow]]] = field(repr=False)
    _readers: Mapping[str, Sequence[tuple[Pipeline, Flow]]] = field(repr=False)
    _landings: Mapping[tuple[str, str], Sequence[tuple[Pipeline, Flow]]] = field(repr=False)
    """By landing folder and glob."""

    @classmethod
    def of(cls, declared: Mapping[str, Pipeline | TidegateError]) -> FlowGraph:
        """That of a project.

        Args:
            declared: Every pipeline by name, or the error of its file.
        """
        writers, readers, landings = (defaultdict[Any, list[tuple[Pipeline, Flow]]](list) for _ in range(3))
        for pipeline in (each for each in declared.values() if isinstance(each, Pipeline)):
            for flow in pipeline.flows:
                writers[flow.target.name].append((pipeline, flow))
                for table in dict.fromkeys(flow.read_tables):
                    readers[table].append((pipeline, flow))
                if isinstance(flow.source, FileSource):
                    landings[flow.source.path, flow.source.glob].append((pipeline, flow))
        unloadable = [f"pipelines/{name}.py" for name, each in declared.items() if not isinstance(each, Pipeline)]
        for pipeline in (each for each in declared.values() if isinstance(each, Pipeline)):
            unloadable += [each.where for each in pipeline.invalid_tables]
        return cls(unloadable, writers, readers, landings)

    def writers_of(self, table: str, pipeline: Pipeline) -> list[tuple[Pipeline, Flow]]:
        """The flows that write a table, those of one pipeline first."""
        return _own_first(self._writers.get(table, ()), pipeline)

    def readers_of(self, table: str, pipeline: Pipeline) -> list[tuple[Pipeline, Flow]]:
        """The flows that read a table, those of one pipeline first."""
        return _own_first(self._readers.get(table, ()), pipeline)

    def same_landing(self, source: FileSource) -> Sequence[tuple[Pipeline, Flow]]:
        """The flows that read the same landed files."""
        return self._landings.get((source.path, source.glob), ())


def _own_first(flows: Sequence[tuple[Pipeline, Flow]], pipeline: Pipeline) -> list[tuple[Pipeline, Flow]]:
    """Those of one pipeline first; of the others those of lists last."""
    return sorted(flows, key=lambda each: (each[0] is not pipeline, each[1].name in each[0].listed))


def check_writers(pipeline: Pipeline, flow: Flow, flows: FlowGraph) -> None:
    """Check that no other pipeline writes the table of a flow. A flow of a list gives way to one that is declared by itself."""
    for other, second in flows.writers_of(flow.target.name, pipeline):
        gives_way = second.name in other.listed and flow.name not in pipeline.listed
        if other is not pipeline and not gives_way:
            raise SpecError(
                f"pipelines/{pipeline.name}.py, flow {flow.name!r}: flow {second.name!r} in pipelines/{other.name}.py writes "
                f"{flow.target.name!r} too",
                Edit("a table has one writer: give one of the two flows another target", "declaration"),
            )


def check_intervals(pipeline: Pipeline, flows: FlowGraph) -> None:
    """Check that the tables whose intervals a pipeline waits for have intervals; otherwise it would never run."""
    if not isinstance(pipeline.schedule, AfterTables) or not pipeline.schedule.intervals:
        return
    for table in pipeline.schedule.tables:
        for _, writer in flows.writers_of(table, pipeline):
            if writer.intervals is None:
                raise SpecError(
                    f"pipelines/{pipeline.name}.py: its schedule waits for intervals of {table!r}, but flow "
                    f"{writer.name!r}, which writes it, declares none",
                    Edit(
                        "declare FileSource(…, intervals=Intervals(…)) or KafkaSource(…, intervals=TopicIntervals(…)), "
                        "or wait for its rows",
                        "declaration",
                    ),
                )


def writer_of(table: str, pipeline: Pipeline, flows: FlowGraph, where: str) -> Flow | None:
    """The flow that writes a source table; None if one that does not load may write it.

    Args:
        table: The table.
        pipeline: The one that reads it.
        flows: All flows.
        where: The file and the name of the flow that reads it.
    """
    writer = next((flow for _, flow in flows.writers_of(table, pipeline)), None)
    if writer is None and not flows.unloadable:
        raise SpecError(f"{where}: {_NO_WRITER.format(table)}", _WRITER)
    ordered = writer is not None and (writer.watermark is not None or writer.state is not None)
    if writer is not None and writer.feeds and not writer.target.keys and not ordered:
        raise SpecError(
            f"{where}: its source {table!r} is neither a bronze table nor keyed", Edit("give it keys", "declaration")
        )
    return writer


def check_flow(
    pipeline: Pipeline,
    flow: Flow,
    writers: Sequence[Flow | None],
    flows: FlowGraph,
) -> None:
    """Check a flow against the flows that write its sources, and those that read the same landed files.

    Args:
        writers: Of its source tables; None for one that a pipeline may write that does not load.
        flows: All flows.

    Raises:
        SpecError: They do not fit each other.
    """
    for table, each in zip(flow.source_tables, writers, strict=True):
        if each is None:
            raise SpecError(
                _NO_WRITER.format(table),
                Either(*_WRITER.ways, Edit(f"correct {', '.join(flows.unloadable)}", "declaration")),
            )
    writer = writers[0] if writers else None
    _check_landing(flow, flows)
    _check_keyed(flow, writers)
    _check_scope(flow, writer)
    _check_order(flow, writer)
    _check_watermark(pipeline, flow, writer)
    if writer is not None:
        flow.kind.check_writer(flow, writer, in_pipeline=pipeline.writer_of(writer.target.name) is not None)
    _check_snapshots(pipeline, flow, writer, flows)


def _check_landing(flow: Flow, flows: FlowGraph) -> None:
    """Check that all flows which read the same landed files say alike which interval a file is part of, and when it is complete."""
    source = flow.source
    if not isinstance(source, FileSource) or source.intervals is None:
        return
    for place, other in flows.same_landing(source):
        declared = other.intervals
        if declared is not None and declared != source.intervals:
            raise SpecError(
                f"its landing folder {source.path!r} ({source.glob}) has {source.intervals} here and {declared} in flow {other.name!r} in "
                f"pipelines/{place.name}.py, so that a file would count in two intervals",
                Either(
                    Edit("declare the same intervals in both places", "declaration"),
                    Edit("declare globs that tell their files apart", "declaration"),
                ),
            )


def _check_keyed(flow: Flow, writers: Sequence[Flow | None]) -> None:
    """Check that no one of several sources is a bronze table, whose records are not parsed."""
    if flow.sources and (raw := [each.target.name for each in writers if each is not None and not each.target.keys]):
        raise SpecError(
            f"its source {raw[0]!r} has no keys: its records are not parsed yet.",
            Edit("read the table of the flow that parses it; of several sources each has keys", "declaration"),
        )


def _check_scope(flow: Flow, writer: Flow | None) -> None:
    """Check that one row of the source can make all rows of a scope, and that the source of a history has every record."""
    target = flow.target
    if writer is not None and target.history and writer.target.keys:
        raise SpecError(
            f"table {target.name!r} has history={target.history!r}, but its source {writer.target.name!r} has "
            "only the newest row of a key, so that a full refresh would lose the versions",
            Edit(writer.kind.instead_for_history, "declaration"),
        )
    parts = [] if writer is None else [key for key in writer.target.keys if key in target.child_keys]
    if writer is not None and target.replace_by and target.sequence_by and parts:
        raise SpecError(
            f"table {target.name!r} has replace_by={target.replace_by}, but its source {writer.target.name!r} "
            f"has one row per {', '.join(parts)}: each row would replace the others of its scope.",
            Either(
                Edit("read a table whose rows make whole scopes", "declaration"),
                Edit("remove replace_by", "declaration"),
            ),
        )


def _check_order(flow: Flow, writer: Flow | None) -> None:
    """Check that no text is in the order unless the table declares how it compares; with a transform the job checks what it returns."""
    source = None if writer is None or flow.transform is not None else writer.landed_source
    if source is None:
        return
    texts = {column.name for column in parse_ddl("schema", source.schema) if column.is_text}
    for name in flow.target.sequence_by:
        if name in texts and name not in flow.target.text_order:
            problem, advice = no_text_order(name)
            raise SpecError(f"table {flow.target.name!r}: {problem}", advice)


def _check_watermark(pipeline: Pipeline, flow: Flow, writer: Flow | None) -> None:
    """Check that a flow with a watermark reads the batches of bronze, by which the watermark moves."""
    if flow.watermark is None or writer is None:
        return
    if writer.feeds or pipeline.writer_of(writer.target.name) is None:
        raise SpecError(
            f"it declares a watermark, but its source {writer.target.name!r} is no bronze table of pipeline "
            f"{pipeline.name!r}: a row is late by the batches of bronze before its own.",
            Edit("declare the watermark on the flow that parses the bronze table", "declaration"),
        )


def _check_snapshots(pipeline: Pipeline, flow: Flow, writer: Flow | None, flows: FlowGraph) -> None:
    """Check that the snapshots beside changes are complete ones of the same table, with the same types."""
    if flow.snapshots is None:
        return
    table, changes = flow.snapshots.table, None if writer is None else writer.landed_source
    of_snapshots = next((each for _, each in flows.writers_of(table, pipeline)), None)
    if of_snapshots is None:
        raise SpecError(f"no declared flow writes {table!r}, the table of its snapshots", _WRITER)
    flow.of_snapshots.kind.check_writer(
        flow.of_snapshots, of_snapshots, in_pipeline=pipeline.writer_of(table) is not None
    )
    rows = of_snapshots.landed_source
    if changes is None or rows is None:
        raise SpecError(
            f"it has snapshots, but its source {flow.source_tables[0]!r} is no bronze table, which has every change",
            Edit("read the bronze table of the changes", "declaration"),
        )
    declared = {column.name: normal(column.type) for column in parse_ddl("schema", changes.schema)}
    for column in parse_ddl("schema", rows.schema):
        kind = declared.get(column.name, normal(column.type))
        if kind != normal(column.type):
            raise SpecError(
                f"column {column.name!r} is {kind} in its changes ({flow.source_tables[0]}), and {normal(column.type)} in its snapshots "
                f"({table})",
                Edit("declare the same type in both schemas", "declaration"),
            )
    lacking = [
        key for key in flow.target.keys if key not in {column.name for column in parse_ddl("schema", rows.schema)}
    ]
    if lacking and flow.transform is None:
        raise SpecError(
            f"its snapshots ({table}) have no column {', '.join(map(repr, lacking))}, which is a key of {flow.target.name!r}",
            Edit(f"declare it in the schema of flow {of_snapshots.name!r}", "declaration"),
        )
