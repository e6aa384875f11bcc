"""The lines of a batch page's tables: counts by disposition and by rule, and their shares of a total."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.report import BatchRecord


@dataclass(frozen=True, kw_only=True)
class Share:
    """A count and its share of a total."""

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
        """The share as text."""
        return percent(self.count, self.of)

    @property
    def width(self) -> float:
        """Width of the bar in percent; at least 0.8 if the count is not 0, so that it is visible."""
        return 0 if not self.of or not self.count else max(round(100 * self.count / self.of, 2), 0.8)


@dataclass(frozen=True)
class Shares:
    """One table: shares that add up to a total."""

    caption: str
    unit: str
    """Heading of the counts."""
    verb: str
    """Label of the total."""
    total: int
    lines: tuple[Share, ...]


def percent(count: int, of: int) -> str:
    """A share as text; ``0 %`` and ``100 %`` only if they are exact."""
    if not of or count in (0, of):
        return "100 %" if count else "0 %"
    share = 100 * count / of
    return "< 0.1 %" if share < 0.1 else "> 99.9 %" if share > 99.9 else f"{share:.1f} %"


def dispositions(record: BatchRecord) -> Iterator[Shares]:
    """The tables of a batch: files, then rows or groups."""
    if record.files_listed:
        yield Shares("Files", "Files", "listed", record.files_listed, tuple(_files(record)))
    if record.kind == "swap":
        yield Shares("Rows of the table", "Rows", "compared", record.groups, tuple(_groups(record)))
    elif record.kind == "recompute":
        yield Shares("Groups", "Groups", "recomputed", record.groups, tuple(_groups(record)))
    else:
        yield Shares("Rows", "Rows", "read", record.read, tuple(_rows(record)))


def by_rule(record: BatchRecord) -> list[Share]:
    """Quarantined rows by rule as shares of the rows read, or files as shares of the files listed."""
    of = record.read if record.quarantined else record.files_listed
    return [Share(label=rule, count=count, of=of, kind="quarantined") for rule, count in _highest_first(record.rules)]


def _rows(record: BatchRecord) -> Iterator[Share]:
    of = record.read
    yield Share(label="written", count=record.written, of=of, kind="written", note="in the target")
    note = "broke a rule; see the quarantine table"
    yield Share(label="quarantined", count=record.quarantined, of=of, kind="quarantined", note=note)
    others = (
        ("filtered", sum(record.filtered.values()), "excluded by a rule of the transform"),
        ("deduplicated", record.deduplicated, "another row of the batch has the same key and a higher order"),
        ("superseded", record.superseded, "the table has a newer row with the key"),
        ("already read", record.already_read, "by an earlier version"),
    )
    for label, count, note in others:
        # Upserts always have these dispositions; for other kinds a count of 0 is not shown.
        if count or (record.kind == "upsert" and label != "already read"):
            yield Share(label=label, count=count, of=of, kind="other", note=note)
        if label == "filtered":
            for rule, rows in _highest_first(record.filtered):
                yield Share(label=rule, count=rows, of=of, kind="other", inner=True)


def _groups(record: BatchRecord) -> Iterator[Share]:
    kinds = ("written", "other" if record.kind == "swap" else "quarantined", "other")
    notes = ("new or changed", "no longer have rows", "recomputed with the same result, not written")
    for name, kind, note in zip(("upserted", "deleted", "unchanged"), kinds, notes, strict=True):
        yield Share(label=name, count=getattr(record, name), of=record.groups, kind=kind, note=note)


def _files(record: BatchRecord) -> Iterator[Share]:
    of = record.files_listed
    yield Share(label="opened", count=record.files_opened, of=of, kind="written")
    note = "could not be read completely; the other files were processed"
    yield Share(label="quarantined", count=record.files_quarantined, of=of, kind="quarantined", note=note)
    if record.files_already_read:
        note = "by an earlier version"
        yield Share(label="already read", count=record.files_already_read, of=of, kind="other", note=note)


def _highest_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
