"""Flows of many tables are made from a list; an entry that is not valid stops itself alone, and says where it is and what is allowed."""

from __future__ import annotations

import csv
import io
import json
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import FieldError, SpecError
from tidegate.spec import AfterTables, ChangeFeed, FileSource, Flow, Gate, Pipeline, Table, Tables
from tidegate.spec.limits import Thresholds

TABLES = 200


def flows(
    name: str,
    path: str,
    keys: tuple[str, ...],
    order: tuple[str, ...] = ("at",),
    suite: str | None = None,
    most_files: int = 100,
    share: float = 0.1,
    format: Literal["csv", "json"] = "csv",
    late: bool = False,
    null_values: tuple[str, ...] = (),
    fields: dict[str, str] | None = None,
) -> tuple[Flow, ...]:
    """A bronze and a silver table; ``late`` breaks it."""
    if late:
        raise KeyError("no late tables")
    source = FileSource(
        path=path,
        format=format,
        schema="id INT NOT NULL, at TIMESTAMP",
        max_files_per_trigger=most_files,
        null_values=null_values,
        fields=tuple((fields or {}).items()),
    )
    silver = Flow(
        name=f"{name}_silver",
        source=ChangeFeed(f"bronze.{name}"),
        target=Table(f"silver.{name}", keys=keys, sequence_by=order),
        gate=None if suite is None else Gate(suite),
        thresholds=Thresholds(no_input_runs=3) if share > 1 else None,
    )
    return Flow(name=f"{name}_bronze", source=source, target=Table(f"bronze.{name}")), silver


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the declarations."""
    import pipelines

    own = tmp_path_factory.mktemp("pipelines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipelines, "__path__", [str(own)])
        yield own


def declared(folder: Path, file: str, text: str, **fields: Any) -> Pipeline:
    (folder / file).write_bytes(text.encode())
    return Pipeline(name="shop", tables=Tables(file, flows), **fields)


def errors(pipeline: Pipeline) -> dict[str, str]:
    return {each.name: each.error.message for each in pipeline.invalid_tables}


def as_csv(entries: list[dict[str, Any]], delimiter: str, quoting: Literal[0, 1]) -> str:
    """The entries as another program writes them."""
    names = list(dict.fromkeys(name for each in entries for name in each))
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting)
    writer.writerow(names)
    for each in entries:
        writer.writerow([_cell(each.get(name, "")) for name in names])
    return out.getvalue()


def _cell(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def as_toml(entries: list[dict[str, Any]]) -> str:
    lines = ["# the tables of the shop"]
    for each in entries:
        lines += ["", "[[table]]"]
        for name, value in each.items():
            if isinstance(value, Mapping):
                pairs = ", ".join(f"{json.dumps(key)} = {json.dumps(one)}" for key, one in value.items())
                lines.append(f"{name} = {{ {pairs} }}")
            else:
                lines.append(f"{name} = {json.dumps(value)}")
    return "\n".join(lines)


COLUMNS = st.lists(st.sampled_from(["id", "at", "shop", "line_no"]), min_size=1, max_size=3, unique=True).map(tuple)
ENTRY = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True),
        "path": st.from_regex(r"[a-z]{1,9}(/[a-zöß0-9]{1,9}){0,2}", fullmatch=True),
        "keys": COLUMNS,
    },
    optional={
        "order": COLUMNS,
        "suite": st.from_regex(r"[a-z]{1,9}/[a-z]{1,9}", fullmatch=True),
        "most_files": st.integers(1, 10**9),
        "share": st.floats(0, 1),
        "format": st.sampled_from(["csv", "json"]),
        "late": st.just(False),
        "null_values": st.lists(st.text(string.ascii_letters + "#;,\"'", min_size=1, max_size=4), max_size=3).map(
            tuple
        ),
    },
)
FAULTS: dict[str, tuple[str, object]] = {
    "most_files": ("a whole number", "many"),
    "format": ("'csv' or 'json'", "xml"),
    "late": ("true or false", "perhaps"),
    "share": ("a number", "half"),
    "pfad": ("the parameters of the shape", "shop"),
    "path": ("a folder relative to the landing zone", "../shop"),
}
"""What a faulty entry has: what is allowed instead, and the value."""


@st.composite
def lists(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Entries with different names, and for those that are not valid the faulty column."""
    entries = draw(st.lists(ENTRY, min_size=1, max_size=5, unique_by=lambda each: each["name"]))
    faulty: dict[str, str] = {}
    for entry in entries[1:]:
        if draw(st.booleans()):
            column = draw(st.sampled_from(sorted(FAULTS)))
            entry[column] = FAULTS[column][1]
            faulty[str(entry["name"])] = column
    return entries, faulty


def check(pipeline: Pipeline, entries: list[dict[str, Any]], faulty: dict[str, str]) -> None:
    """The pipeline has what the shape makes of each valid entry, and says of each other one what is wrong."""
    valid = [each for each in entries if each["name"] not in faulty]
    assert set(pipeline.flows) == {flow for each in valid for flow in flows(**each)}
    assert errors(pipeline).keys() == faulty.keys()
    for name, column in faulty.items():
        allowed, value = FAULTS[column]
        assert f"table {name!r}" in errors(pipeline)[name]
        assert f"{column}={value!r} is not allowed; allowed: {allowed}" in errors(pipeline)[name]


@pytest.mark.slow
@given(made=lists(), delimiter=st.sampled_from(",;"), quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_a_csv_file_makes_the_flows_of_its_valid_lines(
    folder: Path, made: tuple[list[dict[str, Any]], dict[str, str]], delimiter: str, quoting: Literal[0, 1]
) -> None:
    entries, faulty = made
    text = as_csv(entries, delimiter, quoting)
    pipeline = declared(folder, "list.csv", text)
    check(pipeline, entries, faulty)
    lines = {str(each["name"]): f"pipelines/list.csv line {number}" for number, each in enumerate(entries, 2)}
    assert all(each.where == lines[each.name] for each in pipeline.invalid_tables)


@pytest.mark.slow
@given(
    made=lists(),
    renames=st.dictionaries(st.sampled_from(["Order ID", "größe", 'a "b"', "a.b"]), st.just("id"), max_size=1),
)
def test_a_toml_file_makes_the_flows_of_its_valid_tables(
    folder: Path, made: tuple[list[dict[str, Any]], dict[str, str]], renames: dict[str, str]
) -> None:
    entries, faulty = made
    if renames:
        entries[0]["fields"] = renames
    text = as_toml(entries)
    pipeline = declared(folder, "list.toml", text)
    check(pipeline, entries, faulty)
    lines = text.split("\n")
    for each in pipeline.invalid_tables:
        number = int(each.where.rpartition(" ")[2])
        own = lines[number : [*lines, ""].index("", number)]
        assert (lines[number - 1], f'name = "{each.name}"' in own) == ("[[table]]", True)


@pytest.mark.slow
@given(made=lists())
def test_a_list_in_python_makes_the_flows_of_its_valid_entries(
    made: tuple[list[dict[str, Any]], dict[str, str]],
) -> None:
    entries, faulty = made
    check(Pipeline(name="shop", tables=Tables(entries, flows)), entries, faulty)


CSV = "name,path,keys,order,most_files,late\n"
GOOD = "customers,shop/customers,id,,,\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (",shop,id,,,", "line 3: name is missing; give it a text"),
        ("orders,shop,,,,", "line 3, table 'orders': keys is missing; give it several values, each a text"),
        (
            "Orders 1,shop,id,,,",
            "line 3, table 'Orders 1': name='Orders 1' is not allowed; allowed: a lower-case letter",
        ),
        ("orders,shop,id,,1.5,", "line 3, table 'orders': most_files='1.5' is not allowed; allowed: a whole number"),
        ("orders,shop,id,,,yes", "line 3, table 'orders': late='yes' is not allowed; allowed: true or false"),
        ("orders,shop,id", "line 3, table 'orders': it has 3 cells, and the header 6; correct the entry"),
        ("orders,shop,id,,,,", "line 3, table 'orders': it has 7 cells, and the header 6"),
        ('orders,"shop,id,,,', "line 3: it is not CSV: unexpected end of data"),
        ("orders,shop,1st,,,", "line 3, table 'orders': Table 'silver.orders': keys=('1st',) is not allowed"),
        ("orders,shop,id,,,true", "line 3, table 'orders': shape 'flows' raises KeyError: 'no late tables' (line "),
        ("orders,shop,id,,0,", "line 3, table 'orders': FileSource: max_files_per_trigger=0 is not allowed"),
    ],
)
def test_a_wrong_line_stops_itself_alone(folder: Path, line: str, message: str) -> None:
    pipeline = declared(folder, "shop.csv", f"{CSV}{GOOD}{line}\ntills,shop/tills,id at,,,\n")

    assert [flow.name for flow in pipeline.flows] == [
        "customers_bronze",
        "customers_silver",
        "tills_bronze",
        "tills_silver",
    ]
    [error] = errors(pipeline).values()
    assert error.startswith("pipelines/shop.csv ") and message in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keys = 5", "line 5, table 'orders': keys=5 is not allowed; allowed: several values, each a text"),
        ("keys = [1]", "line 5, table 'orders': keys=[1] is not allowed"),
        ('keys = ["id"]\nmost_files = "5"', "table 'orders': most_files='5' is not allowed; allowed: a whole number"),
        ('keys = ["id"]\nmost_files = true', "table 'orders': most_files=True is not allowed"),
        ('keys = ["id"]\nsuite = 2026-01-05', "suite=datetime.date(2026, 1, 5) is not allowed; allowed: a text"),
        ('keys = ["id]', "line 5, table 'orders': it is not TOML: "),
        ('keys = ["id"]\nkeys = ["id"]', "line 5, table 'orders': it is not TOML: Cannot overwrite a value (at line 9"),
        ('keys = ["id"]\noders = "at"', "oders='at' is not allowed; allowed: the parameters of the shape, name, path"),
        ('keys = ["id"]\noders = "at"', "did you mean 'order'?"),
        ('keys = ["id"]\n[shop]', "line 5, table 'orders': [shop] is no part of a [[table]]"),
    ],
)
def test_a_wrong_table_of_a_toml_file_stops_itself_alone(folder: Path, text: str, message: str) -> None:
    entries = [{"name": "customers", "path": "shop", "keys": ["id"]}, {"name": "tills", "path": "shop", "keys": ["id"]}]
    first, second = (as_toml([each]).split("\n", 2)[2] for each in entries)
    pipeline = declared(folder, "shop.toml", f'{first}\n[[table]]\nname = "orders"\npath = "shop"\n{text}\n{second}')

    assert len(pipeline.flows) == 4
    assert errors(pipeline).keys() == {"orders"}
    assert message in errors(pipeline)["orders"]


def test_of_a_name_twice_no_line_runs_and_each_is_named(folder: Path) -> None:
    pipeline = declared(folder, "shop.csv", f"{CSV}orders,a,id,,,\n{GOOD}orders,b,id,,,\n")

    assert {flow.target.name for flow in pipeline.flows} == {"bronze.customers", "silver.customers"}
    assert errors(pipeline) == {
        "orders": "pipelines/shop.csv line 2, table 'orders': the same name is in shop.csv line 4 too, and none of them runs; give "
        "each table its own name, or remove what is there twice"
    }


def same_target(name: str) -> Flow:
    """All tables but one write the same."""
    source = FileSource(path="x", format="csv", schema="id INT")
    return Flow(name=name, source=source, target=Table("bronze.own" if name == "own" else "bronze.same"))


def test_tables_whose_flows_are_not_apart_do_not_run_and_the_flows_of_the_pipeline_do() -> None:
    own = same_target("own")
    listed = [{"name": name} for name in ("one", "two", "own")]
    pipeline = Pipeline(
        name="shop", flows=(own, same_target("more")), tables=Tables([*listed, {"name": "last"}], _last)
    )

    assert [flow.name for flow in pipeline.flows] == ["own", "more", "last"]
    assert (
        "entry 1 of Tables, table 'one': another flow of the pipeline has the name or the target 'bronze.same' too"
        in errors(pipeline)["one"]
    )
    assert errors(pipeline).keys() == {"one", "two", "own"}


def _last(name: str) -> Flow:
    made = same_target(name)
    return made if name != "last" else Flow(name=name, source=made.source, target=Table("bronze.last"))


@pytest.mark.parametrize(
    ("entry", "fields", "message"),
    [
        ({"name": "orders", "keys": ["id"], "share": 2.0}, {}, "thresholds.no_input_runs=3 is not allowed"),
        ({"name": "orders", "keys": ["id"]}, {"schedule": AfterTables("silver.orders")}, "it would trigger itself"),
    ],
)
def test_what_the_pipeline_refuses_of_one_table_stops_this_table_alone(
    entry: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    good = {"name": "tills", "path": "x", "keys": ["id"]}
    pipeline = Pipeline(name="shop", tables=Tables([{**entry, "path": "x"}, good], flows), **fields)

    assert [flow.name for flow in pipeline.flows] == ["tills_bronze", "tills_silver"]
    assert message in errors(pipeline)["orders"]


def test_a_reserved_flow_a_result_without_flows_and_an_entry_that_is_no_dict_stop_themselves_alone() -> None:
    def made(name: str) -> Any:
        results = {"nothing": (), "text": "flow", "plan": same_target("plan"), "own": same_target("own")}
        return results[name]

    listed: list[Any] = [
        *({"name": name} for name in ("nothing", "text", "plan", "own")),
        "orders",
        {"name": "tills", 7: "x"},
    ]
    pipeline = Pipeline(name="shop", tables=Tables(listed, made))

    assert [flow.name for flow in pipeline.flows] == ["own"]
    assert (
        "its result=() is not allowed; allowed: a Flow, or a tuple of one Flow or more" in errors(pipeline)["nothing"]
    )
    assert "its result='flow' is not allowed" in errors(pipeline)["text"]
    assert "names other than plan and run" in errors(pipeline)["plan"]
    assert errors(pipeline)["entry_5_of_Tables"] == "entry 5 of Tables: 'orders' is no dict; correct the entry"
    assert errors(pipeline)["tills"] == "entry 6 of Tables, table 'tills': 7 is no name of a column; correct the entry"


@pytest.mark.parametrize("entries", [5, None, {"name": "orders"}])
def test_entries_that_are_no_list_are_an_error_of_the_pipeline(entries: Any) -> None:
    with pytest.raises(SpecError, match=r"Tables: entries=.* is not allowed; allowed: the name of a \.toml or \.csv"):
        Pipeline(name="shop", tables=Tables(entries, flows))


def test_rows_of_separators_are_no_entries(folder: Path) -> None:
    pipeline = declared(folder, "shop.csv", f"{CSV},,,,,\n{GOOD}  , ,,,,\n")
    assert len(pipeline.flows) == 2
    assert not pipeline.invalid_tables


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("../shop.csv", "", r"entries='\.\./shop\.csv' is not allowed; allowed: the name of a \.toml or \.csv file"),
        ("shop.yaml", "", "the name of a .toml or .csv file in pipelines/"),
        ("none.csv", None, r"pipelines/none\.csv does not exist; create it, or correct the name"),
        ("latin.csv", b"name\n\xe4", r"pipelines/latin\.csv cannot be read \(UnicodeDecodeError\); write it as UTF-8"),
        ("empty.csv", "", r"pipelines/empty\.csv line 1: header='' is not allowed; allowed: each column once"),
        ("twice.csv", "name,path,name\n", r"pipelines/twice\.csv line 1: header='name' is not allowed"),
        ("quote.csv", 'name,"path\n', r"pipelines/quote\.csv line 1: it is not CSV"),
        ("none.toml", "", r"pipelines/none\.toml has no entry; give it one table or more"),
        ("header.csv", "name,path\n,\n", r"pipelines/header\.csv has no entry"),
        ("before.toml", "name = 5\n[[table]]\n", r"has something before its first \[\[table\]\]: {'name': 5}"),
        ("other.toml", "[[tables]]\nname = 5\n", r"pipelines/other\.toml has something before its first \[\[table\]\]"),
        ("torn.toml", "name = =\n[[table]]\n", r"before its first \[\[table\]\]: Invalid value \(at line 1"),
        (
            "all.csv",
            "name,path,keys\norders,..,id\n",
            r"pipelines/all\.csv line 2, table 'orders': FileSource: path='\.\.'",
        ),
    ],
)
def test_a_list_that_cannot_be_read_at_all_is_an_error_of_the_pipeline(
    folder: Path, file: str, text: str | bytes | None, message: str
) -> None:
    if text is not None and "/" not in file:
        (folder / file).write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(SpecError, match=message):
        Pipeline(name="shop", tables=Tables(file, flows))


def untyped(name, keys=()):  # type: ignore[no-untyped-def]
    """A shape without types."""


def nameless(table: str) -> Flow:
    """A shape without a name."""
    raise AssertionError


def with_default(name: str = "x") -> Flow:
    """A shape whose name may be left out."""
    raise AssertionError


def with_set(name: str, keys: set[str]) -> Flow:
    """A shape with a type that no list has."""
    raise AssertionError


def with_any(name: str, **more: str) -> Flow:
    """A shape with any parameters."""
    raise AssertionError


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (untyped, r"shape 'untyped': name=None is not allowed; allowed: str, int"),
        (nameless, r"shape 'nameless' has no parameter name: str"),
        (with_default, r"shape 'with_default' has no parameter name: str"),
        (with_set, r"shape 'with_set': keys=set\[str\] is not allowed; allowed: str, int, float, bool, Literal"),
        (with_any, r"shape 'with_any': more=.* is not allowed"),
    ],
)
def test_a_shape_needs_typed_parameters(shape: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Pipeline(name="shop", tables=Tables([{"name": "orders"}], shape))


def test_tables_are_declared_by_their_class() -> None:
    with pytest.raises(FieldError, match=r"tables='shop\.csv' is not allowed; allowed: Tables"):
        Pipeline(name="shop", tables="shop.csv")  # type: ignore[arg-type]


def test_a_list_of_many_tables_is_read_once_and_calls_the_shape_once_for_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "many.csv").write_text(CSV + "".join(f"t{number},shop/t{number},id,,,\n" for number in range(TABLES)))
    read, called = list[Path](), list[str]()
    bytes_of = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or bytes_of(path))  # type: ignore[func-returns-value]

    def counted(name: str, path: str, keys: tuple[str, ...]) -> tuple[Flow, ...]:
        called.append(name)
        return flows(name, path, keys)

    pipeline = Pipeline(name="shop", tables=Tables("many.csv", counted))

    assert [path.name for path in read] == ["many.csv"]
    assert called == [f"t{number}" for number in range(TABLES)]
    assert [flow.name for flow in pipeline.flows[:2]] == ["t0_bronze", "t0_silver"]
    assert len(pipeline.flows) == 2 * TABLES
