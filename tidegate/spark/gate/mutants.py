"""Mutants: good rows, changed on purpose, to see which rules of a suite notice.

A suite that catches every one of them may still be wrong; a change that none of its rules catches is one that data may
undergo without anybody knowing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidegate.errors import SpecError
from tidegate.spark.gate import conditions
from tidegate.spark.gate.rules import DRIFT, STATISTICAL, UNIQUENESS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.spark.gate.suite import Rule, Suite

_NUMBER = "_mutant"
_QUERY = "unexpected_rows_expectation"
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_BITS: Mapping[type, int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_FAR = 1e12
"""Beyond any measure of daily life, within what a double holds exactly."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one column, in all rows."""

    column: str
    """``*`` for whole rows."""
    change: str
    value: Column | None
    """What the column becomes; None when rows are doubled and nothing else."""
    doubled: bool = False
    """Whether the rows stay as they were and the changed ones come beside them."""


@dataclass(frozen=True, kw_only=True)
class Caught:
    """Which rules noticed a mutant."""

    mutant: Mutant
    rules: tuple[str, ...]


def breed(schema: T.StructType, keys: Sequence[str] = (), sequence: Sequence[str] = ()) -> list[Mutant]:
    """The mutants of a table: what can befall a column of its type, doubled rows, and rows that share their key.

    Args:
        schema: The table's columns.
        keys: Its key, if it has one.
        sequence: What orders the rows of a key.
    """
    found = [
        Mutant(column=field.name, change=change, value=value)
        for field in schema.fields
        for change, value in _changes(field).items()
    ]
    found.append(Mutant(column="*", change="doubled rows", value=None, doubled=True))
    others = [field.name for field in schema.fields if field.name not in (*keys, *sequence) and _is_plain(field)]
    if keys and others:
        # A value that some row has is within every rule about values: only what looks at keys can notice.
        value = F.max(others[0]).over(Window.partitionBy(F.lit(1)))
        found.append(Mutant(column=others[0], change="same key, another value", value=value, doubled=True))
    return found


def _is_plain(field: T.StructField) -> bool:
    return not isinstance(field.dataType, T.MapType | T.ArrayType | T.StructType | T.VariantType)


def judge(suite: Suite, rows: DataFrame, mutants: Sequence[Mutant], tell: Callable[[int], None]) -> list[Caught]:
    """Which rules notice which mutant.

    Rules that look at one row are asked about all mutants in one pass; those that look at all rows are asked mutant by
    mutant, and only about columns that they name; a query may name any. Drift is left out: nobody knows what earlier
    batches were like.

    Args:
        suite: The rules.
        rows: Good rows; those that break a rule are left out here.
        mutants: What is tried.
        tell: Called with how many mutants are done.

    Raises:
        SpecError: No row is good, or a rule does not fit the rows.
    """
    lone = [rule for rule in suite.row_rules() if rule.type not in UNIQUENESS | STATISTICAL]
    wide = [rule for rule in suite.expectations if rule not in lone and rule.type not in DRIFT]
    good = _good(lone, rows).persist()
    try:
        if not good.count():
            raise SpecError("no row of the table keeps all rules, so there is nothing to change; mend the suite first")
        wide = [rule for rule in wide if not _broken([rule], good)]
        found = _flagged(lone, good, [(n, mutant) for n, mutant in enumerate(mutants) if not mutant.doubled])
        caught = []
        for number, mutant in enumerate(mutants):
            asked = [rule for rule in wide if mutant.doubled or mutant.column in rule.columns or rule.type == _QUERY]
            caught.append(
                Caught(mutant=mutant, rules=(*found.get(number, ()), *_broken(asked, _changed(good, mutant))))
            )
            tell(number + 1)
        return caught
    finally:
        good.unpersist()


def _changes(field: T.StructField) -> dict[str, Column]:
    """What can befall a column, by name, as the column's new value."""
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
    """The rules that Great Expectations finds broken; one that raises is not kept either."""
    if not rules:
        return []
    try:
        results = conditions.validate(rules, conditions.build_engine(rows))
    except Exception:
        if len(rules) > 1:
            return [name for rule in rules for name in _broken([rule], rows)]
        return [rules[0].name]
    return [
        rule.name for rule, result in zip(rules, results, strict=True) if _counts(rule, result) or not result.success
    ]


def _counts(rule: Rule, result: Any) -> bool:
    return rule.of_rows and bool(result.result.get("unexpected_count"))


def _flagged(
    rules: Sequence[Rule], good: DataFrame, mutants: Sequence[tuple[int, Mutant]]
) -> dict[int, tuple[str, ...]]:
    """The rules that flag a row of a mutant, by its number; one that raises on a mutant's rows has noticed it too."""
    if not rules or not mutants:
        return {}
    numbers = good.sparkSession.createDataFrame([(number,) for number, _ in mutants], f"{_NUMBER} int")
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
        found = rows.groupBy(_NUMBER).agg(*counts).collect()
    except Exception:
        if len(mutants) > 1:
            half = len(mutants) // 2
            return {**_flagged(rules, good, mutants[:half]), **_flagged(rules, good, mutants[half:])}
        if len(rules) > 1:
            alone = [_flagged([rule], good, mutants) for rule in rules]
            return {mutants[0][0]: tuple(name for one in alone for names in one.values() for name in names)}
        return {mutants[0][0]: (rules[0].name,)}
    return {row[_NUMBER]: tuple(rule.name for place, rule in enumerate(rules) if row[f"_r{place}"]) for row in found}
