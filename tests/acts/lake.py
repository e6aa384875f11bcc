"""A prepared lake of the pipeline `acts`, of which every example gets a copy, and what an example does with it."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.acts.oracle import Contents, Event, Record, World, record_of
from tests.acts.project import FLOWS, TARGETS
from tests.deployment import Deployment

START = datetime(2026, 1, 1, tzinfo=UTC)
INCREMENTS: tuple[tuple[str, ...], ...] = (FLOWS, FLOWS, ("bronze", "rows"))
"""The flows of each increment that the prepared lake has. After the last one, silver, and so gold and the sink, have something to read."""
SNAPSHOTS = range(1, len(INCREMENTS))
"""Acts are done to the lake after one of these increments; older copies are from before."""
Sent = list[tuple[str, str, dict[str, Any], dict[str, Any] | None]]
"""The changes that the function of the sink got: id, type, key, row."""


def records(file: int) -> tuple[Record, ...]:
    """The records of a file: keys that come again, in days that come again."""
    numbers = range(file * 4, file * 4 + 4)
    return tuple(Record(n * 3 % 7, START + timedelta(minutes=n), n % 3, 10 + n) for n in numbers)


@dataclass
class Prepared:
    """The lake after each increment, with what it must hold and what the sink got."""

    deployment: Deployment
    sent: Sent
    """The list of the loaded module."""
    copies: Path
    worlds: list[World] = field(default_factory=list)
    sent_until: list[Sent] = field(default_factory=list)

    def prepare(self) -> None:
        """Run the increments."""
        world = World()
        for number, flows in enumerate(INCREMENTS):
            land(self.deployment, world, number)
            report = self.deployment.run("acts", flows)
            assert [flow.error for flow in report.flows] == [None] * len(flows)
            world.run(flows)
            self.worlds.append(world.copy())
            self.sent_until.append(list(self.sent))
            assert Lake(self, number).all_contents() == world.contents()
            shutil.copytree(self.root, self.copies / str(number), symlinks=True)

    @property
    def root(self) -> Path:
        """The folder of lake, landing zone and project."""
        return self.deployment.environment.lake.parent

    def start(self, snapshot: int) -> Lake:
        """The lake after an increment, for one example; the one before is gone."""
        for part in ("lake", "landing"):
            mirror(self.copies / str(snapshot) / part, self.root / part)
        self.sent[:] = self.sent_until[snapshot]
        return Lake(self, snapshot)


@dataclass
class Lake:
    """The lake of one example, and the events so far."""

    prepared: Prepared
    base: int
    events: list[tuple[str, Event]] = field(default_factory=list)
    """What happened to it since the snapshot: ``edit`` by another writer, which someone may have taken back, or ``sure``."""
    landed: int = field(init=False)

    def __post_init__(self) -> None:
        self.landed = self.base + 1

    @property
    def folder(self) -> Path:
        """The root of the lake."""
        return self.prepared.deployment.environment.lake

    def table(self, name: str) -> Path:
        """The folder of a table, ``silver.acts``."""
        return self.folder / "tables" / name.replace(".", "/")

    def older(self, snapshot: int) -> Path:
        """The copy of the lake after an increment."""
        return self.prepared.copies / str(snapshot) / "lake"

    def land(self) -> None:
        """The next file lands."""
        name, content = _file(self.landed)
        self.prepared.deployment.land(name, content, "acts")
        records_of_file = records(self.landed)
        self.events.append(("sure", lambda world: world.land(name, records_of_file)))
        self.landed += 1

    def edited(self, event: Event) -> None:
        """Another writer changed rows of a table."""
        self.events.append(("edit", event))

    def put_back(self, snapshot: int | None) -> None:
        """The whole lake is put back to a snapshot, or emptied; the landing zone and the sink stay as they are."""

        def event(world: World) -> None:
            landed, sink = world.landed, world.sink
            before = World() if snapshot is None else self.prepared.worlds[snapshot].copy()
            world.__dict__.update(before.__dict__ | {"landed": landed, "sink": sink})

        self.events = [("sure", each) for kind, each in self.events if kind == "sure"]
        self.events.append(("sure", event))

    def ran(self, flows: Sequence[str]) -> None:
        """These flows ran to their end."""
        done = tuple(flows)
        self.events.append(("sure", lambda world: world.run(done)))

    def worlds(self, *, is_followed: bool) -> list[World]:
        """What the lake may be: with every edit or, where tables were put back or damaged, with any of them."""
        edits = [number for number, (kind, _) in enumerate(self.events) if kind == "edit"]
        subsets = range(1 << len(edits))
        made = []
        for subset in reversed(subsets) if not is_followed else [max(subsets)]:
            left_out = {number for bit, number in enumerate(edits) if not subset >> bit & 1}
            world = self.prepared.worlds[self.base].copy()
            for number, (_, event) in enumerate(self.events):
                if number not in left_out:
                    event(world)
            made.append(world)
        return made

    def contents(self, flow: str) -> Counter[Any] | None:
        """What a flow has written, read with delta-rs or taken from the sink; None for a table that cannot be read."""
        if flow == "sink":
            return self._in_sink()
        path = self.table(TARGETS[flow])
        if not any((path / "_delta_log").glob("*")):
            return Counter()
        try:
            return Counter(ROWS[flow](row) for row in rows(path))
        except Exception:
            # Whatever delta-rs says about a damaged log or a column that is gone: the judge then wants a refusal.
            return None

    def all_contents(self) -> dict[str, Counter[Any] | None]:
        """`contents` of every flow."""
        return {flow: self.contents(flow) for flow in FLOWS}

    def _in_sink(self) -> Counter[Any]:
        sink: dict[int, Record] = {}
        for _, kind, key, row in self.prepared.sent:
            sink.pop(key["id"], None)
            if kind != "delete":
                assert row is not None
                sink[key["id"]] = record_of(row)
        return Counter(sink.values())


ROWS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "bronze": lambda row: record_of(json.loads(row["line"])),
    "silver": record_of,
    "gold": lambda row: (row["day"], row["orders"], row["amount"]),
    "rows": record_of,
    "firsts": lambda row: row["id"],
}
"""A row as the world has it, by the flow that writes it."""


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a table, in an order that depends on their values only."""
    from deltalake import DeltaTable

    made: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(made, key=repr)


def mirror(source: Path, target: Path) -> None:
    """Make a folder equal to another, by copying only files whose size or time of modification differ: ten times faster than all."""
    target.mkdir(parents=True, exist_ok=True)
    wanted = {entry.name: entry for entry in os.scandir(source)}
    for entry in os.scandir(target):
        other = wanted.get(entry.name)
        if other is None or other.is_dir() != entry.is_dir():
            shutil.rmtree(entry.path) if entry.is_dir() else Path(entry.path).unlink()
        elif not entry.is_dir():
            mine, theirs = entry.stat(), other.stat()
            if (mine.st_size, mine.st_mtime_ns) == (theirs.st_size, theirs.st_mtime_ns):
                del wanted[entry.name]
    for name, entry in wanted.items():
        if entry.is_dir():
            mirror(Path(entry.path), target / name)
        else:
            shutil.copy2(entry.path, target / name)


def _file(number: int) -> tuple[str, str]:
    lines = [
        json.dumps({"id": each.id, "at": each.at.isoformat(), "day": each.day, "amount": each.amount})
        for each in records(number)
    ]
    return f"{number}.json", "\n".join(lines) + "\n"


def land(deployment: Deployment, world: World, number: int) -> None:
    """The file of this number lands, in a lake and in the world that it must equal."""
    name, content = _file(number)
    deployment.land(name, content, "acts")
    world.land(name, records(number))


__all__ = ["Contents", "Lake", "Prepared", "records", "rows"]
