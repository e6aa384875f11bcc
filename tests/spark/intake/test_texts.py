"""A field's text is what was written: no number is made of it, nothing behind it is ignored."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from tidegate.spark.intake.texts import Field, Texts, csv_reader, json_reader

FIELDS = [Field(name="id", is_text=False), Field(name="note", is_text=True)]
WHOLE = [Field(name="id", is_text=False, bits=32)]


def of_json(raw: str) -> Texts:
    return json_reader(FIELDS, ("",))(raw, None, None)


def of_csv(raw: str, header: str = "id,note", dialect: str | None = None) -> Texts:
    return csv_reader(FIELDS, ("", "NA"))(raw, header, dialect)


@pytest.mark.parametrize(
    "literal", ["1.10", "123456789012345678.91", "12345678901234567890.123456789", "-0.0", "1E400", "1e-7", "0"]
)
def test_a_json_number_keeps_its_literal_wherever_it_stands(literal: str) -> None:
    text = of_json(f'{{"id": {literal}, "note": {literal}, "other": {{"deep": [{literal}, "{literal}"]}}}}')
    assert (text.declared, text.malformed) == ([literal, literal], None)
    assert text.unknown == {"other": f'{{"deep":[{literal},"{literal}"]}}'}


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
def test_a_whole_json_number_is_its_digits_where_they_fit_the_type(literal: str, text: str) -> None:
    read = json_reader(WHOLE, ("",))(f'{{"id":{literal},"more":{literal}}}', None, None)
    assert (read.declared, read.unknown) == ([text], {"more": literal.strip('"')})


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
def test_what_is_not_one_json_object_is_malformed(raw: str) -> None:
    assert of_json(raw).malformed == "malformed_json"


def test_json_values_are_texts_by_their_kind() -> None:
    text = of_json(' {"id": null, "note": "", "a": true, "b": "\\ud83d\\ude00", "c": null, "d": {}, "e": "1"} \r')
    assert text.declared == [None, ""]
    assert text.unknown == {"a": "true", "b": "😀", "d": "{}", "e": "1"}
    assert of_json('{"id": ""}').declared == [None, None], "no number"
    assert of_json(" ").malformed == "blank_line"


def test_generated_objects_have_the_values_that_an_exact_decoder_reads() -> None:
    rng = random.Random(6)

    def value(depth: int) -> Any:
        kind = rng.randrange(7 if depth < 3 else 5)
        if kind == 5:
            return [value(depth + 1) for _ in range(rng.randrange(3))]
        if kind == 6:
            return {f"k{n}": value(depth + 1) for n in range(rng.randrange(3))}
        number = rng.choice([str(rng.randrange(10**30)), f"-{rng.random() * 10 ** rng.randrange(20):.17f}", "1.50"])
        return rng.choice([None, True, False, "", 'q"\\', "é\n", Decimal(number), Decimal(number)])

    def written(each: Any) -> str:
        if isinstance(each, Decimal):
            return str(each)
        if isinstance(each, dict):
            return "{" + ", ".join(f"{json.dumps(name)}: {written(part)}" for name, part in each.items()) + "}"
        return f"[{', '.join(map(written, each))}]" if isinstance(each, list) else json.dumps(each)

    for _ in range(2000):
        record = {f"f{n}": value(0) for n in range(5)}
        text = of_json(written(record))
        assert text.malformed is None
        assert text.unknown.keys() == {name for name, each in record.items() if each is not None}
        for name, exact in text.unknown.items():
            if isinstance(record[name], str):
                assert exact == record[name]
            else:
                assert json.loads(exact, parse_float=Decimal, parse_int=Decimal) == record[name]


def test_a_csv_value_is_null_by_its_text_but_an_empty_text_in_quotes_is_a_text() -> None:
    assert of_csv('1,""').declared == ["1", ""]
    assert of_csv("1,").declared == ["1", None]
    assert of_csv('"",x').declared == [None, "x"], "a number has no empty text"
    assert of_csv('NA,"NA"').declared == [None, None]


def test_csv_records_that_cannot_be_used_say_why() -> None:
    assert of_csv("").malformed == "blank_line"
    assert of_csv("1").malformed == "malformed_line"
    assert of_csv("1,2,3").malformed == "malformed_line"
    assert of_csv('1,x"').malformed == "malformed_line"
    assert of_csv("1;2", header="id;note").malformed == "other_separator(semicolon)"
    assert of_csv("1\t2", header="id\tnote").malformed == "other_separator(tab)"
    assert of_csv("1,2", header="x,y").malformed == "unknown_header"
    assert of_csv("1,2", header="id,id").malformed == "repeated_header"


def test_a_file_is_read_by_the_dialect_that_is_stored_with_it() -> None:
    dialect = json.dumps({"separator": ";", "escape": "\\"})
    text = of_csv('1;"a\\"b";c', header="id;note;other", dialect=dialect)
    assert (text.declared, text.unknown) == (["1", 'a"b'], {"other": "c"})
