"""Exports the pages of a pipeline as static files, which open offline from a disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import evolution, journal, judgements
from tidegate.ops.journal_tables import TREND
from tidegate.pages import content, render
from tidegate.pages.content import PER_PAGE, PageContent
from tidegate.spec import Pipeline
from tidegate.states import FlowState

NEWEST = 500
"""Default number of a flow's newest lines that are exported."""


@dataclass(frozen=True)
class _Links:
    """Relative links between the files."""

    up: str
    """The way from a page to the folder of the site."""
    exported: frozenset[tuple[str, str | None]]
    """Flow and name of each exported page of a batch."""

    @property
    def style(self) -> str:
        return f"{self.up}{render.STYLE_SHEET.name}"

    def pipeline(self, pipeline: str) -> str:
        return f"{self.up}index.html"

    def flow(self, pipeline: str, flow: str, page: int = 1) -> str:
        return f"{self.up}{flow}/{_list_name(page)}"

    def batch(self, pipeline: str, flow: str, page: str | None) -> str | None:
        return f"{self.up}{flow}/{page}.html" if (flow, page) in self.exported else None


def export(
    layout: Layout,
    pipeline: Pipeline,
    folder: Path,
    newest: int = NEWEST,
    statuses: Mapping[str, FlowState] | None = None,
) -> Path:
    """Write a pipeline's pages in place of an earlier export. Starts no JVM.

    Args:
        folder: A new or empty folder, or one with an earlier export, which is replaced when the new one is complete.
        newest: How many of each flow's newest batches, backfills, replays and decisions are exported.
        statuses: The present status of each flow by name, which the pages state with its time.

    Returns:
        The site's ``index.html``.

    Raises:
        RequestError: The folder has other files, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is not a folder", Edit("choose a new or an empty one", "request"))
    if folder.exists() and any(folder.iterdir()) and not _is_export(folder):
        raise RequestError(
            f"{folder} has files that are not of an export", Edit("choose a new or an empty folder", "request")
        )
    draft, old = (folder.with_name(f".{folder.name}.{suffix}") for suffix in ("new", "old"))
    for leftover in (draft, old):
        shutil.rmtree(leftover, ignore_errors=True)
    draft.mkdir(parents=True)
    shutil.copyfile(render.STYLE_SHEET, draft / render.STYLE_SHEET.name)
    for name, text in _pages(PageContent(layout), pipeline, newest, statuses or {}):
        path = draft / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if folder.exists():
        folder.rename(old)
    draft.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    return folder / "index.html"


def _is_export(folder: Path) -> bool:
    """Whether a folder has the style sheet of an export, and no file that an export does not write."""
    names = [path.name for path in folder.rglob("*") if not path.is_dir()]
    sheets = [name for name in names if name.startswith("pages") and name.endswith(".css")]
    return bool(sheets) and all(name in sheets or name.endswith(".html") for name in names)


def _pages(
    source: PageContent, pipeline: Pipeline, newest: int, statuses: Mapping[str, FlowState]
) -> Iterator[tuple[str, str]]:
    """Path and HTML of each page."""
    name = pipeline.name
    summaries = source.journal.summaries([name])
    declared = {flow.name: flow.target.name for flow in pipeline.flows}
    # Flows that are no longer declared keep their pages.
    targets = declared | {flow: "" for _, flow in sorted(summaries) if flow not in declared}
    lines = {flow: source.journal.lines(name, flow=flow, limit=newest + TREND) for flow in targets}
    exported = frozenset((flow, line.page) for flow in lines for line in lines[flow][:newest] if line.page)
    history = evolution.read(PipelinePlace(source.layout, name))
    rows = [
        content.flow_row(
            name, flow, target, summaries.get((name, flow)), journal.open_entries(FlowPlace(source.layout, name, flow))
        )
        | {"state": statuses.get(flow)}
        for flow, target in targets.items()
    ]
    as_of = next((status.reading.at for status in statuses.values()), None)
    top, below = _Links("", exported), _Links("../", exported)
    yield (
        "index.html",
        render.page("pipeline.html", top, declared=pipeline, rows=rows, as_of=as_of, **source.pipeline(name)),
    )
    for flow, all_lines in lines.items():
        own = all_lines[:newest]
        judged = judgements.read(PipelinePlace(source.layout, name), own)
        for page, start in enumerate(range(0, max(len(own), 1), PER_PAGE), start=1):
            listed, more = own[start : start + PER_PAGE], start + PER_PAGE < len(own)
            values = source.flow_list(pipeline, flow, page, listed, more=more)
            yield (
                f"{flow}/{_list_name(page)}",
                render.page("flow.html", below, **values, as_of=as_of, state=statuses.get(flow)),
            )
        for number, line in enumerate(own):
            if line.page is not None:
                recent = [each for each in all_lines[number:] if each.is_batch][:TREND]
                values = content.batch(pipeline, line, recent, judged, history)
                yield f"{flow}/{line.page}.html", render.page("batch.html", below, **values)


def _list_name(page: int) -> str:
    return "index.html" if page == 1 else f"batches-{page}.html"
