"""The verdict of the gate about one batch, and the results of the expectations that it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidegate import formatting
from tidegate.lake import identity

Severity = Literal["critical", "warning", "info"]
STATISTIC = "statistic"


@dataclass(frozen=True, kw_only=True)
class ExpectationResult:
    """The result of one expectation for one batch."""

    expectation: str
    """GX's type, for example ``expect_column_values_to_be_between``; `STATISTIC` for a declared statistic."""
    rule: str
    """The rule's name as quarantine entries have it, for example ``between(dep_delay)``."""
    severity: Severity
    success: bool
    """Whether GX, with the expectation's ``mostly``, is satisfied."""
    evaluated: int | None = None
    """Rows that the expectation applies to; None for an expectation about the table."""
    unexpected: int | None = None
    """Of ``evaluated``, the rows that break it; None for an expectation about the table."""
    mostly: float | None = None
    observed: float | None = None
    """The value of a statistic: an aggregate, never a value of a row."""
    note: str = ""
    """A phrase about ``observed``."""
    sentence: str = ""
    """Great Expectations' description of the expectation; it quotes the suite, never the data."""

    def summary(self) -> str:
        """The rule and its counts in one phrase, without a value of the data."""
        if self.unexpected is None:
            return f"{self.rule} ({self.note})" if self.note else self.rule
        verb = "breaks" if self.unexpected == 1 else "break"
        needed = "" if self.mostly is None else f", mostly {self.mostly:g}"
        return f"{self.rule} ({self.unexpected:,} of {formatting.count(self.evaluated or 0, 'row')} {verb} it{needed})"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The gate's judgement of one batch; each attempt has its own."""

    flow: str
    app_id: str
    """The transaction under which ``batch_id`` counts: the numbers of backfills and replays are not those of batches
    (`tidegate.lake.identity`)."""
    suite: str
    """Empty if no suite judged it, because its transform raises, or because only statistics were measured."""
    suite_fingerprint: str
    code_fingerprint: str
    """Of the flow's transform module, from which ``plan`` sees whether a retry may pass."""
    outcome: Literal["passed", "split", "refused", "dropped"]
    """``split``: some rows were quarantined, the rest passed. ``dropped``: all were, because of a statistic."""
    results: tuple[ExpectationResult, ...] = ()
    """Per expectation the rule, its sentence, severity, success, evaluated and unexpected rows, ``mostly``, and for statistics
    the observed value. Never a value of a row."""
    batch_id: int

    @property
    def label(self) -> str:
        """``batch 3``, ``backfill 3``, ``replay 3``."""
        return identity.label(self.app_id, self.batch_id)

    @property
    def is_batch(self) -> bool:
        """Whether it judges a batch of the stream, which waits when it is refused; a backfill does not wait."""
        return identity.is_stream(self.app_id)

    @property
    def judge(self) -> str:
        """What judged the batch: its suite, its statistics alone, or its transform, which raised."""
        if self.suite:
            return f"suite {self.suite}"
        measured = bool(self.results) and all(result.expectation == STATISTIC for result in self.results)
        return "its statistics" if measured else "its transform"

    def refusing(self) -> tuple[ExpectationResult, ...]:
        """The expectations that refused the batch: critical and not met."""
        return tuple(result for result in self.results if result.severity == "critical" and not result.success)
