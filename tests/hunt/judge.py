"""What the tables of a history must hold, computed in plain Python from what was landed and what was done.

Imports nothing of the product, and shares no code with it: the rules are those of docs/, written again. A `Judge` is told each
thing that is done, in order; `Judge.differences` compares it with a lake.

The result of a history depends neither on how its input was cut into batches nor on interruptions. So the judge knows
neither: it has one state per record, and totals where the ledger has one line per batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from tests.hunt.lake import Entry, entry_of, expected_rows, ledger_differences, rows, shown, stored_entries, stored_rows
from tests.hunt.rules import Code, Record, Row, newest, output, precedes


@dataclass
class Change:
    """What one run changed in silver and its quarantine: before and after, by key and by number of the entry."""

    rows: dict[int, tuple[Row | None, Row | None]] = field(default_factory=dict)
    entries: dict[int, tuple[Entry | None, Entry]] = field(default_factory=dict)


class Judge:
    """The state that all tables must have."""

    def __init__(self) -> None:
        self.checkpoint = (1, 0)
        self.bronze_refresh = 0
        self.bronze: dict[str, Record] = {}
        self.unread: list[Record] = []
        """Records in bronze that silver has not read."""
        self.files: list[Entry] = []
        """The entries of files or messages, in the landing flow's quarantine."""
        self.silver: dict[int, Row] = {}
        self.entries: list[Entry] = []
        self.gold: dict[date | None, tuple[int, int | None]] = {}
        self.totals: dict[str, Counter[str]] = {}
        """By transaction id: what its ledger lines add up to."""

    # What is done.

    def read_source(self, records: Iterable[Record], bad: Mapping[str, str], files: int = 0) -> None:
        """The landing flow reads what is new: records of good files or messages, and the ids of bad ones with their rule."""
        new, level = list(records), "file" if files else "message"
        self.bronze.update({record.row_id: record for record in new})
        self.unread += new
        checkpoint = (1, self.bronze_refresh)
        self.files += [Entry(name, frozenset({rule}), level=level, checkpoint=checkpoint) for name, rule in bad.items()]
        if not self.bronze_refresh and files:
            self._add("hunt/bronze/v1/0", read=len(new), files_listed=files, files_quarantined=len(bad))
        elif not self.bronze_refresh:
            self._add("hunt/bronze/v1/0", read=len(new) + len(bad), quarantined=len(bad))

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
        own = {row_id: each for row_id, each in made.items() if each.key in keys}
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
            missing: Counter[Any] = Counter(wanted)
            extra: Counter[Any] = Counter(actual)
            if missing != extra:
                differences.append(f"{name}: - {shown(missing - extra)} + {shown(extra - missing)}")
        return differences + ledger_differences(rows(lake / "_ops" / "hunt" / "ledger"), self.totals)

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
