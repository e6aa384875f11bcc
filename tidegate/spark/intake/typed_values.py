"""Casts the raw text of each field to its declared type, and records misfits, rescued texts and broken rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.schema.contract import Terms
from tidegate.schema.ddl import Column
from tidegate.schema.names import AS_THEY_ARE, FieldNames
from tidegate.spark.intake.casts import BLANKS, cast, trims
from tidegate.spec import ChangeRecords, Formats
from tidegate.spec.formats import DEFAULT_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

MASK_BITS = 62
"""Fields per BIGINT of the masks ``filled`` (the field has a value) and ``unfit`` (the value does not fit its type)."""


def text_column(column: Column) -> str:
    """The name of the column with a field's raw text."""
    return f"_text_{column.name}"


def cast_fields(
    texts: DataFrame,
    columns: Sequence[Column],
    null_values: tuple[str, ...],
    terms: Terms,
    extra: tuple[str, ...] = (),
    formats: Formats = DEFAULT_FORMATS,
    changes: ChangeRecords | None = None,
    outside: Collection[str] = (),
    names: FieldNames = AS_THEY_ARE,
) -> DataFrame:
    """Cast each field on its own and record which fields do not fit. Three projections, so that each cast runs once.

    Args:
        texts: One raw text per field (`text_column`), ``_unknown``, ``_malformed``, and the metadata columns of the record.
        null_values: Texts that mean "no value" between blanks that are trimmed; others the caller has replaced.
        terms: The contract's terms: which values are rescued or discarded.
        extra: Columns to pass through.
        formats: The spellings that the source uses.
        changes: The declaration of change records, which have ``_deletes`` and ``_filters`` beside the texts.
        outside: Fields that are not in the record, which one that deletes has too.
        names: Names in records that differ from those of the columns. They become the columns' comments, which Spark passes on
            with a column, also under another name.

    Returns:
        The columns of `tidegate.spark.intake.parse.parse`.
    """

    def without_null_values(column: Column) -> SparkColumn:
        text = F.col(text_column(column))
        has_value = F.col(hidden.MALFORMED).isNull()
        # The record's reader has decided about texts as they are: of a STRING field an empty one can be a value (quoted in CSV).
        if trims(column.type, formats):
            has_value &= ~F.trim(text, F.lit(BLANKS)).isin(*null_values)
        return F.when(has_value, text).alias(text_column(column))

    of_change = [hidden.DELETES, hidden.FILTERS] if changes is not None else []
    metadata = [
        hidden.ROW_ID,
        hidden.WRITER,
        hidden.AT,
        hidden.RAW,
        hidden.SOURCE,
        hidden.INGESTED_AT,
        hidden.ARRIVAL,
        hidden.MALFORMED,
        *of_change,
        *extra,
    ]
    raw = texts.select(*metadata, hidden.UNKNOWN, *[without_null_values(column) for column in columns])

    def value(column: Column) -> SparkColumn:
        typed = cast(F.col(text_column(column)), column.type, formats)
        comment = names.description(column.name)
        return typed.alias(column.name, **({"metadata": {"comment": comment}} if comment else {}))

    values = [value(column) for column in columns]
    typed = raw.select("*", *values)
    readable = F.col(hidden.MALFORMED).isNull()
    unknown = F.when(readable & (F.size(hidden.UNKNOWN) > 0), F.col(hidden.UNKNOWN))
    rescued = _rescued(unknown, columns, terms)
    origin = F.struct(
        F.col(hidden.AT).alias("at"),
        F.col(hidden.RAW).alias("raw"),
        F.col(hidden.SOURCE).alias("source"),
        F.array_compact(F.array(*_broken(columns, terms, changes, outside))).alias("broken"),
        F.col(hidden.INGESTED_AT).alias("ingested_at"),
        F.col(hidden.ARRIVAL).alias("arrival"),
        F.col(hidden.WRITER).alias("writer"),
        unknown.alias("unknown"),
        rescued.alias("rescued"),
        _mask([F.col(text_column(column)).isNotNull() for column in columns]).alias("filled"),
        _mask([_unfit(column) for column in columns]).alias("unfit"),
        *[F.col(name).alias(name.removeprefix("_")) for name in of_change],
    )
    fields = [column.name for column in columns]
    deleted = [F.col(hidden.DELETES).alias(hidden.DELETED)] if changes is not None else []
    return typed.select(
        hidden.ROW_ID, origin.alias(hidden.ORIGIN), *fields, rescued.alias(hidden.RESCUED), *deleted, *extra
    )


def _broken(
    columns: Sequence[Column], terms: Terms, changes: ChangeRecords | None, outside: Collection[str]
) -> list[SparkColumn]:
    """One column per built-in rule: its name where the record breaks it, else NULL."""
    has_record = F.col(hidden.MALFORMED).isNull() & F.col(hidden.RAW).isNotNull()
    broken = [F.col(hidden.MALFORMED)]
    for column in columns:
        if not column.is_text and terms.keeps_row(column.name) is None:
            broken.append(F.when(_unfit(column), F.lit(f"wrong_type({column.name})")))
        if column.required:
            needs_value = has_record
            if changes is not None:
                # A record that deletes has what is outside its row, and of the row perhaps only the key.
                may_lack = (
                    F.lit(False) if column.name in changes.paths or column.name in outside else F.col(hidden.DELETES)
                )
                needs_value &= F.col(hidden.FILTERS).isNull() & ~may_lack
            broken.append(F.when(needs_value & F.col(text_column(column)).isNull(), F.lit(f"required({column.name})")))
    return broken


def _rescued(unknown: SparkColumn, columns: Sequence[Column], terms: Terms) -> SparkColumn:
    """Undeclared fields, except discarded and evolved ones, and texts that do not fit a column whose values are rescued."""
    discards_all, exceptions = terms.discards()
    names = [F.lit(name) for name in exceptions]
    evolved = [F.lit(name) for name in terms.evolved]

    def is_rescued(name: SparkColumn, _: SparkColumn) -> SparkColumn:
        is_exception = name.isin(*names) if names else F.lit(False)
        rescued = is_exception if discards_all else ~is_exception
        return rescued & ~name.isin(*evolved) if evolved else rescued

    rescued = F.map_filter(unknown, is_rescued) if discards_all or names or evolved else unknown
    unfit = [c for c in columns if not c.is_text and terms.keeps_row(c.name) == "rescue"]
    if unfit:
        empty = F.create_map().cast("map<string,string>")
        pairs = [part for c in unfit for part in (F.lit(c.name), F.when(_unfit(c), F.col(text_column(c))))]
        texts = F.map_filter(F.create_map(*pairs), lambda _, text: text.isNotNull())
        rescued = F.map_concat(F.coalesce(rescued, empty), texts)
    return F.when(F.size(rescued) > 0, rescued)


def _unfit(column: Column) -> SparkColumn:
    if column.is_text:
        return F.lit(False)
    return F.col(text_column(column)).isNotNull() & F.col(column.name).isNull()


def _mask(flags: Sequence[SparkColumn]) -> SparkColumn:
    """Pack flags into ``array<bigint>``, one bit per field in the order of the schema."""
    words = []
    for start in range(0, len(flags), MASK_BITS):
        word = F.lit(0).cast("bigint")
        for bit, flag in enumerate(flags[start : start + MASK_BITS]):
            word = word.bitwiseOR(F.when(flag, F.lit(1 << bit).cast("bigint")).otherwise(F.lit(0).cast("bigint")))
        words.append(word)
    return F.array(*words)
