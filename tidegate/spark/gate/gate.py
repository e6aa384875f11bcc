"""The gate of a flow: flags rows that break a rule, and judges the batch."""

from __future__ import annotations

import importlib
import logging
import threading
from typing import TYPE_CHECKING, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.errors import SpecError
from tidegate.formatting import count
from tidegate.reports.verdict import ExpectationResult, Verdict
from tidegate.spark.gate import conditions
from tidegate.spark.gate.lake_context import LakeContext, activate
from tidegate.spark.gate.rules import OF_JUDGED_ROWS, STATISTICAL, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from great_expectations.core import ExpectationValidationResult

    from tidegate.spark.gate.suite import Suite

_ONE_AT_A_TIME = threading.Lock()
"""GX does not document its registries as thread-safe, and flows may run concurrently."""


def warm_up() -> None:
    """Import Great Expectations (5 to 10 s): for a background thread while the JVM starts."""
    for part in (
        "great_expectations",
        "great_expectations.render.renderer.inline_renderer",
        "tidegate.spark.gate.custom",
    ):
        importlib.import_module(part)
    logging.getLogger("great_expectations").setLevel(logging.ERROR)


class SuiteGate:
    """Applies a suite to one batch after another.

    Args:
        code_fingerprint: The fingerprint of the flow's transform, for the verdict.
        lake_context: Other tables, for rules that read them; None without a lake.
    """

    def __init__(self, suite: Suite, code_fingerprint: str, lake_context: LakeContext | None = None) -> None:
        self.suite = suite
        self.code_fingerprint = code_fingerprint
        self.lake_context = lake_context
        self.last_verdict: Verdict | None = None
        """The verdict of the batch that was judged last; None if the judgement raised."""
        self._unflagged: DataFrame | None = None

    def flag(self, rows: DataFrame, judged: Column | None = None) -> DataFrame:
        """Add the names of the rules that each row breaks. Starts a Spark job only for rules that need a statistic.

        Args:
            rows: The output of the transform.
            judged: The rows to which the suite applies; None means all. Other rows (refused or filtered before) get
                neither errors nor notes.

        Returns:
            ``rows`` with ``_errors array<string>``, the short names of the critical and warning row rules that the row
            breaks, and ``_notes array<string>``, those of the info rules. Neither is null: rows split on
            ``size(_errors) = 0``.

        Raises:
            SpecError: A rule cannot be applied to these rows, for example because a column is missing.
        """
        in_scope = rows if judged is None else rows.where(judged)
        self._unflagged = in_scope
        rules = self.suite.row_rules()
        if self.lake_context is not None:
            self.lake_context.begin_batch()
        with _ONE_AT_A_TIME, activate(self.lake_context):
            broken = list(zip(rules, conditions.flag_columns(rules, in_scope), strict=True))
        errors = _names({rule.name: flag for rule, flag in broken if rule.severity != "info"})
        notes = _names({rule.name: flag for rule, flag in broken if rule.severity == "info"})
        if judged is None:
            return rows.withColumns({hidden.ERRORS: errors, hidden.NOTES: notes})
        if any(rule.type in OF_JUDGED_ROWS for rule in rules):
            # Such a rule must not see the other rows; this costs a second scan.
            others = rows.where(~judged).withColumns({hidden.ERRORS: _names({}), hidden.NOTES: _names({})})
            return in_scope.withColumns({hidden.ERRORS: errors, hidden.NOTES: notes}).unionByName(others)
        return rows.withColumns(
            {
                hidden.ERRORS: F.when(judged, errors).otherwise(_names({})),
                hidden.NOTES: F.when(judged, notes).otherwise(_names({})),
            }
        )

    def judge(self, flagged: DataFrame, *, flow: str, app_id: str, batch_id: int, splits: bool = True) -> Verdict:
        """Validate the batch with Great Expectations.

        Args:
            flagged: The result of `flag`, reduced to the rows to which the suite applies. Persisted, because it is read
                several times. No other action may precede this one: otherwise an error of an expectation would be
                raised there, without the name of the expectation.
            flow: The flow's name, for the verdict.
            app_id: The transaction id, for the verdict: of the stream, or of backfills.
            batch_id: The number of the batch or backfill, for the verdict.
            splits: Whether the flow quarantines rows; a flow that recomputes groups does not.

        Returns:
            The verdict: ``refused`` if a critical expectation is not met, otherwise ``split`` if any row has ``_errors``
            and the flow quarantines rows, otherwise ``passed``.

        Raises:
            SpecError: An expectation raised an error.
        """
        self.last_verdict = None
        with _ONE_AT_A_TIME, activate(self.lake_context):
            results = self._validate(flagged)
        outcomes = tuple(_result(rule, result) for rule, result in zip(self.suite.expectations, results, strict=True))
        broken = any(result.unexpected and result.severity != "info" for result in outcomes)
        outcome: Literal["passed", "split", "refused"] = "split" if broken and splits else "passed"
        if any(result.severity == "critical" and not result.success for result in outcomes):
            outcome = "refused"
        self.last_verdict = Verdict(
            flow=flow,
            app_id=app_id,
            batch_id=batch_id,
            suite=self.suite.name,
            suite_fingerprint=self.suite.fingerprint,
            code_fingerprint=self.code_fingerprint,
            outcome=outcome,
            results=outcomes,
        )
        return self.last_verdict

    def _validate(self, flagged: DataFrame) -> list[ExpectationValidationResult]:
        rules = self.suite.expectations
        rows = flagged.drop(hidden.ERRORS, hidden.NOTES)
        try:
            return conditions.validate(rules, conditions.build_engine(rows))
        except Exception as error:
            unflagged = rows if self._unflagged is None else self._unflagged
            # From None: the cause may quote values of the data, which must not reach a log.
            raise conditions.explain(rules, unflagged, error) from None

    def check_split(self, split: Mapping[str, int]) -> None:
        """Check that each rule flagged exactly as many rows as Great Expectations counted.

        Args:
            split: Refused rows, by the short name of the rule.

        Raises:
            SpecError: The numbers differ; the batch cannot be split by this rule.
        """
        results = {result.rule: result for result in self.last_verdict.results} if self.last_verdict else {}
        for rule in self.suite.row_rules():
            unexpected = results[rule.name].unexpected if rule.name in results else None
            if rule.severity == "info" or rule.type in STATISTICAL or unexpected is None:
                continue
            if (flagged := split.get(rule.name, 0)) != unexpected:
                raise SpecError(
                    f"expectation {rule.name} ({rule.type}) flags {count(flagged, 'row')}, but Great Expectations "
                    f"counts {unexpected:,}: it cannot split this batch.",
                    Edit("write the rule in another way", "suite"),
                )


def _names(flags: Mapping[str, Column]) -> Column:
    named = [F.when(flag, F.lit(name)) for name, flag in flags.items()]
    return F.array_compact(F.array(*named)).cast("array<string>")


def _result(rule: Rule, result: ExpectationValidationResult) -> ExpectationResult:
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
