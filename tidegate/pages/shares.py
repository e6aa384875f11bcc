"""The lines of a batch page's tables: counts by disposition and by rule, and their shares of a total."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate import formatting
from tidegate.reports.ledger_line import PARTS, Balance, LedgerLine, count, label


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


def dispositions(record: LedgerLine) -> Iterator[Shares]:
    """The tables of a batch, one per balance."""
    for balance in record.balances:
        total = balance.amount(record)
        if total or balance is record.balances[0]:
            heading = balance.units.capitalize()
            yield Shares(heading, heading, balance.verb, total, tuple(_lines(record, balance)))


def sentence(record: LedgerLine) -> str:
    """What became of what a batch read, listed or computed."""
    sentences = [each.sentence(record) for each in record.balances if each.amount(record) or each is record.balances[0]]
    if record.read and record.balances[0].unit == "group":
        sentences.append(f"{formatting.count(record.read, 'changed row')} of the source named them")
    if record.read and record.balances[0].unit == "result":
        sentences.append(f"they come from {formatting.count(record.read, 'row')} and the state before")
    return "; ".join(sentences) + "."


def by_rule(record: LedgerLine) -> list[Share]:
    """Quarantined rows by rule as shares of the rows read, or files as shares of the files listed."""
    of = record.read if record.quarantined else record.files_listed
    return [Share(label=rule, count=count, of=of, kind="quarantined") for rule, count in _highest_first(record.rules)]


def _lines(record: LedgerLine, balance: Balance) -> Iterator[Share]:
    of = balance.amount(record)
    for part in balance.parts:
        number, shown = count(record, part), PARTS[part]
        if number or not shown.rare:
            yield Share(label=label(part), count=number, of=of, kind=shown.look, note=shown.note)
        if part == "filtered":
            for rule, rows in _highest_first(record.filtered):
                yield Share(label=rule, count=rows, of=of, kind="other", inner=True)


def _highest_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
