"""Resolves a pipeline's declaration before anything runs: who writes its sources, its suites, its transforms.

A graph without meaning is an error of the pipeline: a table with two writers, or a source that no flow writes. A suite or a
transform that cannot be used is the error of its flow, so that flows that do not depend on it run. No transform is imported
and no suite is checked by Great Expectations: the files are only parsed, because DAG files are read many times a minute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegate import hidden
from tidegate.advice import Edit, Either
from tidegate.errors import SpecError, TidegateError
from tidegate.expectations import suite_file
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.project import fingerprints, registry, state_code, transform_code
from tidegate.schema.ddl import parse_ddl
from tidegate.spec import AfterTables, FileSource, Flow, FunctionSink, LandingSource, Pipeline
from tidegate.spec.table import no_text_order
from tidegate.store import Address


@dataclass(frozen=True, kw_only=True)
class ResolvedFlow:
    """A flow with what its declaration refers to."""

    pipeline: Pipeline
    flow: Flow
    writer: Flow | None
    """The flow, of any pipeline, that writes the source table, or the first of several; None for a landing flow."""
    readers: tuple[str, ...]
    """The flows of all pipelines that read its table, as ``<pipeline>/<flow>``; those of its own pipeline come first."""
    suite: Path | None
    """The file of the suite; None without a gate."""
    code: Path | None
    """The file of the transform; None without one."""
    error: SpecError | None
    """Why the flow cannot run."""
    declared: Mapping[str, Pipeline | TidegateError] = field(repr=False, compare=False)
    """Every pipeline of the project by name, or the error of its file."""

    def place(self, layout: Layout) -> FlowPlace:
        """The flow in a lake."""
        return FlowPlace(layout, self.pipeline.name, self.flow.name)

    def heartbeats(self, layout: Layout) -> Address | None:
        """The heartbeats of the flow that writes the source of a stateful flow; None for other flows."""
        if self.flow.state is None or self.writer is None:
            return None
        return FlowPlace(layout, self.pipeline.name, self.writer.name).heartbeats

    @property
    def source_keys(self) -> tuple[str, ...]:
        """What identifies a row of the source table; empty for bronze and for landing flows.

        Its keys, or ``_row_id`` of a table without keys to which a flow appends rows that it derives.
        """
        if self.writer is None:
            return ()
        derived = self.writer.feeds and not self.writer.target.keys
        return (hidden.ROW_ID,) if derived else self.writer.target.keys

    @property
    def landing(self) -> LandingSource | None:
        """The source of the bronze table whose records the flow parses; None for other flows."""
        return None if self.writer is None or self.source_keys else self.writer.landed_source

    def statistics_fingerprint(self) -> str:
        """The fingerprint of the declared statistics."""
        return fingerprints.fingerprint({each.name: dataclasses.asdict(each) for each in self.flow.statistics})

    def code_fingerprint(self) -> str:
        """The fingerprint of the transform's module, with state also of those that it uses; empty without a transform.

        Raises:
            OSError: The file cannot be read.
        """
        if self.code is None or self.flow.transform is None:
            return ""
        used = () if self.flow.state is None else state_code.files(self.flow.transform)
        return fingerprints.code_fingerprint(self.code, *(path for path in used if path != self.code))


@dataclass(frozen=True, kw_only=True)
class ResolvedPipeline:
    """A pipeline whose graph has a meaning, with its resolved flows."""

    pipeline: Pipeline
    flows: tuple[ResolvedFlow, ...]
    """In graph order."""
    declared: Mapping[str, Pipeline | TidegateError]
    """Every pipeline of the project by name, or the error of its file."""

    def place(self, layout: Layout) -> PipelinePlace:
        """The pipeline in a lake."""
        return PipelinePlace(layout, self.pipeline.name)

    def flow(self, name: str) -> ResolvedFlow:
        """The flow of that name.

        Raises:
            SpecError: There is none.
        """
        return self.flows[self.pipeline.flows.index(self.pipeline.flow(name))]

    def check_runnable(self, flows: Collection[Flow]) -> None:
        """Check that at least one of these flows does not fail and is not behind one that fails.

        Raises:
            SpecError: The error of the first flow that fails.
        """
        stopped: dict[str, SpecError] = {}
        for each in self.flows:
            if each.flow not in flows:
                continue
            above = [stopped[flow.name] for flow in self.pipeline.upstream_of(each.flow) if flow.name in stopped]
            error = each.error or (above[0] if above else None)
            if error is None:
                return
            stopped[each.flow.name] = error
        for error in stopped.values():
            raise error


def load(name: str, project: Path) -> ResolvedPipeline:
    """The pipeline of that name.

    Raises:
        RequestError: There is no such pipeline; the message lists those that exist.
        SpecError: Its file does not load, or its graph has no meaning.
    """
    return resolve(registry.load(name), project)


def load_all(
    project: Path, get: Callable[[str], Pipeline] = registry.load
) -> dict[str, ResolvedPipeline | TidegateError]:
    """Every declared pipeline by name, or the error of its file or of its graph.

    Args:
        get: `registry.load`, or `registry.reload` in a process that runs on while files are edited.
    """
    declared = registry.declarations(get)
    resolved: dict[str, ResolvedPipeline | TidegateError] = {}
    for name, pipeline in declared.items():
        try:
            resolved[name] = pipeline if isinstance(pipeline, TidegateError) else resolve(pipeline, project, declared)
        except TidegateError as error:
            resolved[name] = error
    return resolved


def resolve(
    pipeline: Pipeline, project: Path, declared: Mapping[str, Pipeline | TidegateError] | None = None
) -> ResolvedPipeline:
    """Resolve a declaration.

    Args:
        pipeline: The declaration.
        project: The project's folder, with ``expectations/``.
        declared: Every pipeline of the project, as `registry.declarations` returns them; by default they are loaded.

    Raises:
        SpecError: A table has two writers, no flow writes a source, or a source is neither a bronze table nor keyed.
    """
    declared = {**(registry.declarations() if declared is None else declared), pipeline.name: pipeline}
    _check_intervals(pipeline, declared)
    flows = tuple(_resolve_flow(pipeline, flow, project, declared) for flow in pipeline.flows)
    return ResolvedPipeline(pipeline=pipeline, flows=flows, declared=declared)


def _resolve_flow(
    pipeline: Pipeline, flow: Flow, project: Path, declared: Mapping[str, Pipeline | TidegateError]
) -> ResolvedFlow:
    where = f"pipelines/{pipeline.name}.py, flow {flow.name!r}"
    others = [each for each in declared.values() if isinstance(each, Pipeline) and each is not pipeline]
    for other in others:
        if (second := other.writer_of(flow.target.name)) is not None:
            raise SpecError(
                f"{where}: flow {second.name!r} in pipelines/{other.name}.py writes {flow.target.name!r} too",
                Edit("a table has one writer: give one of the two flows another target", "declaration"),
            )
    suite = None if flow.gate is None else project / "expectations" / f"{flow.gate.suite}.json"
    code = None if flow.transform is None else transform_code.file_of(flow.transform)
    error = None
    unloadable = [f"pipelines/{name}.py" for name, each in declared.items() if not isinstance(each, Pipeline)]
    writers = [_writer(table, (pipeline, *others), where, certain=not unloadable) for table in flow.source_tables]
    writer = writers[0] if writers else None
    try:
        for table, each in zip(flow.source_tables, writers, strict=True):
            if each is None:
                raise SpecError(
                    _NO_WRITER.format(table),
                    Either(*_WRITER.ways, Edit(f"correct {', '.join(unloadable)}", "declaration")),
                )
        _check_landing(pipeline, flow, others)
        _check_keyed(flow, writers)
        _check_scope(flow, writer)
        _check_order(flow, writer)
        _check_watermark(pipeline, flow, writer)
        if writer is not None:
            flow.kind.check_writer(flow, writer, in_pipeline=pipeline.writer_of(writer.target.name) is not None)
        if suite is not None and flow.gate is not None:
            suite_file.read_entries(suite, flow.gate.suite)
        if flow.transform is not None:
            transform_code.check(flow.transform, code, [feed.name for feed in flow.sources])
            if flow.state is not None:
                state_code.check(flow.transform)
        if isinstance(flow.target, FunctionSink):
            write = flow.target.write
            transform_code.check_exists(
                f"function of the sink {flow.target.name}", write, transform_code.file_of(write)
            )
    except SpecError as cause:
        error = SpecError(f"{where}: {cause.problem}", cause.advice)
    return ResolvedFlow(
        pipeline=pipeline,
        flow=flow,
        writer=writer,
        readers=tuple(
            f"{each.name}/{reader.name}"
            for each in (pipeline, *others)
            for reader in each.flows
            if flow.target.name in reader.source_tables
        ),
        suite=suite,
        code=code,
        error=error,
        declared=declared,
    )


def _check_intervals(pipeline: Pipeline, declared: Mapping[str, Pipeline | TidegateError]) -> None:
    """Check that the tables whose intervals a pipeline waits for have intervals; otherwise it would never run."""
    if not isinstance(pipeline.schedule, AfterTables) or not pipeline.schedule.intervals:
        return
    for table in pipeline.schedule.tables:
        writers = [each.writer_of(table) for each in declared.values() if isinstance(each, Pipeline)]
        for writer in filter(None, writers):
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


def _writer(table: str, pipelines: Sequence[Pipeline], where: str, *, certain: bool) -> Flow | None:
    """The flow that writes a source table.

    Args:
        pipelines: Those that load.
        where: The flow's file and name.
        certain: Whether every pipeline loads; if not, one that does not load may write the table.
    """
    writer = next((each for pipeline in pipelines if (each := pipeline.writer_of(table)) is not None), None)
    if writer is None and certain:
        raise SpecError(f"{where}: {_NO_WRITER.format(table)}", _WRITER)
    ordered = writer is not None and (writer.watermark is not None or writer.state is not None)
    if writer is not None and writer.feeds and not writer.target.keys and not ordered:
        raise SpecError(
            f"{where}: its source {table!r} is neither a bronze table nor keyed",
            Edit("give it keys", "declaration"),
        )
    return writer


def _check_landing(pipeline: Pipeline, flow: Flow, others: Sequence[Pipeline]) -> None:
    """Check that all flows which read the same landed files say alike which interval a file is part of, and when it is complete."""
    source = flow.source
    if not isinstance(source, FileSource) or source.intervals is None:
        return
    for place, other in ((each, flow) for each in (pipeline, *others) for flow in each.flows):
        same = isinstance(other.source, FileSource) and (other.source.path, other.source.glob) == (
            source.path,
            source.glob,
        )
        declared = other.intervals
        if same and declared is not None and declared != source.intervals:
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
            Edit(writer.kind.has_versions_of, "declaration"),
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


_NO_WRITER = "no declared flow writes its source table {!r}"
_WRITER = Either(Edit("correct the source", "declaration"), Edit("declare the flow that writes it", "declaration"))
