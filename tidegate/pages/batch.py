"""One batch as its page tells it, and the shorter entry that the history of its flow keeps of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from tidegate.report import BatchRecord, Verdict

Outcome = Literal["passed", "split", "refused", "written"]
"""``written``: no gate judged it, and nothing was set aside. ``split``: something is in quarantine, the rest passed."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a gate said of a batch in one attempt, in short."""

    at: str
    """When, as ISO 8601 in UTC."""
    run_key: str
    outcome: str
    """``passed``, ``split`` or ``refused``."""
    met: int
    """Expectations that were met."""
    unmet: tuple[str, ...]
    """The others, each in a phrase (`ExpectationResult.told`)."""

    @classmethod
    def of(cls, verdict: Verdict, at: str, run_key: str) -> Self:
        """The short form of a verdict."""
        unmet = tuple(result.told() for result in verdict.results if not result.success)
        return cls(at=at, run_key=run_key, outcome=verdict.outcome, met=len(verdict.results) - len(unmet), unmet=unmet)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One batch in the history of a flow."""

    flow: str
    checkpoint_version: int
    refresh: int
    batch_id: int
    run_key: str
    """The run that recorded it, or that judged it last."""
    attempt: str
    at: str
    """When that was, as ISO 8601 in UTC."""
    record: BatchRecord | None
    """Its line in the ledger; None while it waits, refused."""
    judgements: tuple[Judgement, ...] = ()
    """Every judgement, the first one first."""

    @property
    def swap(self) -> bool:
        """Whether it is the swap of a new version, which has no batch id of its own."""
        return self.record is not None and self.record.kind == "swap"

    @property
    def identity(self) -> tuple[int, int, bool, int]:
        """What tells it from the flow's other batches: ids begin at 0 again with each checkpoint."""
        return (self.checkpoint_version, self.refresh, self.swap, self.batch_id)

    @property
    def page(self) -> str:
        """The file name of its page."""
        kind = "swap" if self.swap else "batch"
        return f"v{self.checkpoint_version}-{self.refresh}-{kind}-{self.batch_id}.html"

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        if self.record is None:
            return "refused"
        if self.record.quarantined or self.record.files_quarantined:
            return "split"
        return "passed" if self.judgements else "written"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        record = None if self.record is None else self.record.to_json()
        return {**dataclasses.asdict(dataclasses.replace(self, record=None)), "record": record}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """The reverse of `to_json`."""
        record = None if plain["record"] is None else BatchRecord.from_json(plain["record"])
        judgements = tuple(Judgement(**{**one, "unmet": tuple(one["unmet"])}) for one in plain["judgements"])
        return cls(**{**plain, "record": record, "judgements": judgements})


@dataclass(frozen=True, kw_only=True)
class Batch(Entry):
    """All that is known of one batch: its entry, and what its own page tells beside it."""

    verdict: Verdict | None = None
    """What the gate said last; None where no gate judged it."""
    changes: Sequence[Mapping[str, str]] = ()
    """Changes of schema that came with it, each as texts by what they tell."""
    drift: str = ""
    """The drift for which its frozen contract refused it, and that somebody has to answer; empty for any other batch."""

    def entry(self) -> Entry:
        """What the history keeps of it."""
        return Entry(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Entry)})
