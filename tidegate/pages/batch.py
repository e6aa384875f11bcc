"""The data of one batch's page, and the shorter entry in the history of its flow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from tidegate.report import BatchRecord, Verdict

Outcome = Literal["passed", "split", "refused", "written"]
"""``written``: no gate, and nothing was quarantined. ``split``: some rows or files were quarantined, the others passed."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Short form of a gate's verdict about a batch in one attempt."""

    at: str
    """Time of the verdict, ISO 8601 in UTC."""
    run_key: str
    outcome: str
    """``passed``, ``split`` or ``refused``."""
    met: int
    """Number of expectations that were met."""
    unmet: tuple[str, ...]
    """The expectations that were not met, one phrase each (`ExpectationResult.summary`)."""

    @classmethod
    def of(cls, verdict: Verdict, at: str, run_key: str) -> Self:
        """The short form of a verdict."""
        unmet = tuple(result.summary() for result in verdict.results if not result.success)
        return cls(at=at, run_key=run_key, outcome=verdict.outcome, met=len(verdict.results) - len(unmet), unmet=unmet)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One batch in the history of a flow."""

    flow: str
    checkpoint_version: int
    refresh: int
    batch_id: int
    run_key: str
    """The run that recorded the batch, or judged it last."""
    attempt: str
    at: str
    """Time of that, ISO 8601 in UTC."""
    record: BatchRecord | None
    """Its ledger line; None while it waits after a refusal."""
    judgements: tuple[Judgement, ...] = ()
    """All judgements, the oldest first."""

    @property
    def swap(self) -> bool:
        """Whether it is the swap of a new version; a swap has the id of the batch before it."""
        return self.record is not None and self.record.kind == "swap"

    @property
    def identity(self) -> tuple[int, int, bool, int]:
        """A key that is unique in the flow: batch ids restart at 0 with each checkpoint."""
        return (self.checkpoint_version, self.refresh, self.swap, self.batch_id)

    @property
    def page(self) -> str:
        """The file name of its page."""
        kind = "swap" if self.swap else "batch"
        return f"v{self.checkpoint_version}-{self.refresh}-{kind}-{self.batch_id}.html"

    @property
    def outcome(self) -> Outcome:
        """The outcome of the batch."""
        if self.record is None:
            return "refused"
        if self.record.quarantined or self.record.files_quarantined:
            return "split"
        return "passed" if self.judgements else "written"


@dataclass(frozen=True, kw_only=True)
class Batch(Entry):
    """All data of one batch: its entry, and what only its own page shows."""

    verdict: Verdict | None = None
    """The last verdict; None without a gate."""
    changes: Sequence[Mapping[str, str]] = ()
    """Schema changes in this batch, each as column title to text."""
    schema_change_id: str = ""
    """The schema change for which a frozen contract refused the batch, which a person has to answer; else empty."""

    def entry(self) -> Entry:
        """The entry for the history."""
        return Entry(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Entry)})
