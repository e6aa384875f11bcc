"""The gate of a flow: flags the rows of a batch that break a rule, and judges the batch."""

from __future__ import annotations

import importlib
import logging
import threading
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F

from tidegate.errors import SpecError
from tidegate.report import ExpectationResult, Verdict
from tidegate.spark.gate import conditions
from tidegate.spark.gate.rules import STATISTICAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from great_expectations.core import ExpectationValidationResult
    from pyspark.sql import Column, DataFrame

    from tidegate.spark.gate.suite import Rule, Suite

ERRORS = "_errors"
NOTES = "_notes"

_ONE_AT_A_TIME = threading.Lock()
"""GX does not say that its registries may be used from several threads, and flows may run side by side."""


def warm_up() -> None:
    """Import Great Expectations (5 to 10 s): for a background thread while the JVM starts."""
    for part in ("great_expectations", "great_expectations.render.renderer.inline_renderer"):
        importlib.import_module(part)
    logging.getLogger("great_expectations").setLevel(logging.ERROR)


class SuiteGate:
    """A suite, applied to one batch after another.

    Args:
        suite: What must hold.
        code_fingerprint: Of the flow's transform, for the verdict.
    """

    def __init__(self, suite: Suite, code_fingerprint: str) -> None:
        self.suite = suite
        self.code_fingerprint = code_fingerprint
        self._unflagged: DataFrame | None = None

    def flag(self, rows: DataFrame) -> DataFrame:
        """Add what each row breaks, in the same pass; no Spark job but for rules that compare with a statistic.

        Args:
            rows: What the transform made, without rows that are refused or filtered already.

        Returns:
            ``rows`` with ``_errors array<string>``, the short names of the critical and warning row rules that the row
            breaks, and ``_notes array<string>``, those of the info rules. Neither is null: rows split on
            ``size(_errors) = 0``.

        Raises:
            SpecError: A rule does not fit these rows, for example because a column is missing.
        """
        self._unflagged = rows
        rules = self.suite.row_rules()
        with _ONE_AT_A_TIME:
            broken = list(zip(rules, conditions.flag_columns(rules, rows), strict=True))
        errors = [F.when(flag, F.lit(rule.name)) for rule, flag in broken if rule.severity != "info"]
        notes = [F.when(flag, F.lit(rule.name)) for rule, flag in broken if rule.severity == "info"]
        return rows.withColumns({ERRORS: _names(errors), NOTES: _names(notes)})

    def judge(self, flagged: DataFrame, *, flow: str, batch_id: int) -> Verdict:
        """Ask Great Expectations whether the batch may pass.

        Args:
            flagged: What `flag` returned, persisted: it is read a few times. Let this be its first action, so that an
                expectation that raises is told by its name.
            flow: The flow's name, for the verdict.
            batch_id: The micro-batch, for the verdict.

        Returns:
            The verdict: ``refused`` if a critical expectation is not met, else ``split`` if any row has ``_errors``,
            else ``passed``.

        Raises:
            SpecError: An expectation raised, or its flags are not the rows that GX counts.
        """
        with _ONE_AT_A_TIME:
            results = self._validate(flagged)
        told = tuple(_told(rule, result) for rule, result in zip(self.suite.expectations, results, strict=True))
        broken = self._count(flagged, told)
        outcome: Literal["passed", "split", "refused"] = "split" if broken else "passed"
        if any(result.severity == "critical" and not result.success for result in told):
            outcome = "refused"
        return Verdict(
            flow=flow,
            batch_id=batch_id,
            suite=self.suite.name,
            suite_fingerprint=self.suite.fingerprint,
            code_fingerprint=self.code_fingerprint,
            outcome=outcome,
            results=told,
        )

    def _validate(self, flagged: DataFrame) -> list[ExpectationValidationResult]:
        rules = self.suite.expectations
        rows = flagged.drop(ERRORS, NOTES)
        try:
            return conditions.validate(rules, conditions.build_engine(rows))
        except Exception as error:
            bare = rows if self._unflagged is None else self._unflagged
            # From None: the cause may quote values of the data, and whoever logs this would log them.
            raise conditions.explain(rules, bare, error) from None

    def _count(self, flagged: DataFrame, told: Sequence[ExpectationResult]) -> int:
        """Rows with ``_errors``; and a guard that the rows we split are the rows that GX counted."""
        rules = self.suite.row_rules()
        counts = flagged.agg(F.count_if(F.size(ERRORS) > 0), *(_carriers(rule) for rule in rules)).first()
        assert counts is not None
        counted = {result.rule: result.unexpected for result in told}
        for rule, flags in zip(rules, counts[1:], strict=True):
            if flags != counted[rule.name] and rule.type not in STATISTICAL:
                raise SpecError(
                    f"expectation {rule.name} ({rule.type}) flags {flags:,} rows where Great Expectations counts "
                    f"{counted[rule.name]:,}: it cannot split this batch. Write the rule in another way."
                )
        return int(counts[0])


def _names(flags: list[Column]) -> Column:
    return F.array_compact(F.array(*flags)).cast("array<string>")


def _carriers(rule: Rule) -> Column:
    return F.count_if(F.array_contains(NOTES if rule.severity == "info" else ERRORS, rule.name))


def _told(rule: Rule, result: ExpectationValidationResult) -> ExpectationResult:
    counts = result.result if rule.of_rows else None
    return ExpectationResult(
        expectation=rule.type,
        rule=rule.name,
        severity=rule.severity,
        success=bool(result.success),
        # Nulls are outside the domain of a column rule; GX calls them missing.
        evaluated=None if counts is None else int(counts["element_count"] or 0) - int(counts.get("missing_count") or 0),
        unexpected=None if counts is None else int(counts["unexpected_count"] or 0),
        mostly=rule.mostly,
        sentence=rule.sentence,
    )
