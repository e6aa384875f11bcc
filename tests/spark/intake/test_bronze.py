"""Every kind of source names the modules that measure it and read its bronze table."""

from __future__ import annotations

import importlib.util
from typing import get_args

import pytest

from tidegate import spec
from tidegate.spark.intake.bronze import Bronze, columns
from tidegate.spec import LandingSource, Source
from tidegate.spec.kinds import SOURCES
from tidegate.status.source import MeasuredSource, of_kind

DECLARED: dict[type, str] = {getattr(spec, name): folder for folder, name in SOURCES.items()}
"""The folders of kinds of source, by the class of their declaration."""


def test_every_type_that_a_flow_may_declare_is_a_kind_of_source() -> None:
    assert {kind for kind in DECLARED if not issubclass(kind, get_args(Source))} == set()
    assert set(get_args(Source)) <= set(DECLARED)


@pytest.mark.parametrize("declared", DECLARED, ids=lambda kind: kind.__name__)
def test_a_kind_of_source_is_measured_and_read_by_its_modules(declared: type) -> None:
    assert isinstance(of_kind(DECLARED[declared]), MeasuredSource)
    folder = f"tidegate.sources.{DECLARED[declared]}"
    assert importlib.import_module(folder).__dict__[declared.__name__] is declared
    has_bronze = importlib.util.find_spec(f"{folder}.read") is not None
    assert has_bronze == (declared in get_args(LandingSource)), "only records that no flow writes have a bronze table"
    if has_bronze:
        assert isinstance(importlib.import_module(f"{folder}.read").BRONZE, Bronze)


def test_a_transform_may_use_the_columns_of_every_kind() -> None:
    assert columns() == {"_path", "_modified_at", "_partitions", "_key", "_timestamp"}
