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
from tidegate.spark.gate.rules import OF_JUDGED_ROWS, STATISTICAL, TOLD
from tidegate.spark.gate.surroundings import seen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from great_expectations.core import ExpectationValidationResult
    from pyspark.sql import Column, DataFrame

    from tidegate.spark.gate.suite import Rule, Suite
    from tidegate.spark.gate.surroundings import Surroundings

ERRORS = "_errors"
NOTES = "_notes"

_ONE_AT_A_TIME = threading.Lock()
"""GX does not say that its registries may be used from several threads, and flows may run side by side."""


def warm_up() -> None:
    """Import Great Expectations (5 to 10 s): for a background thread while the JVM starts."""
    for part in ("great_expectations", "great_expectations.render.renderer.inline_renderer", "tidegate.spark.gate.own"):
        importlib.import_module(part)
    logging.getLogger("great_expectations").setLevel(logging.ERROR)


class SuiteGate:
    """A suite, applied to one batch after another.

    Args:
        suite: What must hold.
        code_fingerprint: Of the flow's transform, for the verdict.
        surroundings: Other tables and earlier batches, for rules that look at them; None where there is no lake.
    """

    def __init__(self, suite: Suite, code_fingerprint: str, surroundings: Surroundings | None = None) -> None:
        self.suite = suite
        self.code_fingerprint = code_fingerprint
        self.surroundings = surroundings
        self.last_verdict: Verdict | None = None
        """The verdict of the batch that was judged last; None when judging raised."""
        self._unflagged: DataFrame | None = None

    def flag(self, rows: DataFrame, judged: Column | None = None) -> DataFrame:
        """Add what each row breaks, in the same pass; no Spark job but for rules that compare with a statistic.

        Args:
            rows: What the transform made.
            judged: Which of them the suite is about; all of them without it. The others (refused or filtered already)
                have neither errors nor notes.

        Returns:
            ``rows`` with ``_errors array<string>``, the short names of the critical and warning row rules that the row
            breaks, and ``_notes array<string>``, those of the info rules. Neither is null: rows split on
            ``size(_errors) = 0``.

        Raises:
            SpecError: A rule does not fit these rows, for example because a column is missing.
        """
        among = rows if judged is None else rows.where(judged)
        self._unflagged = among
        rules = self.suite.row_rules()
        if self.surroundings is not None:
            self.surroundings.begin()
        with _ONE_AT_A_TIME, seen(self.surroundings):
            broken = list(zip(rules, conditions.flag_columns(rules, among), strict=True))
        errors = _names({rule.name: flag for rule, flag in broken if rule.severity != "info"})
        notes = _names({rule.name: flag for rule, flag in broken if rule.severity == "info"})
        if judged is None:
            return rows.withColumns({ERRORS: errors, NOTES: notes})
        if any(rule.type in OF_JUDGED_ROWS for rule in rules):
            # It costs a second scan.
            rest = rows.where(~judged).withColumns({ERRORS: _names({}), NOTES: _names({})})
            return among.withColumns({ERRORS: errors, NOTES: notes}).unionByName(rest)
        return rows.withColumns(
            {ERRORS: F.when(judged, errors).otherwise(_names({})), NOTES: F.when(judged, notes).otherwise(_names({}))}
        )

    def judge(self, flagged: DataFrame, *, flow: str, app_id: str, batch_id: int, splits: bool = True) -> Verdict:
        """Ask Great Expectations whether the batch may pass.

        Args:
            flagged: What `flag` returned, of persisted rows: they are read a few times. Only rows that the suite is
                about. Let this be its first action, so that an expectation that raises is told by its name.
            flow: The flow's name, for the verdict.
            app_id: The transaction, for the verdict: whether it is a batch of the stream or a replay.
            batch_id: Its number, for the verdict.
            splits: Whether the flow sets rows aside; one that recomputes groups does not.

        Returns:
            The verdict: ``refused`` if a critical expectation is not met, else ``split`` if any row has ``_errors`` and
            the flow sets rows aside, else ``passed``.

        Raises:
            SpecError: An expectation raised.
        """
        self.last_verdict = None
        if self.surroundings is not None:
            self.surroundings.judging(app_id, batch_id)
        with _ONE_AT_A_TIME, seen(self.surroundings):
            results = self._validate(flagged)
        told = tuple(_told(rule, result) for rule, result in zip(self.suite.expectations, results, strict=True))
        broken = any(result.unexpected and result.severity != "info" for result in told)
        outcome: Literal["passed", "split", "refused"] = "split" if broken and splits else "passed"
        if any(result.severity == "critical" and not result.success for result in told):
            outcome = "refused"
        self.last_verdict = Verdict(
            flow=flow,
            app_id=app_id,
            batch_id=batch_id,
            suite=self.suite.name,
            suite_fingerprint=self.suite.fingerprint,
            code_fingerprint=self.code_fingerprint,
            outcome=outcome,
            results=told,
        )
        return self.last_verdict

    def _validate(self, flagged: DataFrame) -> list[ExpectationValidationResult]:
        rules = self.suite.expectations
        rows = flagged.drop(ERRORS, NOTES)
        try:
            return conditions.validate(rules, conditions.build_engine(rows))
        except Exception as error:
            bare = rows if self._unflagged is None else self._unflagged
            # From None: the cause may quote values of the data, and whoever logs this would log them.
            raise conditions.explain(rules, bare, error) from None

    def check_split(self, split: Mapping[str, int]) -> None:
        """A guard: the rows that are split off are as many as Great Expectations counted.

        Args:
            split: Rows that are refused, by the short name of the rule.

        Raises:
            SpecError: A rule's rows are more, or fewer; the batch cannot be split by it.
        """
        results = {result.rule: result for result in self.last_verdict.results} if self.last_verdict else {}
        for rule in self.suite.row_rules():
            counted = results[rule.name].unexpected if rule.name in results else None
            if rule.severity == "info" or rule.type in STATISTICAL or counted is None:
                continue
            if (flags := split.get(rule.name, 0)) != counted:
                raise SpecError(
                    f"expectation {rule.name} ({rule.type}) flags {flags:,} rows where Great Expectations counts "
                    f"{counted:,}: it cannot split this batch. Write the rule in another way."
                )


def _names(flags: Mapping[str, Column]) -> Column:
    named = [F.when(flag, F.lit(name)) for name, flag in flags.items()]
    return F.array_compact(F.array(*named)).cast("array<string>")


def _told(rule: Rule, result: ExpectationValidationResult) -> ExpectationResult:
    counts = result.result if rule.of_rows else None
    told = result.result if rule.type in TOLD else {}
    return ExpectationResult(
        expectation=rule.type,
        rule=rule.name,
        severity=rule.severity,
        success=bool(result.success),
        # Nulls are outside the domain of a column rule; GX calls them missing.
        evaluated=None if counts is None else int(counts["element_count"] or 0) - int(counts.get("missing_count") or 0),
        unexpected=None if counts is None else int(counts["unexpected_count"] or 0),
        mostly=rule.mostly,
        observed=told.get("observed_value"),
        note=told.get("details", {}).get("note", ""),
        sentence=rule.sentence,
    )
