"""Pipelines are loaded by name; the error for an unknown name lists the declared ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.errors import RequestError, SpecError
from tidegate.project import registry

DECLARED = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table
pipeline = Pipeline(name="{name}", flows=(
    Flow(name="bronze", source=FileSource(path="x", format="csv", schema="a INT"), target=Table("bronze.{table}")),
))
"""


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty package ``pipelines`` for one test."""
    import pipelines

    before = set(sys.modules)
    monkeypatch.setattr(pipelines, "__path__", [str(tmp_path)])
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("pipelines."):
            del sys.modules[name]


def test_all_pipelines_of_the_project_load() -> None:
    assert {"flights", "clickstream"} <= set(registry.names())
    for name in registry.names():
        assert registry.load(name).name == name


def test_names_are_sorted_without_private_files(declare: Path) -> None:
    for name in ("zebra", "ant", "_draft"):
        (declare / f"{name}.py").write_text("")
    assert registry.names() == ["ant", "zebra"]


@pytest.mark.parametrize("name", ["", "nothing", "Flights", "../flights", "flights.py", "os", "flights\n"])
def test_the_error_for_an_unknown_pipeline_lists_the_declared_ones(name: str) -> None:
    with pytest.raises(RequestError, match=r"Declared: .*flights"):
        registry.load(name)


def test_all_declarations_are_loaded_with_one_list_of_the_folder(
    declare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (declare / f"p{number}.py").write_text(DECLARED.format(name=f"p{number}", table=f"p{number}"))
    listed: list[list[str]] = []
    names = registry.names

    def counted() -> list[str]:
        listed.append(names())
        return listed[-1]

    monkeypatch.setattr(registry, "names", counted)
    for get in (registry.load, registry.reload):
        assert len(registry.declarations(get)) == 20
    assert len(listed) == 2


def test_a_mistyped_name_gets_a_hint() -> None:
    with pytest.raises(RequestError, match="did you mean 'flights'"):
        registry.load("fligths")


def test_a_project_without_pipelines_says_so(declare: Path) -> None:
    with pytest.raises(RequestError, match="none yet"):
        registry.load("flights")


@pytest.mark.parametrize("content", ["", "pipeline = 5", DECLARED.format(name="other", table="x")])
def test_a_file_must_define_a_pipeline_with_its_own_name(declare: Path, content: str) -> None:
    (declare / "odd.py").write_text(content)
    with pytest.raises(SpecError, match=r"pipelines/odd\.py must define"):
        registry.load("odd")


def test_a_pipeline_that_does_not_load_hides_no_other(declare: Path) -> None:
    (declare / "aa_wip.py").write_text("pipeline = Pipeline(")
    (declare / "ant.py").write_text(DECLARED.format(name="ant", table="ant"))
    declared = registry.declarations()
    assert isinstance(declared["aa_wip"], SpecError)
    assert declared["ant"] == registry.load("ant")


LISTED = """
from tidegate.spec import FileSource, Flow, Pipeline, Table, Tables
def landed(name: str) -> Flow:
    return Flow(name=name, source=FileSource(path=name, format="csv", schema="a INT"), target=Table("bronze." + name))
pipeline = Pipeline(name="shop", tables=Tables("shop.csv", landed))
"""


def test_a_line_that_is_added_to_a_list_of_tables_is_read_when_the_declaration_is_read_again(declare: Path) -> None:
    (declare / "shop.py").write_text(LISTED)
    (declare / "shop.csv").write_text("name\norders\n")
    assert [flow.name for flow in registry.reload("shop").flows] == ["orders"]

    (declare / "shop.csv").write_text("name\norders\ntills\nOrders\n")

    assert [flow.name for flow in registry.reload("shop").flows] == ["orders", "tills"]
    assert [each.where for each in registry.reload("shop").invalid_tables] == ["pipelines/shop.csv line 4"]
