"""Exports the pages of a pipeline as static files, which open offline from a disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
from tidegate.store import Address

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
    folder: Address,
    newest: int = NEWEST,
    statuses: Mapping[str, FlowState] | None = None,
) -> Address:
    """Write a pipeline's pages in place of an earlier export. Starts no JVM.

    A page is written after those below it, and old pages are deleted last: an interruption leaves pages of both exports, and no link to
    a page below without a target.

    Args:
        folder: A new or empty folder, or one with an earlier export.
        newest: How many of each flow's newest batches, backfills, replays and decisions are exported.
        statuses: The present status of each flow by name, which the pages state with its time.

    Returns:
        The site's ``index.html``.

    Raises:
        RequestError: The folder has other files, or is a file.
    """
    earlier = _earlier(folder)
    sheet = folder / render.STYLE_SHEET.name
    sheet.put(render.STYLE_SHEET.read_bytes())
    written = {sheet}
    for name, text in _pages(PageContent(layout), pipeline, newest, statuses or {}):
        page = folder / name
        page.put(text.encode())
        written.add(page)
    for old in earlier - written:
        old.delete()
    return folder / "index.html"


def _earlier(folder: Address) -> set[Address]:
    """The files of an earlier export: its style sheet and pages.

    Raises:
        RequestError: There are others.
    """
    try:
        files = {folder.at(entry) for entry in folder.walk()}
    except NotADirectoryError:
        raise RequestError(f"{folder} is not a folder", Edit("choose a new or an empty one", "request")) from None
    sheets = {file for file in files if file.name.startswith("pages") and file.name.endswith(".css")}
    if files and (not sheets or any(not file.name.endswith(".html") for file in files - sheets)):
        raise RequestError(
            f"{folder} has files that are not of an export", Edit("choose a new or an empty folder", "request")
        )
    return files


def _pages(
    source: PageContent, pipeline: Pipeline, newest: int, statuses: Mapping[str, FlowState]
) -> Iterator[tuple[str, str]]:
    """Path and HTML of each page, after those of the batches and older lists that it links to."""
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
    for flow, all_lines in lines.items():
        own = all_lines[:newest]
        judged = judgements.read(PipelinePlace(source.layout, name), own)
        for number, line in reversed([*enumerate(own)]):
            if line.page is not None:
                recent = [each for each in all_lines[number:] if each.is_batch][:TREND]
                values = content.batch(pipeline, line, recent, judged, history)
                yield f"{flow}/{line.page}.html", render.page("batch.html", below, **values)
        for page, start in reversed([*enumerate(range(0, max(len(own), 1), PER_PAGE), start=1)]):
            listed, more = own[start : start + PER_PAGE], start + PER_PAGE < len(own)
            values = source.flow_list(pipeline, flow, page, listed, more=more)
            yield (
                f"{flow}/{_list_name(page)}",
                render.page("flow.html", below, **values, as_of=as_of, state=statuses.get(flow)),
            )
    yield (
        "index.html",
        render.page("pipeline.html", top, declared=pipeline, rows=rows, as_of=as_of, **source.pipeline(name)),
    )


def _list_name(page: int) -> str:
    return "index.html" if page == 1 else f"batches-{page}.html"
