r"""Casts texts to values: one grammar per type, the same for every format (``docs/formats.md``, "Types").

A regular expression checks the grammar of the type, and `try_cast` the range of the value. On its own `try_cast` accepts more:
``12:00`` becomes a time today, ``1.005`` is rounded, ``1e400`` becomes infinity.

The expressions are for Java. There ``$`` also matches before a final line break, so they use ``\z``. Java matches repeated
groups recursively, and a long text overflows the stack unless the quantifier is possessive (``++``).

Longer than 300 lines: it is one grammar, whose rules use each other.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from tidegate.schema.changes import normal
from tidegate.spec import Formats
from tidegate.spec.formats import DEFAULT_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

BLANKS = " \t\r\n"
"""Characters that are trimmed around a value if the source declares ``trim``."""
_MAX_EXTRA_DIGITS = 100
"""Digits after the scale of a DECIMAL (zeros, or digits to round) up to which `try_cast` reads it directly."""
_DATE = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MINUTE = r"[T ][0-9]{2}:[0-9]{2}"
_SECOND = r":[0-9]{2}(?:\.[0-9]{1,6}0*)?"
_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_LOCAL = rf"{_DATE}(?:{_MINUTE}(?:{_SECOND})?)?"
_USUAL = rf"(?!0001-01-01|9999-12-31){_DATE}(?:{_MINUTE}(?:{_SECOND}{_ZONE}?)?)?"
"""Timestamps that Spark casts correctly, and that stay within the years 1 to 9999 in every zone."""
_WITH_ZONE = rf"{_DATE}{_MINUTE}(?:{_SECOND})?{_ZONE}"

_MAX_INTEGER_DIGITS = 19
"""Digits of the largest BIGINT."""

_MARK = "\ufdd0"
"""Marks each number in a JSON text while Spark parses it. A Unicode noncharacter, which does not occur in real text."""
_ESCAPED_MARK = r"\\u(?i:fdd0)"
_JSON_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?=[ \t\r\n,}\]]|\z)"
_UP_TO_A_NUMBER = r"""\G((?:[^"0-9\-]++|"(?:[^"\\]++|\\.)*+")*+)"""


def cast(text: SparkColumn, kind: str, formats: Formats = DEFAULT_FORMATS) -> SparkColumn:
    """Cast a text to a type; NULL where the text or any part of it does not fit.

    Args:
        text: The text. It is evaluated more than once, so it should be a plain column.
        kind: The type as DDL. For a struct, an array or a map the text is JSON; a missing field of a struct becomes NULL.
        formats: Additional spellings that the source declares.
    """
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
        return F.when(_may_be_integer(text, formats), _with_point(text, formats).try_cast(kind))
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
            return F.when(_matches(text, _LOCAL), text.try_cast(kind))
        case "binary":
            return F.when(
                _matches(text, "[A-Za-z0-9+/]*={0,2}") & (F.length(text) % 4 == 0),
                F.try_to_binary(text, F.lit("base64")),
            )
    return F.when(_matches(text, "[!-~](?:[ -~]*[!-~])?"), text.try_cast(kind))


def trims(kind: str, formats: Formats) -> bool:
    """Whether blanks around a value are trimmed: if the source declares it, and the type is not a text type."""
    return formats.trim and not normal(kind).startswith(("string", "variant", "char", "varchar"))


def _matches(text: SparkColumn, pattern: str) -> SparkColumn:
    return text.rlike(rf"\A(?:{pattern})\z")


def _integer_pattern(formats: Formats, max_digits: int | None = None) -> str:
    """The digits before the fraction: at least one. With a decimal comma, groups of three digits can exceed the maximum."""
    bound = "+" if max_digits is None else f"{{1,{max_digits}}}"
    groups = "+" if max_digits is None else f"{{1,{max_digits // 3}}}"
    return rf"(?:[0-9]{{1,3}}(?:\.[0-9]{{3}}){groups}+|[0-9]{bound})" if formats.decimal_comma else f"[0-9]{bound}"


def _may_be_integer(text: SparkColumn, formats: Formats) -> SparkColumn:
    """Whether a text that `try_cast` accepts is an integer of the grammar.

    Without grouped digits there is no need for a regular expression, which takes longer than the cast: `try_cast` also accepts
    only blanks and control characters around the number.
    """
    if formats.decimal_comma:
        return _matches(text, rf"[+-]?{_integer_pattern(formats)}")
    begins = (text >= F.lit("+")) & (text < F.lit(":"))
    return begins & F.substring(text, -1, 1).between("0", "9")


def _number_pattern(formats: Formats, integer: str, fraction: str) -> str:
    """A number without exponent. ``1.`` and ``.5`` are numbers, a point alone is not."""
    point = "," if formats.decimal_comma else r"\."
    return rf"[+-]?(?:{integer}(?:{point}{fraction})?|{point}(?=[0-9]){fraction})"


def _with_point(text: SparkColumn, formats: Formats) -> SparkColumn:
    """A number with a decimal point and no grouping, as `try_cast` needs it."""
    return F.translate(text, ",.", ".") if formats.decimal_comma else text


def _any_number_pattern(formats: Formats) -> str:
    return rf"{_number_pattern(formats, _integer_pattern(formats), '[0-9]*')}(?:[eE][+-]?[0-9]+)?"


def _decimal(text: SparkColumn, precision: int, scale: int, formats: Formats) -> SparkColumn:
    """Numbers of usual length are cast directly. Spark would round or refuse the others: see `_exact`."""
    number, kind = _with_point(text, formats), f"decimal({precision},{scale})"
    integer = rf"(?:0*[0-9]{{1,38}}|{_integer_pattern(formats, 39)})" if formats.decimal_comma else "0*[0-9]{1,38}"
    usual = _number_pattern(formats, integer, f"[0-9]{{0,{scale}}}0{{0,{_MAX_EXTRA_DIGITS}}}")
    if formats.rounding:
        rounded = _number_pattern(formats, integer, f"[0-9]{{0,{scale + _MAX_EXTRA_DIGITS}}}")
        usual = rf"{rounded}(?:[eE](?:\+?0*(?:[12]?[0-9]|3[0-7])|-0*[0-9]{{1,2}}))?"
    exact = _exact(number, precision, scale)
    return F.when(_matches(text, usual), number.try_cast(kind)).when(
        _matches(text, _any_number_pattern(formats)), exact
    )


def _exact(number: SparkColumn, precision: int, scale: int) -> SparkColumn:
    """Cast a number with any exponent and any zeros to a decimal without rounding; NULL if it has too many digits.

    Whether it fits is decided from its significant digits and the power of ten of the last one, before `try_cast`: the time
    to parse a number grows with the square of its digits, and with its exponent.
    """
    mantissa = F.substring_index(F.lower(number), "e", 1)
    exponent = F.regexp_extract(F.concat(number, F.lit("e0")), r"[eE]\+?(-?[0-9]+)", 1).try_cast("bigint")
    digits = F.translate(mantissa, "+-.", "")
    without_zeros = F.rtrim(digits, F.lit("0"))
    fraction_digits = F.length(F.regexp_extract(mantissa, r"\.([0-9]*)", 1))
    # A number with a larger exponent never fits, unless it is zero.
    in_range = exponent.between(-(10**9), 10**9)
    power = F.when(in_range, exponent - fraction_digits + F.length(digits) - F.length(without_zeros))
    significant = F.ltrim(without_zeros, F.lit("0"))
    fits = (power >= -scale) & (power + F.length(significant) <= precision - scale)
    normalized = F.concat(F.regexp_extract(mantissa, "^-", 0), significant, F.lit("E"), power.cast("string"))
    zero = F.lit(0).cast(f"decimal({precision},{scale})")
    return F.when(significant == "", zero).when(fits, normalized.try_cast(f"decimal({precision},{scale})"))


def _floating(text: SparkColumn, kind: str, formats: Formats) -> SparkColumn:
    """Only very large numbers can overflow to infinity, so only they are checked after the cast."""
    digits, exponent = (20, 1) if kind == "float" else (200, 2)
    bounded = _number_pattern(formats, _integer_pattern(formats, digits), "[0-9]*")
    usual = rf"{bounded}(?:[eE](?:-[0-9]+|\+?[0-9]{{1,{exponent}}}))?|NaN|-?Infinity"
    value = _with_point(text, formats).try_cast(kind)
    finite = F.when(F.abs(value) < F.lit(float("inf")), value)
    return F.when(_matches(text, usual), value).when(_matches(text, _any_number_pattern(formats)), finite)


def _boolean(text: SparkColumn, formats: Formats) -> SparkColumn:
    value = F.when(_matches(text, "(?i:true|false)"), text.try_cast("boolean"))
    for spellings, result in ((formats.true, True), (formats.false, False)):
        if spellings:
            value = value.when(text.isin(*spellings), F.lit(result))
    return value


def _date(text: SparkColumn, formats: Formats) -> SparkColumn:
    if not formats.date:
        return F.when(_matches(text, _DATE), text.try_cast("date"))
    return _in_range(F.try_to_date(text, formats.date), "date")


def _timestamp(text: SparkColumn, formats: Formats) -> SparkColumn:
    """A timestamp without a zone is in the source's declared zone, else in the session's zone, which is UTC."""
    if formats.timestamp:
        value = _by_pattern(text, formats)
        return _in_zone(value, formats.timezone) if formats.timezone and not formats.has_zone else value
    # Spark does not accept a zone directly after the minutes, so seconds are added.
    with_seconds = F.regexp_replace(text, r"\A(.{16})([Z+-].*)\z", "$1:00$2")
    rare = _in_range(with_seconds.try_cast("timestamp"), "timestamp")
    if not formats.timezone:
        return F.when(_matches(text, _USUAL), text.try_cast("timestamp")).when(
            _matches(text, rf"{_LOCAL}|{_WITH_ZONE}"), rare
        )
    local = _in_zone(text.try_cast("timestamp"), formats.timezone)
    return F.when(_matches(text, _LOCAL), local).when(_matches(text, _WITH_ZONE), rare)


def _by_pattern(text: SparkColumn, formats: Formats) -> SparkColumn:
    return _in_range(F.try_to_timestamp(text, F.lit(formats.timestamp)), "timestamp")


def _in_zone(local: SparkColumn, zone: str) -> SparkColumn:
    """Reinterpret a UTC timestamp as local time of a zone; NULL for a local time that daylight saving skips."""
    instant = F.to_utc_timestamp(local, zone)
    return F.when(F.from_utc_timestamp(instant, zone) == local, _in_range(instant, "timestamp"))


def _in_range(value: SparkColumn, kind: str) -> SparkColumn:
    """NULL outside the years 1 to 9999, which many other readers cannot represent."""
    first, end = (F.lit(day).cast(kind) for day in ("0001-01-01", "+10000-01-01"))
    return F.when((value >= first) & (value < end), value)


def _nested(text: SparkColumn, kind: str, formats: Formats) -> SparkColumn:
    """Parse JSON with every leaf as text, then cast each leaf by its own grammar; NULL where any part does not fit.

    This works around four properties of `from_json`:

    - It rounds decimals and rewrites numbers, so every number is turned into a marked string first.
    - It returns a struct of NULLs for a text that is not a struct. Only a record has a column for corrupt input, so the text
      is wrapped in a record.
    - It ignores text after the end of a value. So the text is inserted twice, as a field and in a list, where only one
      complete value is valid.
    - It accepts a name that an object has twice. Parsing the text as VARIANT refuses that.

    Each step is a lambda in `transform`: its argument is a value, not an expression, so each step is evaluated once.
    """
    declared: Any = StructType.fromDDL(f"value {kind}")
    data_type = declared["value"].dataType
    record = StructType([
        StructField(f"{_MARK}value", _with_text_leaves(data_type)),
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
        wrapped = F.concat(*[F.lit(part) if isinstance(part, str) else part for part in parts])
        return F.struct(F.from_json(wrapped, record, options).alias("record"), F.try_parse_json(json).alias("variant"))

    def unwrap(parsed: SparkColumn) -> SparkColumn:
        content = parsed["record"]
        valid = content[f"{_MARK}corrupt"].isNull() & content[f"{_MARK}end"] & parsed["variant"].isNotNull()
        return F.when(valid, content[f"{_MARK}value"])

    def with_values(texts: SparkColumn) -> SparkColumn:
        return F.struct(texts.alias("texts"), _values(texts, data_type, formats).alias("values"))

    marked = F.regexp_replace(text, F.lit(f"{_UP_TO_A_NUMBER}({_JSON_NUMBER})"), F.lit(f'$1"{_MARK}$2"'))
    has_mark = text.contains(_MARK) | (text.contains("\\u") & text.rlike(_ESCAPED_MARK))
    steps = F.array(F.when(~has_mark, marked))
    for step in (parse, unwrap, with_values):
        steps = F.transform(steps, step)
    fitting = F.transform(
        steps, lambda pair: F.when(_all_fit(pair["texts"], pair["values"], data_type), pair["values"])
    )
    return fitting[0]


def _with_text_leaves(kind: DataType) -> DataType:
    """The type with STRING for every leaf."""
    match kind:
        case StructType():
            return StructType([StructField(field.name, _with_text_leaves(field.dataType)) for field in kind.fields])
        case ArrayType():
            return ArrayType(_with_text_leaves(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _with_text_leaves(kind.valueType))
    return StringType()


def _values(texts: SparkColumn, kind: DataType, formats: Formats) -> SparkColumn:
    match kind:
        case StructType():
            fields = [_values(texts[field.name], field.dataType, formats).alias(field.name) for field in kind.fields]
            return F.when(texts.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(texts, lambda text: _values(text, kind.elementType, formats))
        case MapType():
            return F.transform_values(texts, lambda _, text: _values(text, kind.valueType, formats))
        case StringType():
            # Remove the marks: of a number, and of the numbers in an object or array that is kept as text.
            unmarked = F.regexp_replace(texts, F.lit(rf'"?{_MARK}([-+0-9.eE]++)"?'), F.lit("$1"))
            return F.when(texts.contains(_MARK), unmarked).otherwise(texts)
    number, value = F.translate(texts, _MARK, ""), kind.simpleString()
    if isinstance(kind, IntegralType):
        # In JSON 7.0 and 1e3 are integers.
        exact = _exact(number, _MAX_INTEGER_DIGITS, 0).try_cast(value)
    elif formats.decimal_comma:
        # JSON numbers have a decimal point, even if the source declares a decimal comma.
        exact = cast(number, value, dataclasses.replace(formats, decimal_comma=False))
    else:
        return cast(number, value, formats)
    return F.when(texts.startswith(_MARK), exact).otherwise(cast(texts, value, formats))


def _all_fit(texts: SparkColumn, values: SparkColumn, kind: DataType) -> SparkColumn:
    match kind:
        case StructType():
            fits = F.lit(True)
            for field in kind.fields:
                fits &= _all_fit(texts[field.name], values[field.name], field.dataType)
            return fits
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
