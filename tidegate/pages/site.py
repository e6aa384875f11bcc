"""Writes the site of a pipeline in the lake."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

from tidegate.atomic import write_text
from tidegate.layout import Layout
from tidegate.pages import records, render
from tidegate.pages.batch import Batch, Entry, Judgement
from tidegate.pages.history import History
from tidegate.spec import Pipeline


def publish(layout: Layout, pipeline: Pipeline, batch: Batch) -> Path:
    """Add a batch to its pipeline's site: write its page and the lists of the newest batches.

    If the site already has the batch, for example because it was refused before, its page and entry are replaced.

    Args:
        batch: The data of this attempt; this function adds earlier judgements and schema changes.

    Returns:
        The batch's page.
    """
    site = _Site(layout, pipeline)
    existing = site.history(batch.flow).find(batch.entry())
    judgements = () if existing is None else existing.judgements
    if batch.verdict is not None:
        judgements = (*judgements, Judgement.of(batch.verdict, batch.at, batch.run_key))
    batch = dataclasses.replace(batch, judgements=judgements)
    # If an earlier attempt judged the batch and wrote its quarantine entries, this attempt has no verdict.
    gated = any(flow.name == batch.flow and flow.gate is not None for flow in pipeline.flows)
    swap = batch.record is not None and batch.record.kind == "swap"
    batch = records.complete(layout, pipeline.name, batch, judged=gated and not swap and batch.verdict is None)
    page = site.add(batch)
    site.write()
    return page


def rebuild(layout: Layout, pipeline: Pipeline) -> Path:
    """Create a pipeline's whole site from ledger and verdicts, and replace the old one.

    Args:
        pipeline: The declaration; flows that are no longer declared keep their pages.

    Returns:
        The site's ``index.html``.
    """
    live = layout.docs(pipeline.name)
    draft = live.with_name(f".{live.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    site = _Site(layout, pipeline, draft)
    for batch in records.batches(layout, pipeline.name):
        site.add(batch)
    site.write()
    old = live.with_name(f".{live.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if live.exists():
        live.rename(old)
    draft.rename(live)
    shutil.rmtree(old, ignore_errors=True)
    return live / "index.html"


class _Site:
    """A site to which batches are added; `write` completes it."""

    def __init__(self, layout: Layout, pipeline: Pipeline, folder: Path | None = None) -> None:
        self.pipeline = pipeline
        self.folder = folder or layout.docs(pipeline.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.histories: dict[str, History] = {}
        self.changed: set[str] = set()
        self.style = render.style()
        if not (self.folder / self.style.name).exists():
            write_text(self.folder / self.style.name, self.style.text)

    def history(self, flow: str) -> History:
        """A flow's history, which is read only once."""
        if flow not in self.histories:
            self.histories[flow] = History.read(self.folder / flow)
        return self.histories[flow]

    def add(self, batch: Batch) -> Path:
        """Write a batch's page; when the history is full, also a page of earlier batches."""
        entry, history, folder = batch.entry(), self.history(batch.flow), self.folder / batch.flow
        folder.mkdir(exist_ok=True)
        moved = history.add(entry)
        page = folder / entry.page
        write_text(page, render.batch_page(self.pipeline, batch, history.entries))
        self.changed.add(batch.flow)
        if moved is not None:
            self._close(folder, batch.flow, history, moved)
        return page

    def write(self) -> None:
        """Write the lists, after all batches have been added."""
        for flow in sorted(self.changed):
            history, folder = self.histories[flow], self.folder / flow
            write_text(folder / "index.html", render.flow_page(self.pipeline, flow, history))
            # Last: after a failure before this line, the flow's next batch writes the other files again.
            history.write(folder)
        entries = {flow: self.history(flow).entries for flow in self._flows()}
        write_text(self.folder / "index.html", render.pipeline_page(self.pipeline, entries))

    def _flows(self) -> list[str]:
        """The declared flows in their order, then flows that have pages but are no longer declared."""
        declared = [flow.name for flow in self.pipeline.flows]
        others = {path.parent.name for path in self.folder.glob("*/history.json")} | set(self.histories)
        return [*declared, *sorted(others - set(declared))]

    def _close(self, folder: Path, flow: str, history: History, moved: Sequence[Entry]) -> None:
        """Write the page of the moved batches and a first version of the next page, so that the link to it works."""
        for number, entries in ((history.closed, moved), (history.closed + 1, history.entries)):
            last = number > history.closed
            text = render.earlier_page(self.pipeline, flow, entries, number, newer=None if last else number + 1)
            write_text(folder / f"batches-{number}.html", text)
