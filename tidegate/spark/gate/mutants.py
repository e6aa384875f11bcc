"""Mutation tests of a suite: valid rows are changed on purpose, to see which rules detect the change.

A mutant that no rule detects shows an error of the data that would pass the gate. A suite that detects all mutants may
still be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidegate.advice import Edit
from tidegate.errors import SpecError
from tidegate.spark.gate import conditions
from tidegate.spark.gate.rules import DRIFT, STATISTICAL, UNIQUENESS
from tidegate.spark.lake import local

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.spark.gate.rules import Rule
    from tidegate.spark.gate.suite import Suite

_NUMBER = "_mutant"
_QUERY = "unexpected_rows_expectation"
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_BITS: Mapping[type, int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_FAR = 1e12
"""Larger than usual measurements, and still an exact double."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one column, in all rows."""

    column: str
    """``*`` for whole rows."""
    change: str
    value: Column | None
    """The new value of the column; None if rows are only duplicated."""
    doubled: bool = False
    """Whether the changed rows are added to the original ones instead of replacing them."""


@dataclass(frozen=True, kw_only=True)
class MutantResult:
    """The rules that detected a mutant."""

    mutant: Mutant
    rules: tuple[str, ...]


def make_mutants(schema: T.StructType, keys: Sequence[str] = (), sequence: Sequence[str] = ()) -> list[Mutant]:
    """The mutants of a table: changes of each column by its type, duplicated rows, and rows that share a key.

    Args:
        keys: Its key columns, if any.
        sequence: The columns that order the rows of a key.
    """
    mutants = [
        Mutant(column=field.name, change=change, value=value)
        for field in schema.fields
        for change, value in _changes(field).items()
    ]
    mutants.append(Mutant(column="*", change="doubled rows", value=None, doubled=True))
    others = [field.name for field in schema.fields if field.name not in (*keys, *sequence) and _is_atomic(field)]
    if keys and others:
        # An existing value meets every rule about values, so only a rule about keys can detect it.
        value = F.max(others[0]).over(Window.partitionBy(F.lit(1)))
        mutants.append(Mutant(column=others[0], change="same key, another value", value=value, doubled=True))
    return mutants


def _is_atomic(field: T.StructField) -> bool:
    return not isinstance(field.dataType, T.MapType | T.ArrayType | T.StructType | T.VariantType)


def judge(
    suite: Suite, rows: DataFrame, mutants: Sequence[Mutant], on_progress: Callable[[int], None]
) -> list[MutantResult]:
    """Which rules detect which mutant.

    Rules about single rows are evaluated for all mutants in one pass. Rules about all rows are evaluated per mutant, and
    only for the columns that they name; a query is evaluated for all of them. Drift rules are left out, because there are
    no earlier batches to compare with.

    Args:
        rows: Sample rows; those that break a rule are removed.
        on_progress: Called with the number of finished mutants.

    Raises:
        SpecError: Every row breaks a rule, or a rule cannot be applied to the rows.
    """
    single_row = [rule for rule in suite.row_rules() if rule.type not in UNIQUENESS | STATISTICAL]
    whole_batch = [rule for rule in suite.expectations if rule not in single_row and rule.type not in DRIFT]
    good = _good(single_row, rows).persist()
    try:
        if not good.count():
            raise SpecError(
                "every row of the table breaks a rule, so there is no valid row to change",
                Edit("correct the suite first", "suite"),
            )
        whole_batch = [rule for rule in whole_batch if not _broken([rule], good)]
        flagged = _flagged(single_row, good, [(n, mutant) for n, mutant in enumerate(mutants) if not mutant.doubled])
        results = []
        for number, mutant in enumerate(mutants):
            relevant = [
                rule for rule in whole_batch if mutant.doubled or mutant.column in rule.columns or rule.type == _QUERY
            ]
            results.append(
                MutantResult(
                    mutant=mutant, rules=(*flagged.get(number, ()), *_broken(relevant, _changed(good, mutant)))
                )
            )
            on_progress(number + 1)
        return results
    finally:
        good.unpersist()


def _changes(field: T.StructField) -> dict[str, Column]:
    """New values of a column by the name of the change."""
    kind, column = field.dataType, F.col(field.name)
    changes: dict[str, Column] = {"null": F.lit(None)}
    if isinstance(kind, _WHOLE):
        most = 2 ** (_BITS[type(kind)] - 1) - 1
        changes |= {"too small": F.lit(-most), "too large": F.lit(most)}
    elif isinstance(kind, T.FloatType | T.DoubleType):
        changes |= {"too small": F.lit(-_FAR), "too large": F.lit(_FAR)}
    elif isinstance(kind, T.DecimalType):
        most = 10 ** (kind.precision - kind.scale) - 1
        changes |= {"too small": F.lit(str(-most)), "too large": F.lit(str(most))}
    elif isinstance(kind, T.DateType):
        changes |= {"late": F.date_sub(column, 400), "too far ahead": F.date_add(column, 400_000)}
    elif isinstance(kind, T.TimestampType | T.TimestampNTZType):
        changes |= {
            "late": column - F.expr("INTERVAL 400 DAYS"),
            "too far ahead": column + F.expr("INTERVAL 400000 DAYS"),
        }
    elif isinstance(kind, T.StringType):
        half = F.floor(F.length(column) / 2).cast("int")
        changes |= {"truncated": F.left(column, half), "a number": F.lit("4711.5")}
    return {change: value.cast(kind) for change, value in changes.items()}


def _good(rules: Sequence[Rule], rows: DataFrame) -> DataFrame:
    flags = conditions.flag_columns(rules, rows)
    return rows.where(~F.array_contains(F.array(F.lit(False), *flags), True))


def _changed(good: DataFrame, mutant: Mutant) -> DataFrame:
    changed = good if mutant.value is None else good.withColumn(mutant.column, mutant.value)
    return good.union(changed) if mutant.doubled else changed


def _broken(rules: Sequence[Rule], rows: DataFrame) -> list[str]:
    """The names of the rules that are not met; a rule that raises counts as not met."""
    if not rules:
        return []
    try:
        results = conditions.validate(rules, conditions.build_engine(rows))
    except Exception:
        if len(rules) > 1:
            return [name for rule in rules for name in _broken([rule], rows)]
        return [rules[0].name]
    return [
        rule.name
        for rule, result in zip(rules, results, strict=True)
        if _has_unexpected(rule, result) or not result.success
    ]


def _has_unexpected(rule: Rule, result: Any) -> bool:
    return rule.of_rows and bool(result.result.get("unexpected_count"))


def _flagged(
    rules: Sequence[Rule], good: DataFrame, mutants: Sequence[tuple[int, Mutant]]
) -> dict[int, tuple[str, ...]]:
    """The rules that flag a row of a mutant, by its number; a rule that raises for a mutant counts as well."""
    if not rules or not mutants:
        return {}
    numbers = local.from_rows(good.sparkSession, [(number,) for number, _ in mutants], f"{_NUMBER} int")
    crossed = good.crossJoin(F.broadcast(numbers))
    changed: dict[str, Column] = {}
    for number, mutant in mutants:
        if mutant.value is not None:
            before = changed.get(mutant.column, F.col(mutant.column))
            changed[mutant.column] = F.when(F.col(_NUMBER) == number, mutant.value).otherwise(before)
    rows = crossed.withColumns(changed)
    try:
        flags = conditions.flag_columns(rules, rows)
        counts = [F.count_if(flag).alias(f"_r{place}") for place, flag in enumerate(flags)]
        flag_counts = rows.groupBy(_NUMBER).agg(*counts).collect()
    except Exception:
        if len(mutants) > 1:
            half = len(mutants) // 2
            return {**_flagged(rules, good, mutants[:half]), **_flagged(rules, good, mutants[half:])}
        if len(rules) > 1:
            by_rule = [_flagged([rule], good, mutants) for rule in rules]
            return {mutants[0][0]: tuple(name for result in by_rule for names in result.values() for name in names)}
        return {mutants[0][0]: (rules[0].name,)}
    return {
        row[_NUMBER]: tuple(rule.name for place, rule in enumerate(rules) if row[f"_r{place}"]) for row in flag_counts
    }
