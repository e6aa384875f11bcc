"""Rows on which the transform raises: found by bisecting the batch; they bypass the transform and go to quarantine.

One value that an expression or a Python function cannot process fails Spark's whole job, and the exception does not say which
row had it. Nothing is done before that happens. Then the records are persisted and numbered, and the transform is evaluated
for halves of them, and for halves of those that raise, down to single rows. The number of evaluations is bounded.

Rows that bypass the transform are added to its output with NULL in its columns and their rules in ``_broken``,
like records that cannot be parsed. So all later steps count, quarantine and balance them like any refused row.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Advice, Command, Edit, Either
from tidegate.checkpoints import refusal
from tidegate.errors import TransformRefusedError
from tidegate.formatting import count
from tidegate.reports.verdict import ExpectationResult, Verdict
from tidegate.spark.batch import ledger
from tidegate.spark.driver.failures import value_error
from tidegate.spark.intake import bronze

if TYPE_CHECKING:
    from tidegate.spark.job import Job, Transform

RULE = "transform_error"
"""The rule of a row on which the transform raises, with the class of the exception: ``transform_error(CAST_INVALID_INPUT)``."""
EVALUATIONS = 400
"""The maximum number of evaluations in search of such rows. One row among a million needs 20 to 40, a second one 20 more;
one evaluation of few rows takes a fraction of a second."""
SAMPLE = 16
"""If the transform raises on each of this many rows spread over a large batch, there is no search: its code is wrong."""
EXAMPLES = 3
"""How many rows the message of a refusal names by their source."""
NOT_BY_ROW = "also without the rows on which it raises alone: it does not treat each row on its own"
"""The problem of a transform that still raises when those rows bypass it."""
_NUMBER = "_record_number"


@dataclass(frozen=True, kw_only=True)
class Parted:
    """The records of a batch, parted."""

    rows: DataFrame
    """Those that the transform gets."""
    bypassing: DataFrame | None = None
    """Those that are refused without it, with their rules in ``_broken``; None for no row."""
    raised: Mapping[str, int] = field(default_factory=dict)
    """The number of rows on which the transform raises, by class of the exception."""

    def describe(self) -> str:
        """For a note: ``CAST_INVALID_INPUT on 2 rows``."""
        return f"{', '.join(self.raised)} on {count(sum(self.raised.values()), 'row')}"

    def add_bypassing(self, output: DataFrame) -> DataFrame:
        """The output of the transform with the rows that bypass it."""
        if self.bypassing is None:
            return output
        filtered, deleted = F.lit(None).cast("string").alias(hidden.FILTERED), F.lit(False).alias(hidden.DELETED)
        bypassing = self.bypassing.select(hidden.ROW_ID, hidden.ORIGIN, filtered, deleted, hidden.BROKEN)
        return output.unionByName(bypassing, allowMissingColumns=True)


def part_decided(job: Job, records: DataFrame, batch_id: int) -> Parted:
    """Part the records as an earlier attempt did: what it refused leaves before the transform, which would raise again."""
    refused = F.broadcast(job.work.refused_ids(job, records.sparkSession, batch_id))
    return Parted(
        rows=records.join(refused, hidden.ROW_ID, "left_anti").select(*records.columns),
        bypassing=records.join(refused.withColumnRenamed("rules", hidden.BROKEN), hidden.ROW_ID),
    )


def part(job: Job, records: DataFrame, transform: Transform, raised: str, batch_id: int) -> Parted:
    """Find the records on which the transform raises.

    Records that are broken already do not need the transform either: it may raise because their fields are NULL. Of a batch
    that a person takes out, no record needs it.

    Args:
        records: The parsed records, with ``_row_id`` and ``_origin``. An exception of reading or parsing them is passed on.
        transform: What raised; evaluated for parts of ``records``.
        raised: The class of the exception (`tidegate.spark.driver.failures.value_error`).

    Raises:
        TransformRefusedError: It raises on a larger share than declared, or the search needs more than `EVALUATIONS`.
    """
    numbered = records.withColumn(_NUMBER, F.monotonically_increasing_id()).persist()
    job.persisted.append(numbered)
    if job.work.decision(job, batch_id, "take") is not None:
        return _parted(numbered, {}, remaining=refusal.RULE)
    search = _Search(job, numbered, transform)
    problem = search.run(raised)
    if problem:
        raise refused(
            job,
            batch_id,
            search.counts,
            problem + _examples(job, numbered, sorted(search.raising)[:EXAMPLES]),
            rows=search.rows,
        )
    return _parted(numbered, search.raising)


def refused(
    job: Job, batch_id: int, raised: Mapping[str, int | None], problem: str, *, rows: int | None = None
) -> TransformRefusedError:
    """The refusal of a batch whose transform raises; recorded as a verdict, so that pages show it like the refusal of a gate.

    Args:
        raised: The number of rows by class of exception; None where they are not counted.
        problem: Why the rows do not go to quarantine, as the rest of a sentence about the transform.
    """
    flow, share = job.flow, job.resolved.pipeline.thresholds_of(job.flow).transform_error_share
    verdict = Verdict(
        flow=flow.name,
        batch_id=batch_id,
        app_id=job.app_id,
        suite="",
        suite_fingerprint="",
        code_fingerprint=job.resolved.code_fingerprint(),
        outcome="refused",
        results=tuple(
            ExpectationResult(
                expectation=RULE,
                rule=f"{RULE}({name})",
                severity="critical",
                success=False,
                evaluated=None if number is None else rows,
                unexpected=number,
                sentence=f"the transform does not raise {name}",
            )
            for name, number in raised.items()
        ),
    )
    if not job.work.of_entries:
        # Entries are no batch; they stay as they are.
        ledger.record_verdict(job, verdict)
        job.run.record_verdict(verdict)
    remedies: list[Advice] = [Edit("correct the transform", "transform")]
    if flow.kind.quarantines and not job.work.of_entries:
        remedies.append(Edit("raise transform_error_share", "declaration", "transform_error_share"))
        if verdict.is_batch and flow.kind.takes_batches:
            take = ("quarantine", "take", job.place.pipeline, flow.name, "--reason", "…")
            remedies.append(Command.tidegate(*take, says="send the batch to quarantine ({})"))
    return TransformRefusedError(
        verdict,
        transform=flow.transform or "",
        raised=tuple(raised),
        problem=problem,
        remedy=Either(*remedies),
        share=share,
    )


class _Search:
    """Searches the records of one batch."""

    def __init__(self, job: Job, numbered: DataFrame, transform: Transform) -> None:
        sound = F.coalesce(F.size(f"{hidden.ORIGIN}.broken"), F.lit(0)) <= 0
        self.sound, self.transform = numbered.where(sound), transform
        parts = numbered.groupBy(F.shiftright(_NUMBER, 33).alias("part")).agg(
            F.count("*").alias("rows"), F.count_if(~sound).alias("broken")
        )
        sizes = sorted(parts.collect(), key=lambda row: row["part"])
        # `monotonically_increasing_id` numbers the rows of each partition from a multiple of 2^33.
        self.parts = [int(row["part"]) << 33 for row in sizes]
        self.starts = [0, *accumulate(int(row["rows"]) for row in sizes)]
        self.rows = self.starts[-1]
        self.any_broken = any(row["broken"] for row in sizes)
        share = job.resolved.pipeline.thresholds_of(job.flow).transform_error_share
        self.share = None if job.work.of_entries else share
        self.evaluations = 0
        self.raising: dict[int, str] = {}
        """The class of the exception by the number of the record."""
        self.left: list[str] = []
        """The class of the exception of each part whose rows were not searched any more."""

    @property
    def counts(self) -> dict[str, int | None]:
        """The number of rows by class of exception; at least, if the search ended early."""
        return dict(Counter([*self.raising.values(), *self.left]))

    def run(self, raised: str) -> str:
        """Find all rows that raise; or return why not, as the end of a sentence about the transform.

        If the left half of records that raise does not, the right half does: it need not be evaluated.
        """
        allowed = (
            self.rows if self.share is None else max(math.floor(self.share * self.rows + 1e-9), int(self.share > 0))
        )
        if SAMPLE <= allowed <= self.rows // 2 and self._sample_raises():
            return f"on each of {count(SAMPLE, 'row')} spread over its {self.rows:,} (transform_error_share {self.share:g})"
        first = self._raised(0, self.rows) if self.any_broken else raised
        stack = [(0, self.rows, first)] if first is not None else []
        while stack:
            start, end, name = stack.pop()
            if end - start == 1:
                self.raising[self._number(start)] = name
                if len(self.raising) > allowed:
                    return f"on more rows than allowed: {self._at_least()} (transform_error_share {self.share:g})"
                continue
            if self.evaluations + 2 > EVALUATIONS:
                # Each part that is left has at least one.
                self.left = [name, *(other for _, _, other in stack)]
                return f"on {self._at_least()}; the search ended after {count(self.evaluations, 'evaluation')}"
            middle = (start + end) // 2
            left = self._raised(start, middle)
            right = name if left is None else self._raised(middle, end)
            stack += [(middle, end, right)] if right is not None else []
            stack += [(start, middle, left)] if left is not None else []
        return ""

    def _sample_raises(self) -> bool:
        """Whether it raises on each row of a sample; the first row without an exception, usually the first row, ends it."""
        for nth in range(SAMPLE):
            start = self.rows * nth // SAMPLE
            if (name := self._raised(start, start + 1)) is None:
                self.left.clear()
                return False
            self.left.append(name)
        return True

    def _at_least(self) -> str:
        return f"at least {len(self.raising) + len(self.left):,} of {count(self.rows, 'row')}"

    def _number(self, index: int) -> int:
        """The number of the record at this position."""
        part = bisect_right(self.starts, index) - 1
        return self.parts[part] + (index - self.starts[part])

    def _raised(self, start: int, end: int) -> str | None:
        """The class of the exception that the transform raises on these records; None if it raises none."""
        self.evaluations += 1
        part = self.sound.where(F.col(_NUMBER).between(self._number(start), self._number(end - 1))).drop(_NUMBER)
        return raised_by(lambda: self.transform(part).write.format("noop").mode("overwrite").save())


def raised_by(evaluate: Callable[[], Any]) -> str | None:
    """The class of the exception that a value raised in an evaluation; None for none. Other exceptions are passed on."""
    try:
        evaluate()
    except Exception as error:
        if (raised := value_error(error)) is None:
            raise
        return raised
    return None


def _parted(numbered: DataFrame, raising: Mapping[int, str], *, remaining: str | None = None) -> Parted:
    """Part the records.

    Args:
        raising: The class of the exception by the number of the record.
        remaining: A rule for all other records; None if the transform gets them.
    """
    numbers: dict[str, list[int]] = {}
    for number, name in raising.items():
        numbers.setdefault(name, []).append(number)
    broken = F.when(F.size(f"{hidden.ORIGIN}.broken") > 0, F.col(f"{hidden.ORIGIN}.broken"))
    for name, those in numbers.items():
        broken = broken.when(F.col(_NUMBER).isin(those), F.array(F.lit(f"{RULE}({name})")))
    otherwise = F.array() if remaining is None else F.array(F.lit(remaining))
    marked = numbered.withColumn(hidden.BROKEN, broken.otherwise(otherwise.cast("array<string>"))).drop(_NUMBER)
    return Parted(
        rows=marked.where(F.size(hidden.BROKEN) == 0).drop(hidden.BROKEN),
        bypassing=marked.where(F.size(hidden.BROKEN) > 0),
        raised=Counter(raising.values()),
    )


def _examples(job: Job, numbered: DataFrame, numbers: Sequence[int]) -> str:
    """Where some records are; empty for a keyed source, whose coordinates have the values of its keys."""
    landing = job.resolved.landing
    if landing is None:
        return ""
    source = F.to_json(f"{hidden.ORIGIN}.source").alias("source")
    rows = numbered.where(F.col(_NUMBER).isin(list(numbers))).orderBy(_NUMBER).select(source).collect()
    place = bronze.load(landing).place
    places = [place(json.loads(row["source"]), job.place.layout.landing_root) for row in rows]
    return f"; for example {', '.join(places)}" if places else ""
