"""Pipelines are found by name, and a wrong name is answered with the right ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate import registry
from tidegate.errors import RequestError, SpecError

DECLARED = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table
pipeline = Pipeline(name="{name}", flows=(
    Flow(name="bronze", source=FileSource(path="x", format="csv", schema="a INT"), target=Table("bronze.{table}")),
))
"""


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of pipelines of this test alone."""
    import pipelines

    before = set(sys.modules)
    monkeypatch.setattr(pipelines, "__path__", [str(tmp_path)])
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("pipelines."):
            del sys.modules[name]


def test_the_projects_pipelines_are_found_and_loaded() -> None:
    assert {"flights", "clickstream"} <= set(registry.names())
    for name in registry.names():
        assert registry.load(name).name == name


def test_names_are_sorted_and_private_files_are_none(declare: Path) -> None:
    for name in ("zebra", "ant", "_draft"):
        (declare / f"{name}.py").write_text("")
    assert registry.names() == ["ant", "zebra"]


@pytest.mark.parametrize("name", ["", "nothing", "Flights", "../flights", "flights.py", "os", "flights\n"])
def test_an_unknown_pipeline_is_answered_with_those_declared(name: str) -> None:
    with pytest.raises(RequestError, match=r"Declared: .*flights"):
        registry.load(name)


def test_a_mistyped_name_gets_a_hint() -> None:
    with pytest.raises(RequestError, match="did you mean 'flights'"):
        registry.load("fligths")


def test_a_project_without_pipelines_says_so(declare: Path) -> None:
    with pytest.raises(RequestError, match="none yet"):
        registry.load("flights")


@pytest.mark.parametrize("content", ["", "pipeline = 5", DECLARED.format(name="other", table="x")])
def test_a_file_that_declares_no_pipeline_of_its_name_is_refused(declare: Path, content: str) -> None:
    (declare / "odd.py").write_text(content)
    with pytest.raises(SpecError, match=r"pipelines/odd\.py must hold"):
        registry.load("odd")


def test_the_writer_of_a_table_is_found_in_its_own_pipeline_first_and_then_in_all(declare: Path) -> None:
    for name, table in (("one", "x"), ("two", "y")):
        (declare / f"{name}.py").write_text(DECLARED.format(name=name, table=table))
    one = registry.load("one")
    found = registry.writer_of("bronze.x", one)
    assert found is not None
    assert found[0] is one
    found = registry.writer_of("bronze.y", one)
    assert found is not None
    assert (found[0].name, found[1].name) == ("two", "bronze")
    assert registry.writer_of("bronze.z", one) is None


def test_a_neighbour_that_does_not_load_hides_neither_writers_nor_readers(declare: Path) -> None:
    (declare / "aa_wip.py").write_text("pipeline = Pipeline(")
    (declare / "ant.py").write_text(DECLARED.format(name="ant", table="ant"))
    (declare / "bee.py").write_text(DECLARED.format(name="bee", table="bee"))
    ant = registry.load("ant")
    found = registry.writer_of("bronze.bee", ant)
    assert found is not None
    assert found[0].name == "bee"
    assert registry.readers_of("bronze.bee", ant) == []
    declared = registry.declarations()
    assert isinstance(declared["aa_wip"], SpecError)
    assert declared["ant"] == ant
