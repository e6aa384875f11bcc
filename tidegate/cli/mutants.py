"""Implements `tidegate expectations coverage`: mutation testing of a suite with rows of the flow's table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

from tidegate import hidden
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.ops import evolution
from tidegate.project.resolution import ResolvedFlow
from tidegate.runtime import java
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.spark import gate
from tidegate.spark.driver.session import build_session
from tidegate.spark.gate import mutants
from tidegate.spark.gate.lake_context import LakeContext, activate
from tidegate.spark.gate.mutants import MutantResult
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


RECORDED = " (recorded only)"
"""Suffix of a rule that neither quarantines rows nor refuses batches."""


def measure(environment: Environment, resolved: ResolvedFlow, rows: int) -> list[dict[str, Any]]:
    """Every mutation of every column, with the rules that catch it. Starts Spark in this process.

    Args:
        resolved: A flow with a gate and a table.

    Raises:
        SpecError: The suite is invalid, or no row of the table passes it.
        SetupError: Java is missing.
    """
    pipeline, flow = resolved.pipeline, resolved.flow
    assert flow.gate is not None and resolved.suite is not None
    java.find()
    gate.warm_up()
    suite = gate.load_suite(resolved.suite, flow.gate.suite)
    layout = Layout.of(environment)
    with _progress() as start:
        spark = build_session(environment, f"tidegate coverage {pipeline.name}")
        try:
            sample = _sample(tables.read(spark, layout.table(flow.target.name)), rows)
            candidates = mutants.make_mutants(sample.schema, flow.target.keys, flow.target.sequence_by)
            advance = start(len(candidates))
            with activate(LakeContext(layout, pipeline.name, flow.name)):
                caught = mutants.judge(suite, sample, candidates, advance)
        finally:
            spark.stop()
    record_only = {
        rule.name
        for rule in suite.expectations
        if rule.severity == "info" or (not rule.of_rows and rule.severity != "critical")
    }
    judged = [_result(resolved, each, record_only) for each in caught]
    return [*_mistyped(layout, resolved, judged), *judged]


def _sample(table: DataFrame, rows: int) -> DataFrame:
    not_deleted = table.where(f"NOT coalesce({hidden.DELETED}, false)") if hidden.DELETED in table.columns else table
    return not_deleted.select(*[column for column in table.columns if not column.startswith("_")]).limit(rows)


def _result(resolved: ResolvedFlow, caught: MutantResult, record_only: set[str]) -> dict[str, Any]:
    mutant = caught.mutant
    rules = [name + RECORDED if name in record_only else name for name in caught.rules]
    built_in = _built_in(resolved, mutant.column, mutant.change)
    return {"column": mutant.column, "change": mutant.change, "caught_by": [*built_in, *rules]}


def _built_in(resolved: ResolvedFlow, column: str, change: str) -> list[str]:
    """The built-in rules that catch a mutation without a suite."""
    keys, sequence = resolved.flow.target.keys, resolved.flow.target.sequence_by
    if change == "null" and column in keys:
        return [f"null_key({column})"]
    if change == "null" and column in sequence:
        return [f"null_sequence({column})"]
    if change == "null" and column in {field.name for field in _landed(resolved) if field.required}:
        return [f"required({column})"]
    if change == "doubled rows" and keys:
        return ["deduplicated by its keys"]
    return []


def _mistyped(layout: Layout, resolved: ResolvedFlow, judged: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Text in a column of another type: the built-in rule refuses the row, or the contract keeps it.

    A row that is kept has NULL in that column, so the rules that catch NULL catch it.
    """
    source = resolved.landing
    typed = [field.name for field in _landed(resolved) if field.type.upper() != "STRING"]
    if source is None or not typed:
        return []
    terms = evolution.terms(resolved.place(layout), source)
    nulls = {line["column"]: line["caught_by"] for line in judged if line["change"] == "null"}
    return [
        {
            "column": column,
            "change": "a text of another type",
            "caught_by": nulls[column] if terms.keeps_row(column) else [f"wrong_type({column})"],
        }
        for column in typed
        if column in nulls
    ]


def _landed(resolved: ResolvedFlow) -> tuple[Column, ...]:
    """The declared fields of the landing source that a flow parses; empty if it reads another table."""
    return () if resolved.landing is None else parse_ddl("schema", resolved.landing.schema)


@contextmanager
def _progress() -> Iterator[Callable[[int], Callable[[int], None]]]:
    """A progress bar on standard error, so that standard output only has the result."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)

        def start(total: int) -> Callable[[int], None]:
            bar.update(task, description="changing rows", total=total)
            return lambda done: bar.update(task, completed=done)

        yield start
