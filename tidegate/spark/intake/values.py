"""From the text of each field to its typed value: which values do not fit, what is rescued, which rules are broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.schema.contract import Terms
from tidegate.schema.ddl import Column
from tidegate.spark.intake.casts import BLANKS, cast, trims
from tidegate.spec import Formats
from tidegate.spec.formats import PLAIN

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

MASK_BITS = 62
"""Fields whose bits share one BIGINT of a mask: ``filled`` (a value is there) and ``unfit`` (it does not fit its type)."""


def text_name(column: Column) -> str:
    """The column that holds a field's text."""
    return f"_text_{column.name}"


def as_values(
    texts: DataFrame,
    columns: Sequence[Column],
    null_values: tuple[str, ...],
    terms: Terms,
    extra: tuple[str, ...] = (),
    formats: Formats = PLAIN,
) -> DataFrame:
    """Cast each text on its own, then say which fields broke: three projections, so that no cast is done twice.

    Args:
        texts: A text per field (`text_name`), ``_unknown``, ``_malformed``, and the record's envelope.
        columns: The declared fields.
        null_values: Texts that mean "no value", if the field is no STRING: of those the caller has taken them out.
        terms: Which values are rescued or left out.
        extra: Columns that go along.
        formats: How values are written.

    Returns:
        As `tidegate.spark.intake.parse.parse` says.
    """
    from pyspark.sql import functions as F

    def meant(column: Column) -> SparkColumn:
        text = F.col(text_name(column))
        there = F.col("_malformed").isNull()
        # Of a text, who read the record knows more: an empty one may be a value.
        if not column.is_text:
            there &= ~(F.trim(text, F.lit(BLANKS)) if trims(column.type, formats) else text).isin(*null_values)
        return F.when(there, text).alias(text_name(column))

    envelope = ["_row_id", "_writer", "_at", "_raw", "_told", "_ingested_at", "_malformed", *extra]
    kept = texts.select(*envelope, "_unknown", *[meant(column) for column in columns])
    values = [cast(F.col(text_name(column)), column.type, formats).alias(column.name) for column in columns]
    typed = kept.select("*", *values)
    fine = F.col("_malformed").isNull()
    unknown = F.when(fine & (F.size("_unknown") > 0), F.col("_unknown"))
    rescued = _rescued(unknown, columns, terms)
    origin = F.struct(
        F.col("_at").alias("at"),
        F.col("_raw").alias("raw"),
        F.col("_told").alias("source"),
        F.array_compact(F.array(*_broken(columns, terms))).alias("broken"),
        F.col("_ingested_at").alias("ingested_at"),
        F.col("_writer").alias("writer"),
        unknown.alias("unknown"),
        rescued.alias("rescued"),
        _mask([F.col(text_name(column)).isNotNull() for column in columns]).alias("filled"),
        _mask([_unfit(column) for column in columns]).alias("unfit"),
    )
    names = [column.name for column in columns]
    return typed.select("_row_id", origin.alias("_origin"), *names, rescued.alias("_rescued"), *extra)


def _broken(columns: Sequence[Column], terms: Terms) -> list[SparkColumn]:
    """The built-in rules that a record breaks, each NULL where it does not."""
    from pyspark.sql import functions as F

    there = F.col("_malformed").isNull() & F.col("_raw").isNotNull()
    broken = [F.col("_malformed")]
    for column in columns:
        if not column.is_text and terms.keeps_row(column.name) is None:
            broken.append(F.when(_unfit(column), F.lit(f"wrong_type({column.name})")))
        if column.required:
            broken.append(F.when(there & F.col(text_name(column)).isNull(), F.lit(f"required({column.name})")))
    return broken


def _rescued(unknown: SparkColumn, columns: Sequence[Column], terms: Terms) -> SparkColumn:
    """Unknown fields but for those that are left out or became columns, and texts that do not fit their rescued column."""
    from pyspark.sql import functions as F

    all_of_them, excepted = terms.discards()
    names = [F.lit(name) for name in excepted]
    evolved = [F.lit(name) for name in terms.evolved]

    def stays(name: SparkColumn, _: SparkColumn) -> SparkColumn:
        named = name.isin(*names) if names else F.lit(False)
        stays = named if all_of_them else ~named
        return stays & ~name.isin(*evolved) if evolved else stays

    kept = F.map_filter(unknown, stays) if all_of_them or names or evolved else unknown
    unfit = [c for c in columns if not c.is_text and terms.keeps_row(c.name) == "rescue"]
    if unfit:
        nothing = F.create_map().cast("map<string,string>")
        pairs = [part for c in unfit for part in (F.lit(c.name), F.when(_unfit(c), F.col(text_name(c))))]
        texts = F.map_filter(F.create_map(*pairs), lambda _, text: text.isNotNull())
        kept = F.map_concat(F.coalesce(kept, nothing), texts)
    return F.when(F.size(kept) > 0, kept)


def _unfit(column: Column) -> SparkColumn:
    from pyspark.sql import functions as F

    if column.is_text:
        return F.lit(False)
    return F.col(text_name(column)).isNotNull() & F.col(column.name).isNull()


def _mask(flags: Sequence[SparkColumn]) -> SparkColumn:
    """``array<bigint>``, bit by field, in the order of the schema."""
    from pyspark.sql import functions as F

    words = []
    for start in range(0, len(flags), MASK_BITS):
        word = F.lit(0).cast("bigint")
        for place, flag in enumerate(flags[start : start + MASK_BITS]):
            word = word.bitwiseOR(F.when(flag, F.lit(1 << place).cast("bigint")).otherwise(F.lit(0).cast("bigint")))
        words.append(word)
    return F.array(*words)
