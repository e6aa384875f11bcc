"""The raw text of a field is exactly as written: numbers are not converted, and trailing input is not ignored."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from tidegate.formats.raw_fields import Field, RawFields, csv_reader, json_reader

FIELDS = [Field(name="id", is_text=False), Field(name="note", is_text=True)]
INTEGER = [Field(name="id", is_text=False, bits=32)]


def read_json(raw: str) -> RawFields:
    return json_reader(FIELDS, ("",))(raw, None, None)


def read_csv(raw: str, header: str = "id,note", dialect: str | None = None) -> RawFields:
    return csv_reader(FIELDS, ("", "NA"))(raw, header, dialect)


@pytest.mark.parametrize(
    "literal", ["1.10", "123456789012345678.91", "12345678901234567890.123456789", "-0.0", "1E400", "1e-7", "0"]
)
def test_a_json_number_keeps_its_literal_at_every_level(literal: str) -> None:
    record = read_json(f'{{"id": {literal}, "note": {literal}, "other": {{"deep": [{literal}, "{literal}"]}}}}')
    assert (record.declared, record.malformed) == ([literal, literal], None)
    assert record.unknown == {"other": f'{{"deep":[{literal},"{literal}"]}}'}


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("7", "7"), ("7.0", "7"), ("1E3", "1000"), ("-1500e-2", "-15"), ("-0.0", "0"), ("0e99", "0"), ("0e-99", "0"),
        ("2147483647.000", "2147483647"), ("-2147483648e0", "-2147483648"), ("2147483648.0", "2147483648.0"),
        ("1e10", "1e10"), ("7.5", "7.5"), ("1e-7", "1e-7"), ("1e99999999999", "1e99999999999"),
        ("1e-99999999999999999999", "1e-99999999999999999999"), ("1" * 5000 + ".0", "1" * 5000 + ".0"),
        ('"7.0"', "7.0"),
    ],
)  # fmt: skip
def test_a_json_integer_is_written_as_digits_if_it_fits_the_type(literal: str, text: str) -> None:
    record = json_reader(INTEGER, ("",))(f'{{"id":{literal},"more":{literal}}}', None, None)
    assert (record.declared, record.unknown) == ([text], {"more": literal.strip('"')})


@pytest.mark.parametrize(
    "raw",
    [
        '{"id":25}{"id":26}',
        '{"id":27} garbage',
        '[{"id":1}]',
        '"text"',
        "1",
        "null",
        '{"id":1,"id":2}',
        '{"id":{"a":1,"a":1}}',
        '{"id":NaN}',
        '{"id":Infinity}',
        '{"id":-Infinity}',
        '{"note":"\\ud800"}',
        '{"\\udc00":1}',
        '{"id":1',
        '{"id":01}',
        "{'id':1}",
        '{"id":1,}',
        '{"id":1} // no',
        '{"note":"tab\there"}',
        '{"id":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=range(20),
)
def test_anything_but_one_json_object_is_malformed(raw: str) -> None:
    assert read_json(raw).malformed == "malformed_json"


def test_json_values_are_converted_to_texts_by_their_type() -> None:
    record = read_json(' {"id": null, "note": "", "a": true, "b": "\\ud83d\\ude00", "c": null, "d": {}, "e": "1"} \r')
    assert record.declared == [None, ""]
    assert record.unknown == {"a": "true", "b": "😀", "d": "{}", "e": "1"}
    assert read_json('{"id": ""}').declared == [None, None], "a number has no empty text"
    assert read_json(" ").malformed == "blank_line"


def test_generated_objects_keep_values_that_an_exact_decoder_reads() -> None:
    rng = random.Random(6)

    def value(depth: int) -> Any:
        kind = rng.randrange(7 if depth < 3 else 5)
        if kind == 5:
            return [value(depth + 1) for _ in range(rng.randrange(3))]
        if kind == 6:
            return {f"k{n}": value(depth + 1) for n in range(rng.randrange(3))}
        number = rng.choice([str(rng.randrange(10**30)), f"-{rng.random() * 10 ** rng.randrange(20):.17f}", "1.50"])
        return rng.choice([None, True, False, "", 'q"\\', "é\n", Decimal(number), Decimal(number)])

    def encoded(item: Any) -> str:
        if isinstance(item, Decimal):
            return str(item)
        if isinstance(item, dict):
            return "{" + ", ".join(f"{json.dumps(name)}: {encoded(part)}" for name, part in item.items()) + "}"
        return f"[{', '.join(map(encoded, item))}]" if isinstance(item, list) else json.dumps(item)

    for _ in range(2000):
        expected = {f"f{n}": value(0) for n in range(5)}
        record = read_json(encoded(expected))
        assert record.malformed is None
        assert record.unknown.keys() == {name for name, item in expected.items() if item is not None}
        for name, text in record.unknown.items():
            if isinstance(expected[name], str):
                assert text == expected[name]
            else:
                assert json.loads(text, parse_float=Decimal, parse_int=Decimal) == expected[name]


def test_null_values_are_null_but_an_empty_quoted_cell_is_an_empty_text() -> None:
    assert read_csv('1,""').declared == ["1", ""]
    assert read_csv("1,").declared == ["1", None]
    assert read_csv('"",x').declared == [None, "x"], "a number has no empty text"
    assert read_csv('NA,"NA"').declared == [None, None]


def test_malformed_csv_records_name_their_rule() -> None:
    assert read_csv("").malformed == "blank_line"
    assert read_csv("1").malformed == "malformed_line"
    assert read_csv("1,2,3").malformed == "malformed_line"
    assert read_csv('1,x"').malformed == "malformed_line"
    assert read_csv("1;2", header="id;note").malformed == "other_separator(semicolon)"
    assert read_csv("1\t2", header="id\tnote").malformed == "other_separator(tab)"
    assert read_csv("1,2", header="x,y").malformed == "unknown_header"
    assert read_csv("1,2", header="id,id").malformed == "repeated_header"


def test_a_record_is_read_with_its_stored_dialect() -> None:
    dialect = json.dumps({"separator": ";", "escape": "\\"})
    record = read_csv('1;"a\\"b";c', header="id;note;other", dialect=dialect)
    assert (record.declared, record.unknown) == (["1", 'a"b'], {"other": "c"})
