"""Turns batches into HTML by the templates beside this module; whatever they are given is escaped."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tidegate import wording
from tidegate.pages.batch import Batch, Entry
from tidegate.pages.history import History
from tidegate.pages.trend import FILLS, SHOWN, draw
from tidegate.report import BatchRecord
from tidegate.spec import Pipeline

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:"
"""The content security policy that every page keeps, and carries as a ``<meta>`` for when no server sends it."""

RUNS = 30
"""How many of the newest runs the pipeline's page lists."""


@dataclass(frozen=True)
class Style:
    """The style sheet; its name holds a hash of it, so pages of an earlier Tidegate keep theirs."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Share:
    """One line of a balance."""

    label: str
    count: int
    of: int
    """What it is a part of."""
    kind: str = ""
    """A class of the style sheet: the colour of its bar."""
    note: str = ""
    """What the label means."""
    inner: bool = False
    """Whether it is a part of the line above."""

    @property
    def percent(self) -> str:
        """For people: neither 0 nor 100 unless it is exactly that."""
        if not self.of or self.count in (0, self.of):
            return "100 %" if self.count else "0 %"
        share = 100 * self.count / self.of
        return "< 0.1 %" if share < 0.1 else "> 99.9 %" if share > 99.9 else f"{share:.1f} %"

    @property
    def width(self) -> float:
        """Of its bar, in hundredths; what is there at all can be seen."""
        return 0 if not self.of or not self.count else max(round(100 * self.count / self.of, 2), 0.8)


@functools.cache
def style() -> Style:
    """The one asset of a site."""
    text = resources.files("tidegate.pages").joinpath("assets", "pages.css").read_text(encoding="utf-8")
    return Style(f"pages-{hashlib.sha256(text.encode()).hexdigest()[:8]}.css", text)


def batch_page(pipeline: Pipeline, batch: Batch, entries: Sequence[Entry]) -> str:
    """The page of one batch.

    Args:
        pipeline: The declaration.
        batch: What is told.
        entries: The newest batches of its flow, itself the last of them.
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
    """The newest batches of a flow, the newest first, and their trend."""
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
    """Fifty earlier batches of a flow.

    Args:
        pipeline: The declaration.
        flow: The flow.
        entries: The batches, the newest last.
        number: Of the page, from 1 for the oldest.
        newer: The page that follows; None if the flow's newest batches do.
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


def pipeline_page(pipeline: Pipeline, told: Mapping[str, Sequence[Entry]]) -> str:
    """The flows of a pipeline and its newest runs.

    Args:
        pipeline: The declaration.
        told: The newest batches of each flow, the newest last; flows in the order in which they are shown.
    """
    flows = [(flow, _target(pipeline, flow), _newest(entries)) for flow, entries in told.items()]
    return _render("pipeline.html", pipeline=pipeline.name, flows=flows, runs=_runs(told), up="")


def _row_shares(record: BatchRecord) -> Iterator[Share]:
    """Where the rows that were read went; nothing for a flow that recomputes groups."""
    if record.kind in ("recompute", "swap"):
        return
    yield Share(label="written", count=record.written, of=record.read, kind="written", note="in the target")
    yield Share(
        label="quarantined",
        count=record.quarantined,
        of=record.read,
        kind="quarantined",
        note="broke a rule, and stays in the quarantine table",
    )
    aside = (
        ("filtered", sum(record.filtered.values()), "set aside by a rule of the transform"),
        ("deduplicated", record.deduplicated, "another row of the batch has the same key and a higher order"),
        ("superseded", record.superseded, "the table held a newer row of the key"),
        ("already read", record.already_read, "by an earlier version"),
    )
    for label, count, note in aside:
        # Fates of keyed tables, of which others need no line.
        if count or (record.kind == "upsert" and label != "already read"):
            yield Share(label=label, count=count, of=record.read, kind="aside", note=note)
        if label == "filtered":
            for rule, rows in _most_first(record.filtered):
                yield Share(label=rule, count=rows, of=record.read, kind="aside", inner=True)


def _group_shares(record: BatchRecord) -> Iterator[Share]:
    if record.kind not in ("recompute", "swap"):
        return
    notes = ("written anew or for the first time", "have no rows any more", "came out the same, and were left alone")
    kinds = ("written", "quarantined", "aside")
    if record.kind == "swap":
        kinds = ("written", "aside", "aside")
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
        note="could not be read whole; the others went on",
    )
    if record.files_already_read:
        yield Share(
            label="already read", count=record.files_already_read, of=total, kind="aside", note="by an earlier version"
        )


def _rule_shares(record: BatchRecord) -> Iterator[Share]:
    """By the rules that were broken; of all rows read, or of all files listed where rules speak of files."""
    of = record.read if record.quarantined else record.files_listed
    for rule, count in _most_first(record.rules):
        yield Share(label=rule, count=count, of=of, kind="quarantined")


def _most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _newest(entries: Sequence[Entry]) -> list[Entry]:
    return list(entries[-SHOWN:])


def _target(pipeline: Pipeline, flow: str) -> str:
    return next((declared.target.name for declared in pipeline.flows if declared.name == flow), "")


def _runs(told: Mapping[str, Sequence[Entry]]) -> list[dict[str, Any]]:
    """The newest runs, the newest first, each with its batches by flow."""
    runs: dict[str, dict[str, Any]] = {}
    for flow, entries in told.items():
        for entry in entries:
            run = runs.setdefault(entry.run_key, {"key": entry.run_key, "at": entry.at, "flows": {}})
            run["at"] = max(run["at"], entry.at)
            run["flows"].setdefault(flow, []).append(entry)
    return sorted(runs.values(), key=lambda run: str(run["at"]), reverse=True)[:RUNS]


def _told_in_short(entry: Entry) -> str:
    """What became of a batch, in one phrase for lists."""
    record = entry.record
    if record is None:
        return "nothing written; the batch waits"
    if record.kind == "swap":
        return f"{record.upserted:,} rows changed, {record.deleted:,} deleted, {record.unchanged:,} as before"
    if record.kind == "recompute":
        return f"{wording.count(record.groups, 'group')}: {record.upserted:,} upserted, {record.deleted:,} deleted"
    told = [f"{record.read:,} read", f"{record.written:,} written"]
    if record.quarantined:
        told.append(f"{record.quarantined:,} quarantined")
    if record.files_quarantined:
        told.append(f"{wording.count(record.files_quarantined, 'file')} quarantined")
    return ", ".join(told)


@functools.cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("tidegate.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=lambda count: f"{count:,}",
        moment=lambda at: f"{at[:10]} {at[11:16]}",
        share=lambda part, whole: Share(label="", count=part, of=whole).percent,
        in_short=_told_in_short,
        said=lambda name: name.replace("_", " "),
    )
    made.globals.update(policy=POLICY, style=style().name, fills=FILLS)
    return made


def _render(template: str, **told: Any) -> str:
    text: str = _environment().get_template(template).render(told)
    return text
