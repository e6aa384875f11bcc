"""The line of a batch in the ledger: one dataclass, whose fields are the columns wherever a line is stored, read or shown.

A field that is a part of a balance says so, with how pages show it. So the table (`tidegate.ops.ledger`), ``tidegate query``,
``tidegate ledger``, the report and the pages have a new field without another edit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from tidegate import formatting
from tidegate.lake import identity

Unit = Literal["row", "file", "group", "result", "entry"]
Look = Literal["written", "quarantined", "other"]
"""The class of a part in the style sheet."""


@dataclass(frozen=True, kw_only=True)
class BalancePart:
    """A count that is a part of a balance."""

    of: tuple[Unit, ...]
    """What it counts."""
    look: Look
    note: str
    """Explanation for pages."""
    rare: bool
    """Whether pages show it only of batches that have it."""


def part(*of: Unit, look: Look = "other", note: str = "", rare: bool = False, default: Any = 0) -> Any:
    """A field that is a part of the balances of these units, after those above it."""
    options = {"default_factory" if callable(default) else "default": default}
    return field(metadata={"part": BalancePart(of=of, look=look, note=note, rare=rare)}, **options)


Kind = Literal[
    "append",
    "upsert",
    "recompute",
    "snapshot",
    "swap",
    "backfill",
    "replay",
    "undo",
    "waive",
    "expire",
    "retire",
    "retire_waived",
    "gap",
    "send",
    "emit",
]


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """One micro-batch's line in the ledger. Counts are source rows (distinct ``_row_id``) unless they say otherwise.

    Each kind has balances of its own (`Balance`): of rows, of groups, of files, or of the entries that a decision is about. A backfill
    has one of rows and one of the groups of its keys.
    """

    flow: str
    kind: Kind
    """``append``, ``upsert`` and ``recompute`` are batches of rows and groups; ``swap`` is of a new version, ``backfill`` of a window,
    ``retire_waived`` of waived entries that a new checkpoint version, or a later snapshot, judged again; ``retire`` of open ones.
    ``send``: ``written`` counts the changes that a sink got, ``target_version`` is the newest version of the source that they are of.
    ``emit``: ``results`` counts the results of a stateful operator, which are of all rows so far; ``read`` the rows since the last
    batch with results.
    ``snapshot``: ``written`` counts the rows of the snapshot that pass, and ``groups`` the keys that were compared, of its rows and
    of those that it lacks; beside changes it has the transaction id of the checkpoint with ``/snapshot``.
    ``replay``: ``read`` counts the claimed entries, ``quarantined`` those that were refused again.
    ``waive``, ``expire``, ``retire``: ``read`` counts the open entries that the decision is about, ``rules`` the rules that they
    broke. ``gap``: ``read`` counts the lost messages that a person accepted, or those that a start skipped, ``filtered`` names their
    offsets. ``undo``: ``groups`` counts the rows that the undone run changed: those put back are ``upserted`` and ``deleted``,
    ``unchanged`` those left; ``quarantined`` and ``closed`` count the entries that are open again, and those that no longer are."""
    app_id: str
    """The transaction id: it ends in ``/window`` for backfills and reingests of a window, in ``/replay``, ``/undo``, ``/decision``, and in
    ``/gap`` for accepted gaps and losses, and for starts."""
    batch_id: int
    """From 0 per ``app_id``: only the two together identify a batch."""
    read: int = 0
    """Source rows; of a ``gap`` lost offsets or rows; of an ``emit`` rows of the source since the last batch with results, which do not
    balance."""
    written: int = part("row", "result", look="written", note="in the target")
    quarantined: int = part("row", look="quarantined", note="broke a rule; see the quarantine table")
    late: int = part("row", note="the event time is before the watermark; see the late table", rare=True)
    """Rows whose event time is before the flow's watermark."""
    filtered: Mapping[str, int] = part("row", note="excluded by a rule of the transform", rare=True, default=dict)
    """Rows by the name of the transform's rule that filtered them."""
    deduplicated: int = part("row", note="another row of the batch has the same key and a higher order", rare=True)
    superseded: int = part("row", note="the table has a newer row with the key", rare=True)
    already_read: int = part("row", note="by an earlier version", rare=True)
    groups: int = 0
    """Groups; of a swap rows of the whole table, of a backfill its keys, of a snapshot the compared keys, of an undo changed rows."""
    upserted: int = part("group", look="written", note="new or changed")
    deleted: int = part("group", look="quarantined", note="no longer have rows")
    unchanged: int = part("group", "result", note="computed with the same result, not written")
    overtaken: int = part("group", note="the table has a later change of the key than the snapshot", rare=True)
    results: int = 0
    """Rows that a stateful operator returned: windows that closed, or the present value of changed keys, or decisions."""
    files_listed: int = 0
    """Files of a batch that reads files."""
    files_opened: int = part("file", look="written")
    files_quarantined: int = part(
        "file", look="quarantined", note="could not be read completely; the other files were processed"
    )
    files_already_read: int = part("file", note="by an earlier version", rare=True)
    closed: int = part("entry", look="written", note="closed by the decision")
    """Quarantine entries that a decision closed, counted by the commit of the quarantine table; those that an undo closed."""
    rules: Mapping[str, int] = field(default_factory=dict)
    """Quarantined rows by the rule they broke; a row that broke two rules counts in both."""
    state_rows: int | None = None
    """Rows of the state after the batch; None for a flow without state."""
    state_memory_bytes: int | None = None
    """Memory of the state in RocksDB after the batch."""
    target_version: int | None = None
    """The Delta version that this batch committed, if any; of a sink the newest version of the source that it was sent."""
    source_versions: Mapping[str, int] = field(default_factory=dict)
    """The version of each source table from which groups were computed, or of bronze with a snapshot; empty for other kinds."""
    suite_fingerprint: str | None = None
    """Of the flow's suite when the batch was split; None without a gate, and for a line that is not about rows of a batch."""
    code_fingerprint: str | None = None
    """Of the module of the flow's transform, likewise."""
    watermark: datetime | None = None
    """The watermark of the flow after this batch (`tidegate.times.lateness`), of results that of the batch; None without one."""
    planned_at: datetime | None = None
    """When the batch of a landing flow was planned: ``_ingested_at`` of its rows, which so belong to ``target_version``."""
    undoes: str | None = None
    """Of an undo: the key of the run whose commits it put back (`tidegate.lake.layout.run_key`)."""
    seconds: float = 0.0
    """How long the batch took."""

    def imbalance(self) -> int:
        """How many rows, groups or files have no disposition, or more than one; 0 when the line balances."""
        return sum(balance.imbalance(self) for balance in self.balances)

    @property
    def balances(self) -> tuple[Balance, ...]:
        """What a line of its kind must balance; the first is what it is about."""
        return (DECISION,) if identity.is_decision(self.kind) else _BY_KIND.get(self.kind, (ROWS, FILES, GROUPS))

    @property
    def changed_rows(self) -> int:
        """Rows of the target that it wrote or deleted; where it counts groups, these, of which the source rows are parts."""
        return GROUPS.changed(self) if self.groups else self.written

    @property
    def label(self) -> str:
        """``batch 3``, ``backfill 3``, ``replay 3``, ``swap``, ``waive``."""
        return identity.label(self.app_id, self.batch_id, self.kind)

    @property
    def is_batch(self) -> bool:
        """Whether it is a batch of the stream; a swap, a backfill, a replay and a decision are not."""
        return self.kind in identity.BATCHES and identity.is_stream(self.app_id)

    @property
    def can_be_undone(self) -> bool:
        """Whether it is a backfill, a replay of rows or an undo."""
        derived = self.kind in ("backfill", "replay", identity.UNDO) or (self.kind == "recompute" and not self.is_batch)
        return derived and not self.files_listed


PARTS: Mapping[str, BalancePart] = {
    each.name: each.metadata["part"] for each in dataclasses.fields(LedgerLine) if "part" in each.metadata
}
"""The counts that are parts of balances, in their order."""


@dataclass(frozen=True)
class Balance:
    """One equation over the counts of a ledger line: the total is the sum of the parts."""

    counted: Unit
    verb: str
    """What a batch does to all of them: it reads rows, and lists files."""
    total: str
    """The name of a count."""
    changes: tuple[str, ...]
    """The parts that changed the target."""
    unit: str
    """What is counted, for people."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of counts; a count by rule is the sum over its rules."""
        return tuple(name for name, each in PARTS.items() if self.counted in each.of)

    @property
    def units(self) -> str:
        """The plural of the unit."""
        return "entries" if self.unit == "entry" else f"{self.unit}s"

    def amount(self, counts: object) -> int:
        """The total, of a record with these counts."""
        return count(counts, self.total)

    def changed(self, counts: object) -> int:
        """How many changed the target."""
        return sum(count(counts, part) for part in self.changes)

    def imbalance(self, counts: object) -> int:
        """How many have no part in the total, or more than one; 0 when they balance."""
        return abs(self.amount(counts) - sum(count(counts, part) for part in self.parts))

    def lines(self, counts: object) -> Iterator[tuple[str, int]]:
        """The parts that are not 0, with their names for people."""
        for part in self.parts:
            if number := count(counts, part):
                yield label(part), number

    def sentence(self, counts: object) -> str:
        """The total and its parts in one phrase."""
        parts = ", ".join(f"{number:,} {name}" for name, number in self.lines(counts))
        return f"{formatting.count(self.amount(counts), self.unit, self.units)} {self.verb}{parts and ': '}{parts}"


ROWS = Balance("row", "read", "read", ("written",), "row")
GROUPS = Balance("group", "recomputed", "groups", ("upserted", "deleted"), "group")
SWAPPED = dataclasses.replace(GROUPS, unit="row", verb="compared")
COMPARED = dataclasses.replace(GROUPS, unit="key", verb="compared")
UNDONE = dataclasses.replace(GROUPS, unit="row", verb="to undo")
FILES = Balance("file", "listed", "files_listed", ("files_opened",), "file")
RESULTS = Balance("result", "made", "results", ("written",), "result")
DECISION = Balance("entry", "decided", "read", (), "entry")

_BY_KIND = {
    "recompute": (GROUPS,),
    "snapshot": (ROWS, COMPARED),
    "emit": (RESULTS,),
    "swap": (SWAPPED,),
    identity.UNDO: (UNDONE,),
}


def label(part: str) -> str:
    """The name of a part for people."""
    return part.removeprefix("files_").replace("_", " ")


def count(counts: object, name: str) -> int:
    """One count of a record."""
    value = getattr(counts, name)
    return sum(value.values()) if isinstance(value, Mapping) else int(value)
