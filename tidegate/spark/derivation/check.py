"""Compares the plan of a transform with what the flow declares, before the first batch of each code and declaration.

A row of a flow of rows is made of its own source row. Where it may depend on others of its batch, that is a doubt and no refusal:
a rank that only marks duplicates within a batch leaves a keyed table as it would be.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.checkpoints import derivation
from tidegate.checkpoints.derivation import Finding
from tidegate.formatting import count
from tidegate.spark.derivation import plan_tree
from tidegate.spark.derivation.operators import Analysis
from tidegate.spark.derivation.relation import Source
from tidegate.spark.derivation.scopes import UndeclaredError
from tidegate.spec import Flow, Pipeline, Table
from tidegate.spec.table import WINDOW_START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.lake.layout import Layout
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.spark.job import Run

Derive = Callable[[Sequence["DataFrame"]], "DataFrame"]
"""Makes the output of the transform of rows of its sources."""


def derive_checked(
    layout: Layout,
    resolved: ResolvedFlow,
    run: Run,
    function: Callable[..., DataFrame] | None,
    rows: Sequence[DataFrame],
    derive: Derive,
) -> DataFrame:
    """The output of the transform, which is checked if its present code and declaration are not yet; what is found is recorded.

    Args:
        function: The transform, as its module has it.
        rows: Rows of each source, the first source first.

    Raises:
        UndeclaredDependenceError: It depends on more than the declaration names.
    """
    fingerprint = derivation.fingerprint_of(resolved)
    earlier = derivation.recorded(layout, resolved) if fingerprint else None
    if earlier is not None and not earlier.problem:
        return derive(rows)
    output, finding = check(resolved, function, rows, derive)
    if fingerprint and not run.request.dry_run:
        derivation.record(layout, resolved, dataclasses.replace(finding, fingerprint=fingerprint))
    if finding.doubts:
        run.report.notes.append(finding.summary())
    if (error := finding.error(resolved.flow.checkpoint_version)) is not None:
        raise error
    return output


def check(
    resolved: ResolvedFlow, function: Callable[..., DataFrame] | None, rows: Sequence[DataFrame], derive: Derive
) -> tuple[DataFrame, Finding]:
    """The output of the transform, and whether it makes each group only of rows whose changes name it."""
    sources, jobs = sources_of(resolved), _jobs(rows[0].sparkSession)
    output = derive([plan_tree.mark(each, number) for number, each in enumerate(rows)])
    analysis = Analysis(sources)
    doubts: tuple[str, ...] = ()
    if started := _jobs(rows[0].sparkSession) - jobs:
        # What it learns in the driver is in its plan as a constant.
        doubts = (f"runs {count(started, 'Spark job')} itself, as collect() and a pivot without values do",)
    try:
        analysis.check(plan_tree.read(output), sources[0].scope)
    except UndeclaredError as undeclared:
        if not resolved.flow.kind.has_groups:
            other = f"{undeclared.text}, so that a row depends on which others are in its batch"
            return output, Finding(doubts=(*doubts, *analysis.doubts, other))
        source = sources[undeclared.source]
        return output, Finding(
            problem=_problem(resolved.flow, function, sources, undeclared),
            table=source.table,
            missing=undeclared.missing,
            declares="on" if undeclared.source else "replace_by" if resolved.flow.target.replace_by else "keys",
        )
    return output, Finding(doubts=(*doubts, *analysis.doubts))


def sources_of(resolved: ResolvedFlow) -> tuple[Source, ...]:
    """What the flow declares about its sources."""
    flow = resolved.flow
    if not flow.kind.has_groups:
        return (Source(table=flow.source_tables[0], scope=(hidden.ROW_ID,)),)
    pipelines = [resolved.pipeline, *(each for each in resolved.declared.values() if isinstance(each, Pipeline))]
    writers = {each.target.name: each.target for pipeline in reversed(pipelines) for each in pipeline.flows}
    made = []
    for number, feed in enumerate(flow.feeds):
        written = writers.get(feed.table)
        unique = written.keys if isinstance(written, Table) else ()
        if unique and flow.target.windows is not None:
            unique += (WINDOW_START,)
        scope = tuple(feed.on.values()) if number else flow.target.scope
        made.append(Source(table=feed.table, scope=scope, unique=unique, on=feed.on))
    return tuple(made)


def _jobs(spark: SparkSession) -> int:
    """How many jobs the application has started."""
    return int(spark._jsc.sc().dagScheduler().numTotalJobs())


def _problem(
    flow: Flow, function: Callable[..., DataFrame] | None, sources: Sequence[Source], undeclared: UndeclaredError
) -> str:
    source, first = sources[undeclared.source], sources[0]
    where = f"flow {flow.name!r}: transform {flow.transform!r} ({_place(flow, function)}) {undeclared.text}"
    if undeclared.source:
        on = ", ".join(f"{ours!r}: {theirs!r}" for ours, theirs in source.on.items())
        named = f"on={{{on}}} says that a change of {source.table} recomputes the groups of the rows of {first.table} that it belongs to"
    else:
        columns = ", ".join(source.scope)
        named = f"a change of {source.table} recomputes only the groups with its {columns}"
    return f"{where}, but {named}, so that others would keep outdated values (missing: {', '.join(undeclared.missing)})"


def _place(flow: Flow, function: Callable[..., DataFrame] | None) -> str:
    """The file of the transform, and the line of a function in Python."""
    if flow.is_sql:
        return flow.transform_place
    function = inspect.unwrap(function) if function is not None else None
    code = getattr(function, "__code__", None)
    module = str(flow.transform).partition(":")[0]
    return f"spark_jobs/{module}.py" + (f" line {code.co_firstlineno}" if code is not None else "")
