"""Every name in a declaration resolves, without Spark and without Great Expectations."""

from __future__ import annotations

import ast
import importlib.resources
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tidegate.project import registry, resolution
from tidegate.schema.ddl import parse_ddl
from tidegate.spec import ChangeFeed, Flow, Pipeline

PROJECT = Path(__file__).parents[2]
ALL = [(pipeline, flow) for pipeline in map(registry.load, registry.names()) for flow in pipeline.flows]


def flows(*, having: str = "name") -> list[ParameterSet]:
    """The flows whose field ``having`` is not None."""
    matches = [(pipeline, flow) for pipeline, flow in ALL if getattr(flow, having) is not None]
    return [pytest.param(pipeline, flow, id=f"{pipeline.name}-{flow.name}") for pipeline, flow in matches]


def test_the_examples_are_declared() -> None:
    assert {"clickstream", "delays", "flights", "payments"} <= set(registry.names())


@pytest.mark.parametrize(("pipeline", "flow"), flows(having="transform"))
def test_every_transform_is_a_function_of_one_frame_per_source(pipeline: Pipeline, flow: Flow) -> None:
    assert flow.transform is not None
    module, _, name = flow.transform.partition(":")
    source = (PROJECT / "spark_jobs" / f"{module}.py").read_text()
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    assert name in functions
    assert len(functions[name].args.args) == len(flow.source_tables or (flow.source,))


@pytest.mark.parametrize(("pipeline", "flow"), flows(having="gate"))
def test_every_suite_is_a_packaged_json_file_with_its_own_name(pipeline: Pipeline, flow: Flow) -> None:
    assert flow.gate is not None
    folder, _, stem = flow.gate.suite.partition("/")
    suite = json.loads(importlib.resources.files(f"expectations.{folder}").joinpath(f"{stem}.json").read_text())
    assert suite["name"] == flow.gate.suite
    assert suite["expectations"]
    assert {expectation["severity"] for expectation in suite["expectations"]} <= {"critical", "warning", "info"}


@pytest.mark.parametrize(("pipeline", "flow"), flows())
def test_every_change_feed_reads_a_table_that_a_flow_writes(pipeline: Pipeline, flow: Flow) -> None:
    if isinstance(flow.source, ChangeFeed):
        assert resolution.load(pipeline.name, PROJECT).flow(flow.name).writer is not None


@pytest.mark.parametrize(("pipeline", "flow"), flows())
def test_every_landing_source_declares_required_fields(pipeline: Pipeline, flow: Flow) -> None:
    if not isinstance(flow.source, ChangeFeed):
        assert any(column.required for column in parse_ddl(flow.name, flow.source.schema))


def test_every_suite_is_used_by_a_flow() -> None:
    used = {flow.gate.suite for name in registry.names() for flow in registry.load(name).flows if flow.gate}
    folder = PROJECT / "expectations"
    assert {str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.json")} == used


def test_suites_can_be_read_from_a_zip(tmp_path: Path) -> None:
    packed = tmp_path / "shipped.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in (PROJECT / "expectations").rglob("*"):
            if path.suffix in (".py", ".json"):
                archive.write(path, path.relative_to(PROJECT))
    script = (
        "import importlib.resources as r, json, sys;"
        "sys.path[:] = [sys.argv[1], *[p for p in sys.path if 'python' in p]];"
        "import expectations.flights as e; assert sys.argv[1] in e.__file__, e.__file__;"
        "print(json.loads(r.files('expectations.flights').joinpath('silver.json').read_text())['name'])"
    )
    process = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(packed)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert process.stdout.strip() == "flights/silver", process.stderr


def test_loading_the_declarations_imports_no_spark_and_no_great_expectations() -> None:
    script = (
        "import sys; from tidegate.project import registry; [registry.load(name) for name in registry.names()];"
        "print(sorted({'pyspark', 'delta', 'pandas', 'great_expectations', 'airflow', 'sqlglot'} & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=PROJECT, check=True)
    assert process.stdout.strip() == "[]"
