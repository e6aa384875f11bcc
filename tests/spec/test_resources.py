"""What `Resources` accepts, and what its errors say."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pipelines.flights import pipeline
from tidegate.errors import FieldError
from tidegate.spec import Resources
from tidegate.spec.resources import CONF


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("driver_memory", "4 GB", "a size such as 4g or 1500m"),
        ("driver_memory", "4096", "a size such as 4g or 1500m"),
        ("executor_memory", 4, "a size such as 4g or 1500m"),
        ("executors", 0, "a whole number from 1"),
        ("executor_cores", True, "a whole number from 1"),
        ("driver_cores", "2", "a whole number from 1"),
        ("dynamic", 1, "True or False"),
        ("pod_template", "a\nb", "the path of a file"),
        ("conf", [], "a dict of texts"),
        ("conf", {"spark.executor.memoryOverhead": "1g\n--master"}, "a text of one line"),
        ("conf", {"spark.executor.memoryOverhead": 1024}, "a text of one line"),
    ],
)
def test_a_value_that_spark_would_refuse_is_refused_with_what_is_allowed(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(FieldError, match=field) as raised:
        Resources(**{field: value})
    assert raised.value.allowed == allowed


def test_an_unknown_key_of_conf_is_refused_with_the_nearest_that_is_allowed() -> None:
    with pytest.raises(FieldError, match=r"conf='spark.executor.memoryOverhed'") as raised:
        Resources(conf={"spark.executor.memoryOverhed": "1g"})
    assert raised.value.allowed.startswith("spark.executor.memoryOverhead, or another one")
    with pytest.raises(FieldError) as raised:
        Resources(conf={"spark.sql.ansi.enabled": "false"})
    assert raised.value.allowed == ", ".join(CONF)


@pytest.mark.parametrize(
    "key",
    ["spark.driver.extraJavaOptions", "spark.executor.extraClassPath", "spark.jars", "spark.sql.extensions"],
)
def test_no_key_of_conf_loads_code(key: str) -> None:
    with pytest.raises(FieldError):
        Resources(conf={key: "x"})


def test_a_pipeline_with_resources_can_be_hashed() -> None:
    declared = dataclasses.replace(pipeline, resources=Resources(conf={"spark.task.maxFailures": "8"}))
    assert len({declared, pipeline}) == 2


def test_the_guide_lists_every_key_that_conf_may_have() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/settings.md").read_text("utf-8")
    assert [key for key in CONF if f"`{key}`" not in guide] == []
