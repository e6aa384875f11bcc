"""Resolved flows for tests of other subjects: their sources, suites and transforms need not exist."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tidegate.errors import SpecError
from tidegate.project.resolution import ResolvedFlow, ResolvedPipeline, resolve
from tidegate.spec import Flow, Pipeline

_UNKNOWN = {"unknown": SpecError("its file does not load, so any table may have a writer")}


def resolved_flow(flow: Flow, pipeline: Pipeline, project: Path = Path()) -> ResolvedFlow:
    """The flow, in place of the pipeline's flow of that name."""
    flows = tuple(flow if each.name == flow.name else each for each in pipeline.flows)
    return resolved(replace(pipeline, flows=flows), project).flow(flow.name)


def resolved(pipeline: Pipeline, project: Path = Path()) -> ResolvedPipeline:
    """The pipeline, without other pipelines and without errors of its flows."""
    strict = resolve(pipeline, project, _UNKNOWN)
    return replace(strict, flows=tuple(replace(each, error=None) for each in strict.flows))
