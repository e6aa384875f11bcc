"""What commands say of a pipeline beside its flows: tables of its list that are not valid, and flows that it does not declare any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.cli import console
from tidegate.lake.layout import Layout
from tidegate.project.resolution import ResolvedPipeline
from tidegate.reports.report import ErrorReport
from tidegate.spec import Pipeline
from tidegate.status import removed


def print_undeclared(layout: Layout, resolved: ResolvedPipeline) -> None:
    """Print a line for each invalid table, and for each removed flow about which nobody has decided."""
    name = resolved.pipeline.name
    for each in resolved.pipeline.invalid_tables:
        console.echo(f"{name}: table {each.name} cannot run: {each.error.message}", style="error")
    print_removed(layout, resolved)


def print_removed(layout: Layout, resolved: ResolvedPipeline) -> None:
    """Print the flows that were removed, until somebody decides about them."""
    for line in removed.lines(_undecided(layout, resolved)):
        console.echo(f"{resolved.pipeline.name}: {line}", style="behind")


def undeclared_to_json(layout: Layout, resolved: ResolvedPipeline) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "invalid_tables": [
            {"name": each.name, "where": each.where, "error": ErrorReport.of(each.error).to_json()}
            for each in resolved.pipeline.invalid_tables
        ],
        "removed_flows": [each.to_json() for each in _undecided(layout, resolved)],
    }


def exit_code(pipeline: Pipeline, flows: Sequence[str] | None) -> int:
    """That of the first invalid table; 0 if there is none, or only some flows were named."""
    return 0 if flows or not pipeline.invalid_tables else pipeline.invalid_tables[0].error.exit_code


def _undecided(layout: Layout, resolved: ResolvedPipeline) -> tuple[removed.RemovedFlow, ...]:
    return removed.undecided(layout, resolved.pipeline, resolved.declared)
