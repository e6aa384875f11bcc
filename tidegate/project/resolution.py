"""Resolves a pipeline's declaration before anything runs: who writes its sources, its suites, its transforms.

A graph without meaning is an error of the pipeline: a table with two writers, or a source that no flow writes; of a flow that a list
of tables has made it is the error of this flow. A suite or a transform that cannot be used is the error of its flow, so that flows that
do not depend on it run. No transform is imported and no suite is checked by Great Expectations: the files are only parsed, because DAG
files are read many times a minute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.errors import SpecError, TidegateError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.project import fingerprints, graph, registry, suite_file, transform_code
from tidegate.schema.ddl import parse_ddl
from tidegate.schema.names import AS_THEY_ARE, FieldNames
from tidegate.spec import Flow, Pipeline
from tidegate.spec.table import OtherTarget
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.spec import LandingSource


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
        return None if self.flow.state is None or self.writer is None else self.above(layout).heartbeats

    def above(self, layout: Layout) -> FlowPlace:
        """The flow of its pipeline that writes the source table, in the lake in which that table is read."""
        assert self.writer is not None
        return FlowPlace(layout.of_table(self.writer.target.name), self.pipeline.name, self.writer.name)

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

    @property
    def names(self) -> FieldNames:
        """The names of fields that are not those of columns, in the records that the flow parses."""
        return AS_THEY_ARE if self.landing is None else self.landing.names

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
        used = () if self.flow.state is None else transform_code.files(self.flow.transform)
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


def load_all(project: Path, get: registry.Loader = registry.load) -> dict[str, ResolvedPipeline | TidegateError]:
    """Every declared pipeline by name, or the error of its file or of its graph.

    Args:
        get: `registry.load`, or `registry.reload` in a process that runs on while files are edited.
    """
    declared = registry.declarations(get)
    flows = graph.FlowGraph.of(declared)
    resolved: dict[str, ResolvedPipeline | TidegateError] = {}
    for name, pipeline in declared.items():
        try:
            resolved[name] = (
                pipeline if isinstance(pipeline, TidegateError) else _resolve(pipeline, project, declared, flows)
            )
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
    pipeline = registry.completed(pipeline)
    declared = {**(registry.declarations() if declared is None else declared), pipeline.name: pipeline}
    return _resolve(pipeline, project, declared, graph.FlowGraph.of(declared))


def _resolve(
    pipeline: Pipeline, project: Path, declared: Mapping[str, Pipeline | TidegateError], flows: graph.FlowGraph
) -> ResolvedPipeline:
    graph.check_intervals(pipeline, flows)
    resolved = tuple(_resolve_flow(pipeline, flow, project, declared, flows) for flow in pipeline.flows)
    return ResolvedPipeline(pipeline=pipeline, flows=resolved, declared=declared)


def _fields(writer: Flow | None) -> tuple[str, ...] | None:
    """The declared fields of the records that the writer of a bronze table keeps; None for a table whose columns Spark alone knows."""
    source = None if writer is None else writer.landed_source
    return None if source is None else tuple(column.name for column in parse_ddl("schema", source.schema))


def _resolve_flow(
    pipeline: Pipeline,
    flow: Flow,
    project: Path,
    declared: Mapping[str, Pipeline | TidegateError],
    flows: graph.FlowGraph,
) -> ResolvedFlow:
    where = f"pipelines/{pipeline.name}.py, flow {flow.name!r}"
    suite = None if flow.gate is None else project / "expectations" / f"{flow.gate.suite}.json"
    code = None if flow.transform is None else transform_code.file_of(flow.transform)
    writers: list[Flow | None] = []
    try:
        graph.check_writers(pipeline, flow, flows)
        writers = [graph.writer_of(table, pipeline, flows, where) for table in flow.source_tables]
        error = None
    except SpecError as meaningless:
        if pipeline.declared_alone((flow,)):
            raise
        error = meaningless
    if error is None:
        try:
            _check(pipeline, flow, writers, flows, suite, code)
        except SpecError as cause:
            error = SpecError(f"{where}: {cause.problem}", cause.advice)
    return ResolvedFlow(
        pipeline=pipeline,
        flow=flow,
        writer=writers[0] if writers else None,
        readers=tuple(f"{each.name}/{reader.name}" for each, reader in flows.readers_of(flow.target.name, pipeline)),
        suite=suite,
        code=code,
        error=error,
        declared=declared,
    )


def _check(
    pipeline: Pipeline,
    flow: Flow,
    writers: Sequence[Flow | None],
    flows: graph.FlowGraph,
    suite: Path | None,
    code: Path | None,
) -> None:
    """Check a flow with what its declaration refers to."""
    graph.check_flow(pipeline, flow, writers, flows)
    if suite is not None and flow.gate is not None:
        suite_file.read_entries(suite, flow.gate.suite)
    if flow.is_sql:
        # Few flows need it, and its parser.
        from tidegate.project import statement_rules

        statement_rules.check(flow, code, _fields(writers[0]))
    elif flow.transform is not None:
        transform_code.check(flow.transform, code, [feed.name for feed in flow.sources])
        if flow.state is not None:
            # The rules for state are for flows that declare some.
            from tidegate.project import state_code

            state_code.check(flow.transform)
    if isinstance(flow.target, OtherTarget) and (write := flow.target.function) is not None:
        transform_code.check_exists(f"function of the sink {flow.target.name}", write, transform_code.file_of(write))
