r"""A text as a value of its type: one grammar for each type, the same for every format (``docs/formats.md``, "Types").

A regular expression says whether a text is of the type's grammar, and `try_cast` whether the value is in its range. By itself
`try_cast` takes much more: ``12:00`` is a time of today, ``1.005`` is rounded, ``1e400`` is infinite.

Java's ``$`` also stands before a line break at the end; hence ``\z``. Its groups that repeat recurse, and a long text would
overflow the stack, unless they are possessive (``++``); hence these.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from tidegate.schema.drift import normal
from tidegate.spec import Formats
from tidegate.spec.formats import PLAIN

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql.types import DataType

BLANKS = " \t\r\n"
"""What may stand around a value, where blanks are trimmed."""
_MOST_ZEROS = 100
"""Zeros behind the fraction of a DECIMAL with which Spark reads it at once, and digits more that are rounded."""
_DATE = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MINUTE = r"[T ][0-9]{2}:[0-9]{2}"
_SECOND = r":[0-9]{2}(?:\.[0-9]{1,6}0*)?"
_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_LOCAL = rf"{_DATE}(?:{_MINUTE}(?:{_SECOND})?)?"
_USUAL = rf"(?!0001-01-01|9999-12-31){_DATE}(?:{_MINUTE}(?:{_SECOND}{_ZONE}?)?)?"
"""Times that Spark reads as they are, and that no zone takes out of the years 1 to 9999."""
_WITH_ZONE = rf"{_DATE}{_MINUTE}(?:{_SECOND})?{_ZONE}"

_WHOLE_DIGITS = 19
"""Of the largest BIGINT."""

_MARK = "\ufdd0"
"""Stands before each number of a JSON text while Spark reads it: a noncharacter, which no text that means anything holds."""
_WRITTEN_MARK = r"\\u(?i:fdd0)"
_JSON_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?=[ \t\r\n,}\]]|\z)"
_UP_TO_A_NUMBER = r"""\G((?:[^"0-9\-]++|"(?:[^"\\]++|\\.)*+")*+)"""


def cast(text: SparkColumn, kind: str, formats: Formats = PLAIN) -> SparkColumn:
    """A text as a value of a type; NULL where it does not fit, and where any part of it does not.

    Args:
        text: A column of the texts, best one that is not computed: it is looked at more than once.
        kind: The type as DDL. Of a structure, an array or a map the text is JSON; a field of a structure may be missing, and
            is NULL then.
        formats: Other spellings that the source has.
    """
    from pyspark.sql import functions as F

    plain = normal(kind)
    if plain.startswith(("string", "variant")):
        return text if plain == "string" else text.try_cast(kind)
    if length := re.fullmatch(r"(?:var)?char(?:acter)?\((\d+)\)", plain):
        return F.when(F.length(text) <= int(length[1]), text)
    if plain.startswith(("struct", "array", "map")):
        return _nested(text, kind, formats)
    if trims(kind, formats):
        text = F.trim(text, F.lit(BLANKS))
    if plain in ("tinyint", "smallint", "int", "bigint"):
        return F.when(_is(text, rf"[+-]?{_whole(formats)}"), _point(text, formats).try_cast(kind))
    if decimal := re.fullmatch(r"decimal\((\d+),(\d+)\)", plain):
        return _decimal(text, int(decimal[1]), int(decimal[2]), formats)
    match plain:
        case "float" | "double":
            return _floating(text, plain, formats)
        case "boolean":
            return _boolean(text, formats)
        case "date":
            return _date(text, formats)
        case "timestamp":
            return _timestamp(text, formats)
        case "timestamp_ntz":
            if formats.timestamp:
                return _by_pattern(text, formats).cast(kind)
            return F.when(_is(text, _LOCAL), text.try_cast(kind))
        case "binary":
            return F.when(
                _is(text, "[A-Za-z0-9+/]*={0,2}") & (F.length(text) % 4 == 0), F.try_to_binary(text, F.lit("base64"))
            )
    return F.when(_is(text, "[!-~](?:[ -~]*[!-~])?"), text.try_cast(kind))


def trims(kind: str, formats: Formats) -> bool:
    """Whether blanks around a value of a type do not count: in a text they do."""
    return formats.trim and not normal(kind).startswith(("string", "variant", "char", "varchar"))


def _is(text: SparkColumn, pattern: str) -> SparkColumn:
    return text.rlike(rf"\A(?:{pattern})\z")


def _whole(formats: Formats, most: int | None = None) -> str:
    """Digits before the fraction: at least one, at most so many or some fewer."""
    bound = "+" if most is None else f"{{1,{most}}}"
    groups = "+" if most is None else f"{{1,{most // 3}}}"
    return rf"(?:[0-9]{{1,3}}(?:\.[0-9]{{3}}){groups}+|[0-9]{bound})" if formats.decimal_comma else f"[0-9]{bound}"


def _number(formats: Formats, whole: str, fraction: str) -> str:
    """A number without its exponent; ``1.`` and ``.5`` are numbers, a point alone is none."""
    point = "," if formats.decimal_comma else r"\."
    return rf"[+-]?(?:{whole}(?:{point}{fraction})?|{point}(?=[0-9]){fraction})"


def _point(text: SparkColumn, formats: Formats) -> SparkColumn:
    """A number as Spark reads it."""
    from pyspark.sql import functions as F

    return F.translate(text, ",.", ".") if formats.decimal_comma else text


def _any_number(formats: Formats) -> str:
    return rf"{_number(formats, _whole(formats), '[0-9]*')}(?:[eE][+-]?[0-9]+)?"


def _decimal(text: SparkColumn, precision: int, scale: int, formats: Formats) -> SparkColumn:
    """Spark reads the usual numbers as they are, and rounds or does not read the others: for these, see `_exact`."""
    from pyspark.sql import functions as F

    number, kind = _point(text, formats), f"decimal({precision},{scale})"
    whole = rf"(?:0*[0-9]{{1,38}}|{_whole(formats, 39)})" if formats.decimal_comma else "0*[0-9]{1,38}"
    usual = _number(formats, whole, f"[0-9]{{0,{scale}}}0{{0,{_MOST_ZEROS}}}")
    if formats.rounding:
        more = _number(formats, whole, f"[0-9]{{0,{scale + _MOST_ZEROS}}}")
        usual = rf"{more}(?:[eE](?:\+?0*(?:[12]?[0-9]|3[0-7])|-0*[0-9]{{1,2}}))?"
    exact = _exact(number, precision, scale)
    return F.when(_is(text, usual), number.try_cast(kind)).when(_is(text, _any_number(formats)), exact)


def _exact(number: SparkColumn, precision: int, scale: int) -> SparkColumn:
    """A number, whatever its exponent and zeros, as the decimal that it is; NULL where that has too many digits.

    Its digits without the zeros around them and the power of ten of the last one say whether it fits, before Spark reads it:
    the time to read a number grows with the square of its digits, and with its exponent.
    """
    from pyspark.sql import functions as F

    mantissa = F.substring_index(F.lower(number), "e", 1)
    exponent = F.regexp_extract(F.concat(number, F.lit("e0")), r"[eE]\+?(-?[0-9]+)", 1).try_cast("bigint")
    digits = F.translate(mantissa, "+-.", "")
    kept = F.rtrim(digits, F.lit("0"))
    behind_point = F.length(F.regexp_extract(mantissa, r"\.([0-9]*)", 1))
    # Where it is longer, it is of no interest.
    power = F.when(exponent.between(-(10**9), 10**9), exponent - behind_point + F.length(digits) - F.length(kept))
    significant = F.ltrim(kept, F.lit("0"))
    fits = (power >= -scale) & (power + F.length(significant) <= precision - scale)
    plain = F.concat(F.regexp_extract(mantissa, "^-", 0), significant, F.lit("E"), power.cast("string"))
    zero = F.lit(0).cast(f"decimal({precision},{scale})")
    return F.when(significant == "", zero).when(fits, plain.try_cast(f"decimal({precision},{scale})"))


def _floating(text: SparkColumn, kind: str, formats: Formats) -> SparkColumn:
    """Only a very large number can become infinite: those alone are looked at once more."""
    from pyspark.sql import functions as F

    digits, exponent = (20, 1) if kind == "float" else (200, 2)
    bounded = _number(formats, _whole(formats, digits), "[0-9]*")
    usual = rf"{bounded}(?:[eE](?:-[0-9]+|\+?[0-9]{{1,{exponent}}}))?|NaN|-?Infinity"
    value = _point(text, formats).try_cast(kind)
    finite = F.when(F.abs(value) < F.lit(float("inf")), value)
    return F.when(_is(text, usual), value).when(_is(text, _any_number(formats)), finite)


def _boolean(text: SparkColumn, formats: Formats) -> SparkColumn:
    from pyspark.sql import functions as F

    value = F.when(_is(text, "(?i:true|false)"), text.try_cast("boolean"))
    for texts, meant in ((formats.true, True), (formats.false, False)):
        if texts:
            value = value.when(text.isin(*texts), F.lit(meant))
    return value


def _date(text: SparkColumn, formats: Formats) -> SparkColumn:
    from pyspark.sql import functions as F

    if not formats.date:
        return F.when(_is(text, _DATE), text.try_cast("date"))
    return _in_range(F.try_to_date(text, formats.date), "date")


def _timestamp(text: SparkColumn, formats: Formats) -> SparkColumn:
    """Where a source names a zone, a time without one is of that; elsewhere it is of the session's, which is UTC."""
    from pyspark.sql import functions as F

    if formats.timestamp:
        value = _by_pattern(text, formats)
        return _in_zone(value, formats.timezone) if formats.timezone and not formats.has_zone else value
    # Spark knows no zone behind minutes, so these get their seconds.
    with_seconds = F.regexp_replace(text, r"\A(.{16})([Z+-].*)\z", "$1:00$2")
    rare = _in_range(with_seconds.try_cast("timestamp"), "timestamp")
    if not formats.timezone:
        return F.when(_is(text, _USUAL), text.try_cast("timestamp")).when(_is(text, rf"{_LOCAL}|{_WITH_ZONE}"), rare)
    local = _in_zone(text.try_cast("timestamp"), formats.timezone)
    return F.when(_is(text, _LOCAL), local).when(_is(text, _WITH_ZONE), rare)


def _by_pattern(text: SparkColumn, formats: Formats) -> SparkColumn:
    from pyspark.sql import functions as F

    return _in_range(F.try_to_timestamp(text, F.lit(formats.timestamp)), "timestamp")


def _in_zone(local: SparkColumn, zone: str) -> SparkColumn:
    """The instant of a zone's time that stands as if it were UTC; NULL for one that the clocks there skip."""
    from pyspark.sql import functions as F

    instant = F.to_utc_timestamp(local, zone)
    return F.when(F.from_utc_timestamp(instant, zone) == local, _in_range(instant, "timestamp"))


def _in_range(value: SparkColumn, kind: str) -> SparkColumn:
    """Years 1 to 9999: what is before or after them breaks every other reader."""
    from pyspark.sql import functions as F

    first, behind = (F.lit(day).cast(kind) for day in ("0001-01-01", "+10000-01-01"))
    return F.when((value >= first) & (value < behind), value)


def _nested(text: SparkColumn, kind: str, formats: Formats) -> SparkColumn:
    """JSON, read with a text in each place of a value, each cast by its own grammar; NULL where any part does not fit.

    `from_json` rounds decimals and rewrites numbers, so each becomes a marked string first. It also makes a structure of NULLs
    of what is none; only a record has a place in which it tells so. What stands behind the end of a value it passes over:
    hence the text stands in two places of the record, as a field and in a list, in which only one value whole is fine. And
    of a name that stands twice in one object it takes the last: a VARIANT refuses these.
    Each step is a lambda, whose argument is a value and not an expression: so each is done once.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType, StringType, StructField, StructType

    declared: Any = StructType.fromDDL(f"value {kind}")
    of = declared["value"].dataType
    record = StructType([
        StructField(f"{_MARK}value", _texts_of(of)),
        StructField(f"{_MARK}end", BooleanType()),
        StructField(f"{_MARK}corrupt", StringType()),
    ])  # fmt: skip
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": f"{_MARK}corrupt",
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
    }

    def parse(json: SparkColumn) -> SparkColumn:
        parts = (f'{{"{_MARK}value":', json, f',"{_MARK}list":[', json, f'],"{_MARK}end":true}}')
        whole = F.concat(*[F.lit(part) if isinstance(part, str) else part for part in parts])
        return F.struct(F.from_json(whole, record, options).alias("read"), F.try_parse_json(json).alias("variant"))

    def read(it: SparkColumn) -> SparkColumn:
        found = it["read"]
        fine = found[f"{_MARK}corrupt"].isNull() & found[f"{_MARK}end"] & it["variant"].isNotNull()
        return F.when(fine, found[f"{_MARK}value"])

    def both(texts: SparkColumn) -> SparkColumn:
        return F.struct(texts.alias("texts"), _values(texts, of, formats).alias("values"))

    marked = F.regexp_replace(text, F.lit(f"{_UP_TO_A_NUMBER}({_JSON_NUMBER})"), F.lit(f'$1"{_MARK}$2"'))
    has_mark = text.contains(_MARK) | (text.contains("\\u") & text.rlike(_WRITTEN_MARK))
    steps = F.array(F.when(~has_mark, marked))
    for step in (parse, read, both):
        steps = F.transform(steps, step)
    fits = F.transform(steps, lambda it: F.when(_all_fit(it["texts"], it["values"], of), it["values"]))
    return fits[0]


def _texts_of(kind: DataType) -> DataType:
    """A type with a text in each place of a value."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    match kind:
        case StructType():
            return StructType([StructField(field.name, _texts_of(field.dataType)) for field in kind.fields])
        case ArrayType():
            return ArrayType(_texts_of(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _texts_of(kind.valueType))
    return StringType()


def _values(texts: SparkColumn, kind: DataType, formats: Formats) -> SparkColumn:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, IntegralType, MapType, StringType, StructType

    match kind:
        case StructType():
            fields = [_values(texts[each.name], each.dataType, formats).alias(each.name) for each in kind.fields]
            return F.when(texts.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(texts, lambda each: _values(each, kind.elementType, formats))
        case MapType():
            return F.transform_values(texts, lambda _, each: _values(each, kind.valueType, formats))
        case StringType():
            # A number's own digits; and those of an object or an array that is kept as text.
            bare = F.regexp_replace(texts, F.lit(rf'"?{_MARK}([-+0-9.eE]++)"?'), F.lit("$1"))
            return F.when(texts.contains(_MARK), bare).otherwise(texts)
    number, value = F.translate(texts, _MARK, ""), kind.simpleString()
    if isinstance(kind, IntegralType):
        # 7.0 and 1e3 are whole numbers of JSON.
        exact = _exact(number, _WHOLE_DIGITS, 0).try_cast(value)
    elif formats.decimal_comma:
        # JSON's own numbers have a point, whatever the source writes elsewhere.
        exact = cast(number, value, dataclasses.replace(formats, decimal_comma=False))
    else:
        return cast(number, value, formats)
    return F.when(texts.startswith(_MARK), exact).otherwise(cast(texts, value, formats))


def _all_fit(texts: SparkColumn, values: SparkColumn, kind: DataType) -> SparkColumn:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    match kind:
        case StructType():
            fit = F.lit(True)
            for each in kind.fields:
                fit &= _all_fit(texts[each.name], values[each.name], each.dataType)
            return fit
        case ArrayType():
            pairs = F.zip_with(texts, values, lambda text, value: _all_fit(text, value, kind.elementType))
        case MapType():
            pairs = F.zip_with(
                F.map_values(texts), F.map_values(values), lambda text, value: _all_fit(text, value, kind.valueType)
            )
        case StringType():
            return F.lit(True)
        case _:
            return texts.isNull() | values.isNotNull()
    return F.coalesce(F.forall(pairs, lambda fits: fits), F.lit(True))
