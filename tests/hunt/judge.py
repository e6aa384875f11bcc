"""What the tables of a history must hold, computed in plain Python from what was landed and what was done.

Imports nothing of the product, and shares no code with it: the rules are those of docs/, written again. Delta tables are read
with delta-rs. A `Judge` is told each thing that is done, in order; `Judge.differences` compares it with a lake.

The result of a history depends neither on how its input was cut into batches nor on interruptions. So the judge knows
neither: it has one state per record, and totals where the ledger has one line per batch.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

FIELDS = ("id", "at", "day", "amount", "op")
BALANCES = {
    "rows": ("read", ("written", "quarantined", "filtered", "deduplicated", "superseded", "already_read")),
    "files": ("files_listed", ("files_opened", "files_quarantined", "files_already_read")),
    "groups": ("groups", ("upserted", "deleted", "unchanged")),
    "entries": ("read", ("closed",)),
}
BALANCES_OF = {
    "recompute": ("groups",),
    "swap": ("groups",),
    "undo": ("groups",),
    **dict.fromkeys(("waive", "expire", "retire", "retire_waived"), ("entries",)),
}
"""By kind of a ledger line; other lines balance rows, files and groups."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """What transform and suite do."""

    factor: int = 1
    """The transform multiplies ``amount`` by it."""
    filtered: int = 6
    """Ids that leave this remainder when divided by 7 are filtered."""
    trap: int = 1000
    """An ``amount`` on which the transform raises."""
    highest: int = 500
    """The highest ``amount`` that the suite accepts, after the transform."""


@dataclass(frozen=True)
class Record:
    """One record of a source, as its row of bronze."""

    row_id: str
    at: tuple[Any, ...]
    """Its coordinates, which order records of one key with the same sequence."""
    fields: Mapping[str, str | None] = field(default_factory=dict)
    broken: str = ""
    """The rule that it breaks as a whole, for example ``malformed_line``."""


@dataclass(frozen=True)
class Row:
    """A row of silver."""

    values: tuple[Any, ...]
    """``at``, ``day``, ``amount``, ``ratio``."""
    order: tuple[Any, ...]
    deleted: bool
    row_id: str


@dataclass(frozen=True)
class Output:
    """What today's code makes of a record."""

    rules: frozenset[str] = frozenset()
    filtered: bool = False
    key: int | None = None
    """Also of records that are refused or filtered, unless the transform raises."""
    day: date | None = None
    row: Row | None = None


@dataclass(frozen=True)
class Entry:
    """A quarantine entry."""

    row_id: str
    rules: frozenset[str]
    state: str = "open"
    level: str = "row"
    checkpoint: tuple[int, int] = (1, 0)


@dataclass
class Change:
    """What one run changed in silver and its quarantine: before and after, by key and by number of the entry."""

    rows: dict[int, tuple[Row | None, Row | None]] = field(default_factory=dict)
    entries: dict[int, tuple[Entry | None, Entry]] = field(default_factory=dict)


def output(record: Record, code: Code) -> Output:
    """The transform and the row rules, for one record."""
    if record.broken:
        return Output(frozenset({record.broken}))
    typed: dict[str, Any] = {}
    rules = set()
    for name, read in (("id", whole), ("at", whole), ("day", day_of), ("amount", whole), ("op", str)):
        text = record.fields.get(name)
        typed[name] = None if text is None else read(text)
        if text is not None and typed[name] is None:
            rules.add(f"wrong_type({name})")
    if record.fields.get("id") is None:
        rules.add("required(id)")
    number, at, day, amount = (typed[name] for name in ("id", "at", "day", "amount"))
    key = number if number is not None and number >= 0 else None
    if rules:
        # Such a record bypasses the transform only where it raises; its key is that of its other fields.
        return Output(frozenset(rules), key=None if amount == code.trap else key, day=day)
    if amount == code.trap:
        return Output(frozenset({"transform_error(DIVIDE_BY_ZERO)"}))
    # Spark's remainder has the sign of the dividend.
    filtered = math.fmod(number, 7) == code.filtered
    if not filtered:
        rules |= {f"null_{what}" for what, value in (("key(key)", key), ("sequence(at)", at)) if value is None}
    deleted = typed["op"] == "delete"
    made = None if amount is None else amount * code.factor
    ratio = None if amount is None else int(1000 / (amount - code.trap))
    if not (rules or filtered or deleted or made is None or 0 <= made <= code.highest):
        rules.add("between(amount)")
    if rules or filtered:
        return Output(frozenset(rules), filtered, key, day)
    order = (at, *record.at)
    return Output(key=key, day=day, row=Row((at, day, made, ratio), order, deleted, record.row_id))


def whole(text: str) -> int | None:
    return int(text) if re.fullmatch("[+-]?[0-9]+", text) and abs(int(text)) < 2**31 else None


def day_of(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        return None


class Judge:
    """The state that all tables must have."""

    def __init__(self) -> None:
        self.checkpoint = (1, 0)
        self.bronze_refresh = 0
        self.bronze: dict[str, Record] = {}
        self.unread: list[Record] = []
        """Records in bronze that silver has not read."""
        self.files: list[Entry] = []
        """The entries of files, in the landing flow's quarantine."""
        self.silver: dict[int, Row] = {}
        self.entries: list[Entry] = []
        self.gold: dict[date | None, tuple[int, int | None]] = {}
        self.totals: dict[str, Counter[str]] = {}
        """By transaction id: what its ledger lines add up to."""

    # What is done.

    def read_source(self, records: Iterable[Record], bad_files: Mapping[str, str], files: int = 0) -> None:
        """The landing flow reads what is new: records of good files, and the ids of bad ones with their rule."""
        new = list(records)
        self.bronze.update({record.row_id: record for record in new})
        self.unread += new
        self.files += [Entry(name, frozenset({rule}), level="file") for name, rule in bad_files.items()]
        if not self.bronze_refresh:
            self._add("hunt/bronze/v1/0", read=len(new), files_listed=files, files_quarantined=len(bad_files))

    def correct_file(self, bad_file: str, records: Iterable[Record]) -> None:
        """A replay of the landing flow reads a corrected file; all others are as bad as before."""
        claimed = [entry for entry in self.files if entry.state == "open"]
        self.files = [replace(entry, state="replayed") if entry.row_id == bad_file else entry for entry in self.files]
        new = list(records)
        self.bronze.update({record.row_id: record for record in new})
        self.unread += new
        self._add("hunt/bronze/replay", files_listed=len(claimed), files_quarantined=len(claimed) - 1, read=len(new))

    def read_again(self) -> None:
        """A new checkpoint of the landing flow lists the whole source, and finds nothing that bronze lacks."""
        self.bronze_refresh += 1

    def read_bronze(self, code: Code, *others: Code, lake: Path | None = None) -> None:
        """The row flow reads what is new in bronze.

        Args:
            code: Transform and suite.
            others: Suites of attempts that were interrupted, between which the suite was edited: each batch was split by one of
                them. Which one, the lake says: its entries are final, so each record has one or is in silver.
            lake: The lake, where there are others.
        """
        records, self.unread = self.unread, []
        if not others:
            self._judge_new(records, code)
            return
        assert lake is not None
        stored = rows(lake / "quarantine" / "hunt" / "silver")
        refused = {row["_row_id"] for row in stored if (row["_checkpoint_version"], row["_refresh"]) == self.checkpoint}
        for record in records:
            same = [each for each in (code, *others) if bool(output(record, each).rules) == (record.row_id in refused)]
            self._judge_new([record], same[0] if same else code)

    def derive_again(self, code: Code, checkpoint: tuple[int, int]) -> None:
        """A new checkpoint of the row flow judges all records; the entries of the old one expire, and waivers stay in force."""
        waived = {e.row_id for e in self.entries if (e.state, e.checkpoint) == ("waived", self.checkpoint)}
        closed = {"open", "waived"}
        self.entries = [replace(e, state="expired") if e.state in closed else e for e in self.entries]
        self.silver, self.unread, self.checkpoint = {}, [], checkpoint
        first = len(self.entries)
        self._judge_new(self.bronze.values(), code)
        for number in range(first, len(self.entries)):
            if self.entries[number].row_id in waived:
                self.entries[number] = replace(self.entries[number], state="waived")

    def group(self) -> None:
        """The group flow reads what is new in silver."""
        groups: dict[date | None, list[int | None]] = {}
        for row in self.silver.values():
            if not row.deleted:
                groups.setdefault(row.values[1], []).append(row.values[2])
        self.gold = {}
        for day, amounts in groups.items():
            known = [amount for amount in amounts if amount is not None]
            self.gold[day] = (len(amounts), sum(known) if known else None)

    def backfill(self, code: Code, first: date, last: date) -> Change:
        """Derive the keys of a window again."""

        def inside(day: date | None) -> bool:
            return day is not None and first <= day <= last

        made = {record.row_id: output(record, code) for record in self.bronze.values()}
        keys = {key for key, row in self.silver.items() if inside(row.values[1])}
        keys |= {each.key for each in made.values() if each.key is not None and inside(each.day)}
        # A record on which the transform raises has no key; it counts where a row of these keys was made from it.
        in_table = {self.silver[key].row_id for key in keys if key in self.silver}
        own = {
            i: each
            for i, each in made.items()
            if each.key in keys or (each.key is None and self._raises(each) and i in in_table)
        }
        change = Change()
        best = newest(each for each in own.values())
        for key in keys:
            before, after = self.silver.get(key), best.get(key)
            # A row that is the same is not written again.
            if before != after:
                change.rows[key] = (before, after)
        for row_id, each in own.items():
            current = [
                number
                for number, entry in enumerate(self.entries)
                if (entry.row_id, entry.checkpoint) == (row_id, self.checkpoint)
                and entry.state not in ("replayed", "withdrawn")
            ]
            for number in current:
                entry = self.entries[number]
                if not each.rules:
                    change.entries[number] = (entry, replace(entry, state="replayed"))
                elif entry.state == "open":
                    change.entries[number] = (entry, replace(entry, rules=each.rules))
            if each.rules and not current:
                number = len(self.entries) + sum(before is None for before, _ in change.entries.values())
                change.entries[number] = (None, Entry(row_id, each.rules, checkpoint=self.checkpoint))
        self._apply(change)
        self._add(f"{self.app_id}/window", read=len(own), quarantined=sum(bool(each.rules) for each in own.values()))
        return change

    def replay(self, code: Code, rule: str | None = None) -> Change:
        """Judge the open entries again, all or those with a rule."""
        change = Change()
        chosen = [n for n, e in enumerate(self.entries) if e.state == "open" and (rule is None or rule in e.rules)]
        made = {number: output(self.bronze[self.entries[number].row_id], code) for number in chosen}
        for number, each in made.items():
            entry = self.entries[number]
            closed = replace(entry, rules=each.rules) if each.rules else replace(entry, state="replayed")
            change.entries[number] = (entry, closed)
        for key, row in newest(made.values()).items():
            before = self.silver.get(key)
            if before is None or precedes(before.order, row.order):
                change.rows[key] = (before, row)
        self._apply(change)
        if chosen:
            self._add(
                "hunt/silver/replay", read=len(chosen), quarantined=sum(bool(each.rules) for each in made.values())
            )
        return change

    def waive(self, rule: str | None) -> int:
        """Close the open entries with a rule; returns how many."""
        chosen = [n for n, e in enumerate(self.entries) if e.state == "open" and (rule is None or rule in e.rules)]
        for number in chosen:
            self.entries[number] = replace(self.entries[number], state="waived")
        return len(chosen)

    def undo(self, change: Change) -> Change:
        """Put back what a run changed, where it is still what the run made; an undo of that undo takes the returned change."""
        undone, kept = Change(), set()
        for key, (before, after) in change.rows.items():
            now = self.silver.get(key)
            if now == after:
                undone.rows[key] = (after, before)
            else:
                kept |= {row.row_id for row in (before, after, now) if row is not None}
        for number, (entry, after_run) in change.entries.items():
            if self.entries[number] == after_run and after_run.row_id not in kept:
                former = replace(after_run, state="withdrawn") if entry is None else entry
                undone.entries[number] = (after_run, former)
        self._apply(undone)
        return undone

    @property
    def app_id(self) -> str:
        """The transaction id of the row flow's stream."""
        return "hunt/silver/v{}/{}".format(*self.checkpoint)

    # What the lake must hold.

    def differences(self, lake: Path, *, gold: bool = True) -> list[str]:
        """What a lake has too much (``+``) or too little (``-``) of, one line per table."""
        tables = [
            ("bronze", (r for r in self.bronze), (row["_row_id"] for row in rows(lake / "tables" / "bronze" / "hunt"))),
            ("files", map(entry_of, self.files), stored_entries(lake / "quarantine" / "hunt" / "bronze")),
            ("silver", expected_rows(self.silver), stored_rows(lake / "tables" / "silver" / "hunt")),
            ("quarantine", map(entry_of, self.entries), stored_entries(lake / "quarantine" / "hunt" / "silver")),
        ]
        if gold:
            expected = ((day, *group) for day, group in self.gold.items())
            stored = ((row["day"], row["orders"], row["amount"]) for row in rows(lake / "tables" / "gold" / "hunt"))
            tables.append(("gold", expected, stored))
        differences = []
        for name, wanted, actual in tables:
            missing, extra = Counter(wanted), Counter(actual)
            if missing != extra:
                differences.append(f"{name}: - {shown(missing - extra)} + {shown(extra - missing)}")
        return differences + self._ledger_differences(rows(lake / "_ops" / "hunt" / "ledger"))

    def _ledger_differences(self, lines: list[dict[str, Any]]) -> list[str]:
        differences = []
        lines_of: Counter[Any] = Counter((line["app_id"], line["kind"] == "swap", line["batch_id"]) for line in lines)
        differences += [f"ledger: {number} lines of {what}" for what, number in lines_of.items() if number > 1]
        sums: dict[str, Counter[str]] = {}
        for line in lines:
            for balance in BALANCES_OF.get(line["kind"], ("rows", "files", "groups")):
                total, parts = BALANCES[balance]
                if count(line, total) != sum(count(line, part) for part in parts):
                    differences.append(
                        f"ledger: {line['app_id']} {line['batch_id']} ({line['kind']}) does not balance {balance}"
                    )
            if line["kind"] != "swap":
                mine = sums.setdefault(line["app_id"], Counter())
                for name in ("read", "quarantined", "filtered", "files_listed", "files_quarantined"):
                    mine[name] += count(line, name)
        for app_id, expected in self.totals.items():
            actual = sums.get(app_id, Counter())
            wrong = {name: (number, actual[name]) for name, number in expected.items() if actual[name] != number}
            if wrong:
                differences.append(f"ledger: {app_id} (expected, actual): {wrong}")
        return differences

    def _judge_new(self, records: Iterable[Record], code: Code) -> None:
        made = {record.row_id: output(record, code) for record in records}
        for key, row in newest(made.values()).items():
            if key not in self.silver or precedes(self.silver[key].order, row.order):
                self.silver[key] = row
        refused = {row_id: each.rules for row_id, each in made.items() if each.rules}
        self.entries += [Entry(row_id, rules, checkpoint=self.checkpoint) for row_id, rules in refused.items()]
        filtered = sum(each.filtered for each in made.values())
        self._add(self.app_id, read=len(made), quarantined=len(refused), filtered=filtered)

    def _apply(self, change: Change) -> None:
        for key, (_, after) in change.rows.items():
            if after is None:
                self.silver.pop(key, None)
            else:
                self.silver[key] = after
        for number, (_, entry) in sorted(change.entries.items()):
            if number == len(self.entries):
                self.entries.append(entry)
            else:
                self.entries[number] = entry

    def _add(self, app_id: str, **counts: int) -> None:
        self.totals.setdefault(app_id, Counter()).update(counts)

    @staticmethod
    def _raises(each: Output) -> bool:
        return any(rule.startswith("transform_error") for rule in each.rules)


def newest(outputs: Iterable[Output]) -> dict[int, Row]:
    """The row with the highest order of each key."""
    best: dict[int, Row] = {}
    for each in outputs:
        if each.row is not None and each.key is not None:
            known = best.get(each.key)
            if known is None or precedes(known.order, each.row.order):
                best[each.key] = each.row
    return best


def precedes(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one < other


def rows(table: Path) -> list[dict[str, Any]]:
    """All rows of a table; none where there is no table."""
    if not (table / "_delta_log").exists():
        return []
    rows_of_table: list[dict[str, Any]] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return rows_of_table


def expected_rows(silver: Mapping[int, Row]) -> Iterable[tuple[Any, ...]]:
    return ((key, *row.values, row.deleted, row.row_id) for key, row in silver.items())


def stored_rows(table: Path) -> Iterable[tuple[Any, ...]]:
    names = ("key", "at", "day", "amount", "ratio", "_deleted", "_row_id")
    return (tuple(row[name] for name in names) for row in rows(table))


def entry_of(entry: Entry) -> tuple[Any, ...]:
    return (entry.row_id, tuple(sorted(entry.rules)), entry.state, entry.level, entry.checkpoint)


def stored_entries(table: Path) -> Iterable[tuple[Any, ...]]:
    for row in rows(table):
        assert row["_in_hand"] is None, f"{row['_row_id']} is claimed"
        checkpoint = (row["_checkpoint_version"], row["_refresh"])
        yield (row["_row_id"], tuple(sorted(row["rules"])), row["state"], row["level"], checkpoint)


def count(line: Mapping[str, Any], name: str) -> int:
    value = line[name]
    return sum(dict(value or {}).values()) if name == "filtered" else int(value or 0)


def shown(rows: Mapping[Any, int], limit: int = 6) -> str:
    listed = sorted(rows.items(), key=repr)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return str([row if number == 1 else (number, row) for row, number in listed[:limit]]) + more
