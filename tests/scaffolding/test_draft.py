"""What is guessed from samples of files: types, columns, keys, dialects, and what is refused."""

from __future__ import annotations

import ast
import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.scaffolding import pipeline_files, sample
from tidegate.scaffolding.draft import Draft
from tidegate.store import Address


def draft(folder: Path, content: str | bytes, name: str = "x.csv") -> Draft:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Draft.of(sample.of_file(Address.local(path)), of_topic=False)


def lines(*records: Any) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def types(drafted: Draft) -> dict[str, str]:
    return {each.column: each.guess.type for each in drafted.fields}


def test_json_lines_have_nested_types(tmp_path: Path) -> None:
    drafted = draft(
        tmp_path,
        lines({"id": "a", "who": {"age": 3}, "tags": ["x"]}, {"id": "b", "who": None, "tags": []}),
        "x.jsonl",
    )
    assert types(drafted) == {"id": "STRING", "who": "STRUCT<age: INT>", "tags": "ARRAY<STRING>"}
    declared = drafted.pipeline("shop", "shop")
    assert 'format="json",' in declared
    assert 'keys=("id",),\n                sequence_by=("landed_at",),' in declared


def test_no_name_of_a_field_becomes_code(tmp_path: Path) -> None:
    nested, odd = 'x"""\nraise SystemExit\ny = """', 'a"\\'
    drafted = draft(
        tmp_path, lines({"id": 1, odd: "b", "who": {nested: 3}}, {"id": 2, odd: "c", "who": None}), "x.jsonl"
    )

    declared = ast.parse(drafted.pipeline("shop", "shop"))

    assert [type(statement).__name__ for statement in declared.body] == ["Expr", "ImportFrom", "Assign", "Assign"]
    constants = [each.value for each in ast.walk(declared) if isinstance(each, ast.Constant)]
    assert {odd, nested} <= {*constants}
    assert any("who STRUCT<x_raise_system_exit_y: INT>" in str(each) for each in constants)
    ast.parse(drafted.job("shop"))
    ast.parse(drafted.test("shop"))


def test_values_of_several_kinds_are_texts_and_may_be_compared(tmp_path: Path) -> None:
    drafted = draft(tmp_path, lines({"id": {}, "x": [1]}, {"id": {}, "x": "a"}), "x.json")
    assert types(drafted) == {"id": "STRING", "x": "STRING"}
    assert drafted.suite("shop")


def test_a_parquet_file_has_its_own_types_and_nested_fields_keep_their_case(tmp_path: Path) -> None:
    amounts = pyarrow.array([1, 2], pyarrow.decimal128(9, 2))
    table = pyarrow.table({"id": [1, 2], "amount": amounts, "who": [{"firstName": "a"}, None]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    drafted = Draft.of(sample.of_file(Address.local(tmp_path / "x.parquet")), of_topic=False)
    assert types(drafted) == {"id": "BIGINT", "amount": "DECIMAL(9,2)", "who": "struct<firstName:string>"}
    assert "parquet, all 2 records; types are those of the file" in drafted.why
    assert not [doubt for doubt in drafted.doubts() if "BIGINT" in doubt]


def test_a_compressed_file_with_tabs_and_no_header_is_read(tmp_path: Path) -> None:
    text = "1\t2026-01-01\tx\n2\t2026-01-02\tx\n"
    declared = draft(tmp_path, gzip.compress(text.encode()), "x.tsv.gz").pipeline("shop", "shop")
    assert 'dialect=Dialect(separator="\\t", header=False),' in declared
    assert 'glob="*.tsv.gz",' in declared
    assert "column_1 INT,\n    column_2 DATE,\n    column_3 STRING\n" in declared, "a number without a name is no key"
    assert types(draft(tmp_path, bz2.compress(b"id,a\n1,x\n"), "x.csv.bz2")) == {"id": "INT", "a": "STRING"}


def test_a_sample_of_debezium_says_what_to_declare_instead(tmp_path: Path) -> None:
    row = {"op": "c", "before": None, "after": {"id": 1}, "source": {"lsn": 1}}
    wrapped = [{"schema": {}, "payload": row}, {"schema": None, "payload": None}]
    for records in ([row, {**row, "op": "d", "before": {"id": 1}, "after": None}], wrapped):
        assert "changes=debezium(…)" in str(draft(tmp_path, lines(*records), "x.json").why)
    assert "debezium" not in str(draft(tmp_path, lines(row, {"id": 1}), "x.json").why)


def test_a_value_that_does_not_fit_is_rescued_and_named_with_its_line(tmp_path: Path) -> None:
    records = [{"id": f"A-{number}", "amount": number, "who": {"age": number}} for number in range(10, 30)]
    records[3]["amount"], records[5]["who"], records[7]["who"] = "a lot", "nobody", {"age": "old"}
    drafted = draft(tmp_path, lines(*records), "x.jsonl")
    assert types(drafted) == {"id": "STRING", "amount": "INT", "who": "STRUCT<age: INT>"}
    assert 'contract=Contract(columns={"amount": "rescue", "who": "rescue"}),' in drafted.pipeline("shop", "shop")
    assert [*drafted.doubts()] == [
        "amount is not INT in line 4 (a lot): amount is empty, and the value in rescued",
        "who.age is not INT in line 8 (old): who is empty, and the value in rescued",
        "who is not STRUCT in line 6 (nobody): who is empty, and the value in rescued",
    ]


def test_a_value_for_which_a_type_is_wider_is_named_with_its_line(tmp_path: Path) -> None:
    drafted = draft(
        tmp_path, "id,a,b\n" + "".join(f"A-{number},{number},1\n" for number in range(10, 30)) + "A-99,2.5,007\n"
    )
    assert types(drafted) == {"id": "STRING", "a": "DECIMAL(18,1)", "b": "STRING"}
    assert [*drafted.doubts()] == [
        "a would be INT without line 22 (2.5)",
        "b would be INT without line 22 (007): leading zeros",
    ]


def test_texts_for_no_value_in_json_are_declared(tmp_path: Path) -> None:
    records = [{"id": f"A-{number}", "at": "2026-01-05T09:30:00Z", "amount": number} for number in range(10, 30)]
    records[3] |= {"amount": "N/A", "at": "null"}
    drafted = draft(tmp_path, lines(*records), "x.jsonl")
    assert types(drafted) == {"id": "STRING", "at": "TIMESTAMP", "amount": "INT"}
    assert 'null_values=("", "N/A", "null"),' in drafted.pipeline("shop", "shop")


def test_each_field_has_what_the_sample_has_and_examples(tmp_path: Path) -> None:
    drafted = draft(tmp_path, "id,name\n1,a\n2,\n3,a\n4,ein sehr langer Name aus vielen Buchstaben\n")
    assert drafted.rows() == [
        ("id", "id", "key", "INT", "4 values, 4 different: 1, 2, 3"),
        ("name", "name", "", "STRING", "3 values, 1 empty, 2 different: a, ein sehr langer…"),
    ]


def test_without_a_key_every_record_is_kept(tmp_path: Path) -> None:
    drafted = draft(tmp_path, "a,b\n1,x\n1,x\n")
    assert "no key: no field looks like an identifier. Silver keeps every record" in drafted.why
    assert "keys=" not in drafted.pipeline("shop", "shop")


@pytest.mark.parametrize(
    ("content", "column"),
    [("id\n1\n2\n", "id"), ("a,b\n,\n,\n", "a"), ('{"a": {"b": 1}}\n', "a"), ('{"id": 1, "a": [1]}\n', "id")],
)
def test_each_suite_has_a_rule_because_a_run_refuses_one_without(tmp_path: Path, content: str, column: str) -> None:
    [rule] = json.loads(draft(tmp_path, content, "x.jsonl" if content[0] == "{" else "x.csv").suite("shop"))[
        "expectations"
    ]
    assert rule["kwargs"] == {"column": column, "mostly": 0.0}


def test_an_empty_name_of_a_field_is_shown(tmp_path: Path) -> None:
    drafted = draft(tmp_path, "id,name,\n1,a,\n2,b,\n")
    assert drafted.rows()[2][:2] == ("''", "field")
    assert "'' is STRING: no value in the sample" in drafted.doubts()


def test_truth_values_of_several_spellings_are_declared_together(tmp_path: Path) -> None:
    drafted = draft(tmp_path, "id,paid,sent\n" + "1,ja,Y\n2,nein,N\n3,ja,N\n")
    assert types(drafted) == {"id": "INT", "paid": "BOOLEAN", "sent": "BOOLEAN"}
    assert 'true=("Y", "ja"), false=("N", "nein")' in drafted.pipeline("shop", "shop")


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (",a,b", ["field", "a", "b"]),
        ("a,b,", ["a", "b", "field"]),
        ("id,1st_name,b", ["id", "field_1st_name", "b"]),
        ("first name,first-name,id", ["first_name", "first_name_2", "id"]),
        ("_id,id,x", ["id_2", "id", "x"]),
        ("rescued,landed_at,id", ["rescued_2", "landed_at_2", "id"]),
        ("aB,a_b,AB", ["a_b", "a_b_2", "ab_2"]),
    ],
)
def test_every_header_has_columns_of_different_names(tmp_path: Path, header: str, columns: list[str]) -> None:
    drafted = draft(tmp_path, f"{header}\n1,x,2\n2,y,3\n")
    assert [each.column for each in drafted.fields] == columns
    declared = {each.declared.lower() for each in drafted.fields}
    assert len(declared) == len(drafted.fields), "Spark ignores the case of names"


@pytest.mark.parametrize("first", ["2026-01-05", "05.01.2026", "+3", "-1.5", "1,5", "10:30", "2026-01-05T10:30:00Z"])
def test_a_first_line_with_a_value_is_no_header(tmp_path: Path, first: str) -> None:
    drafted = draft(tmp_path, f"a;{first}\nb;x\n")
    assert [each.name for each in drafted.fields] == ["column_1", "column_2"]


def test_a_file_whose_name_a_run_ignores_is_landed_under_another(tmp_path: Path) -> None:
    layout = Layout.local(tmp_path / "lake", tmp_path / "landing")
    (tmp_path / "_x.csv").touch()
    placed = pipeline_files.landing_place(layout, "shop", Address.local(tmp_path / "_x.csv"))
    assert placed == ("shop", layout.landing("shop") / "x.csv")


def test_a_file_of_the_landing_zone_stays_and_its_folder_is_read_without_folders_of_partitions(tmp_path: Path) -> None:
    layout = Layout.local(tmp_path / "lake", tmp_path / "landing")
    named = Address.local(tmp_path / "landing/shop/orders/day=2026-01-05/x.csv")
    assert pipeline_files.landing_place(layout, "any", named) == ("shop/orders", None)


def test_a_large_file_is_not_copied_but_named_with_its_place(tmp_path: Path) -> None:
    layout = Layout.local(tmp_path / "lake", tmp_path / "landing")
    with (tmp_path / "x.csv").open("wb") as file:
        file.truncate(pipeline_files.LARGEST_COPY + 1)
    with pytest.raises(RequestError, match=f"copy it to {tmp_path}/landing/shop/x.csv"):
        pipeline_files.landing_place(layout, "shop", Address.local(tmp_path / "x.csv"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", "", "it is empty"),
        ("x.csv", "a,b\n", "no record"),
        ("x.csv", "a,b,a\n1,2,3\n", "its header has 'a' more than once"),
        ("x.csv", b"PK\x03\x04\xff\xfe\x00\x81\n\x81", "it cannot be read as text with separators (not_utf8, "),
        (
            "x.csv.gz",
            gzip.compress(b"a,b\n" * 99, mtime=0)[:-9],
            "it cannot be read as text with separators (corrupt_compression)",
        ),
        ("x.json", '[{"a": 1},\n {"a": 2}]\n', "jq -c '.[]' x.json > x.jsonl"),
        ("x.json", '[\n{"a": 1}\n]\n', "most of its lines are no JSON objects (line 1)"),
        ("x.parquet", "no", "cannot be read as parquet (corrupt_file)"),
    ],
)
def test_a_sample_without_a_meaning_is_refused(tmp_path: Path, name: str, content: str | bytes, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        draft(tmp_path, content, name)
    assert words in caught.value.message
