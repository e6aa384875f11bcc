"""Renders the data of batches as HTML with the templates in this package. All values are escaped."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tidegate import formatting
from tidegate.pages.batch import Batch, Entry
from tidegate.pages.history import History
from tidegate.pages.trend import FILLS, SHOWN, draw
from tidegate.report import BatchRecord
from tidegate.spec import Pipeline

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:"
"""The content security policy of every page, which has it as a ``<meta>`` in case the server does not send it."""

RUNS = 30
"""Number of newest runs on the pipeline's page."""


@dataclass(frozen=True)
class Style:
    """The style sheet; its name has a hash of its content, so pages of an earlier Tidegate keep their own."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Share:
    """One line of a table of shares: a count and its share of a total."""

    label: str
    count: int
    of: int
    """The total."""
    kind: str = ""
    """Class of the bar in the style sheet, which defines its colour."""
    note: str = ""
    """Explanation of the label."""
    inner: bool = False
    """Whether it is a part of a line above, and shown indented."""

    @property
    def percent(self) -> str:
        """The share as text; ``0 %`` and ``100 %`` only if they are exact."""
        if not self.of or self.count in (0, self.of):
            return "100 %" if self.count else "0 %"
        share = 100 * self.count / self.of
        return "< 0.1 %" if share < 0.1 else "> 99.9 %" if share > 99.9 else f"{share:.1f} %"

    @property
    def width(self) -> float:
        """Width of the bar in percent; at least 0.8 if the count is not 0, so that it is visible."""
        return 0 if not self.of or not self.count else max(round(100 * self.count / self.of, 2), 0.8)


@functools.cache
def style() -> Style:
    """The style sheet, the only asset of a site."""
    text = resources.files("tidegate.pages").joinpath("assets", "pages.css").read_text(encoding="utf-8")
    return Style(f"pages-{hashlib.sha256(text.encode()).hexdigest()[:8]}.css", text)


def batch_page(pipeline: Pipeline, batch: Batch, entries: Sequence[Entry]) -> str:
    """The page of one batch.

    Args:
        entries: The newest batches of its flow, in ascending order, including this one.
    """
    entry = batch.entry()
    earlier = [other for other in entries if other.identity != entry.identity]
    return _render(
        "batch.html",
        pipeline=pipeline.name,
        batch=batch,
        entry=entry,
        target=_target(pipeline, batch.flow),
        rows=list(_row_shares(batch.record)) if batch.record else [],
        groups=list(_group_shares(batch.record)) if batch.record else [],
        files=list(_file_shares(batch.record)) if batch.record else [],
        rules=list(_rule_shares(batch.record)) if batch.record else [],
        previous=earlier[-1] if earlier else None,
        trend=draw(_newest(entries), entry),
        up="../",
    )


def flow_page(pipeline: Pipeline, flow: str, history: History) -> str:
    """The page of a flow: its newest batches, the newest first, and their trend."""
    entries = history.entries
    return _render(
        "flow.html",
        pipeline=pipeline.name,
        flow=flow,
        target=_target(pipeline, flow),
        entries=list(reversed(entries)),
        older=history.closed or None,
        trend=draw(_newest(entries), None),
        up="../",
    )


def earlier_page(pipeline: Pipeline, flow: str, entries: Sequence[Entry], number: int, *, newer: int | None) -> str:
    """The page of fifty earlier batches of a flow.

    Args:
        number: Number of the page; 1 is the oldest.
        newer: Number of the next page; None if the next one is the flow's own page.
    """
    return _render(
        "earlier.html",
        pipeline=pipeline.name,
        flow=flow,
        entries=list(reversed(entries)),
        number=number,
        older=number - 1 or None,
        newer=newer,
        up="../",
    )


def pipeline_page(pipeline: Pipeline, history: Mapping[str, Sequence[Entry]]) -> str:
    """The page of a pipeline: its flows and its newest runs.

    Args:
        history: Flow to its newest batches, the newest last; the flows are shown in this order.
    """
    flows = [(flow, _target(pipeline, flow), _newest(entries)) for flow, entries in history.items()]
    return _render("pipeline.html", pipeline=pipeline.name, flows=flows, runs=_runs(history), up="")


def _row_shares(record: BatchRecord) -> Iterator[Share]:
    """The dispositions of the rows read; none for a flow that recomputes groups."""
    if record.kind in ("recompute", "swap"):
        return
    yield Share(label="written", count=record.written, of=record.read, kind="written", note="in the target")
    yield Share(
        label="quarantined",
        count=record.quarantined,
        of=record.read,
        kind="quarantined",
        note="broke a rule; see the quarantine table",
    )
    others = (
        ("filtered", sum(record.filtered.values()), "excluded by a rule of the transform"),
        ("deduplicated", record.deduplicated, "another row of the batch has the same key and a higher order"),
        ("superseded", record.superseded, "the table has a newer row with the key"),
        ("already read", record.already_read, "by an earlier version"),
    )
    for label, count, note in others:
        # Upserts always have these dispositions; for other kinds a count of 0 is not shown.
        if count or (record.kind == "upsert" and label != "already read"):
            yield Share(label=label, count=count, of=record.read, kind="other", note=note)
        if label == "filtered":
            for rule, rows in _highest_first(record.filtered):
                yield Share(label=rule, count=rows, of=record.read, kind="other", inner=True)


def _group_shares(record: BatchRecord) -> Iterator[Share]:
    if record.kind not in ("recompute", "swap"):
        return
    notes = ("new or changed", "no longer have rows", "recomputed with the same result, not written")
    kinds = ("written", "quarantined", "other")
    if record.kind == "swap":
        kinds = ("written", "other", "other")
    for name, kind, note in zip(("upserted", "deleted", "unchanged"), kinds, notes, strict=True):
        yield Share(label=name, count=getattr(record, name), of=record.groups, kind=kind, note=note)


def _file_shares(record: BatchRecord) -> Iterator[Share]:
    if not record.files_listed:
        return
    total = record.files_listed
    yield Share(label="opened", count=record.files_opened, of=total, kind="written")
    yield Share(
        label="quarantined",
        count=record.files_quarantined,
        of=total,
        kind="quarantined",
        note="could not be read completely; the other files were processed",
    )
    if record.files_already_read:
        yield Share(
            label="already read", count=record.files_already_read, of=total, kind="other", note="by an earlier version"
        )


def _rule_shares(record: BatchRecord) -> Iterator[Share]:
    """Quarantined rows by rule as shares of the rows read, or files as shares of the files listed."""
    of = record.read if record.quarantined else record.files_listed
    for rule, count in _highest_first(record.rules):
        yield Share(label=rule, count=count, of=of, kind="quarantined")


def _highest_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _newest(entries: Sequence[Entry]) -> list[Entry]:
    return list(entries[-SHOWN:])


def _target(pipeline: Pipeline, flow: str) -> str:
    return next((declared.target.name for declared in pipeline.flows if declared.name == flow), "")


def _runs(history: Mapping[str, Sequence[Entry]]) -> list[dict[str, Any]]:
    """The newest runs, the newest first, each with its batches by flow."""
    runs: dict[str, dict[str, Any]] = {}
    for flow, entries in history.items():
        for entry in entries:
            run = runs.setdefault(entry.run_key, {"key": entry.run_key, "at": entry.at, "flows": {}})
            run["at"] = max(run["at"], entry.at)
            run["flows"].setdefault(flow, []).append(entry)
    return sorted(runs.values(), key=lambda run: str(run["at"]), reverse=True)[:RUNS]


def _summary(entry: Entry) -> str:
    """The result of a batch in one phrase, for lists."""
    record = entry.record
    if record is None:
        return "nothing written; the batch waits"
    if record.kind == "swap":
        return f"{record.upserted:,} rows changed, {record.deleted:,} deleted, {record.unchanged:,} unchanged"
    if record.kind == "recompute":
        return f"{formatting.count(record.groups, 'group')}: {record.upserted:,} upserted, {record.deleted:,} deleted"
    counts = [f"{record.read:,} read", f"{record.written:,} written"]
    if record.quarantined:
        counts.append(f"{record.quarantined:,} quarantined")
    if record.files_quarantined:
        counts.append(f"{formatting.count(record.files_quarantined, 'file')} quarantined")
    return ", ".join(counts)


@functools.cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tidegate.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=lambda count: f"{count:,}",
        moment=lambda at: f"{at[:10]} {at[11:16]}",
        share=lambda part, whole: Share(label="", count=part, of=whole).percent,
        summary=_summary,
        spaced=lambda name: name.replace("_", " "),
    )
    environment.globals.update(policy=POLICY, style=style().name, fills=FILLS)
    return environment


def _render(template: str, **values: Any) -> str:
    text: str = _environment().get_template(template).render(values)
    return text
