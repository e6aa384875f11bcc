"""Without the packages of any extra, commands that need no JVM work, and every module imports or says which extra to install."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from tests.cli.project import Project, orders
from tidegate.errors import extras
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import Thresholds

pytestmark = pytest.mark.slow

WITHOUT = f"""
import importlib, json, pkgutil, sys
from importlib.machinery import PathFinder

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {(*extras.EXTRAS,)!r} else super().find_spec(name, path, target)

sys.meta_path = [Installed if finder is PathFinder else finder for finder in sys.meta_path]
from tidegate.errors import classify
"""
COMMANDS = (
    "status", "lag", "plan orders", "checkpoint orders", "ledger orders", "alerts orders", "docs orders", "version", "new second",
    "flow off orders silver --reason test", "contract show orders", "recover --plan",
)  # fmt: skip
RUN = """
from tidegate.cli import app
ended = {}
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command if isinstance(command, list) else command.split()
    try:
        app()
    except SystemExit as end:
        ended[str(command)] = end.code
    except BaseException as error:
        ended[str(command)] = classify(error).message
    print("", flush=True)
print(json.dumps(ended))
"""
OF_PEOPLE = (
    ["query", "SELECT count(*) AS n FROM silver.orders"],
    ["trace", "silver.orders", "--key", "order_id=A-1"],
)
"""Those with which people look at data, and what they need."""
EVALUATE = """
import pendulum
from tidegate.cli import project
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import alert_history
from tidegate.alerting.episodes import transitions
from tidegate.status import evaluation, status_cache

environment, now = project.read(), pendulum.now("UTC")
place = PipelinePlace(Layout.of(environment), "orders")
declared = {"orders": status_cache.declarations(environment)["orders"]}
[judged] = evaluation.evaluate_pipelines(environment, list(declared.items()), now)
alert_history.append(place, transitions(alert_history.episodes(place), judged.findings, now))
print(json.dumps([[each.rule, str(each.resolved_at)] for each in alert_history.episodes(place)]))
"""
APPEND = """
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import ledger, store

store.MAX_FILES = 3
place = PipelinePlace(Layout.of(Environment.read()), "orders")
for number in range(2, 9):
    line = ledger.RecordedLine(flow="silver", kind="upsert", app_id="a", batch_id=number, rules={"a": number})
    ledger.LEDGER.append(place, [line])
lines = [(line.batch_id, dict(line.rules)) for line in ledger.LEDGER.read(place)]
print(json.dumps([lines, len(list((ledger.LEDGER.address(place)).list()))]))
"""
IMPORT = """
import tidegate
failed, imported = {}, 0
for module in pkgutil.walk_packages(tidegate.__path__, "tidegate.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
        imported += 1
    except BaseException as error:
        failed[module.name] = classify(error).message
print(json.dumps([imported, failed]))
"""


def run(project: Project, steps: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + steps, *arguments],
        env={**project.child_environment, "JAVA_HOME": "/nowhere"},
        cwd=project.folder.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def read(project: Project) -> Project:
    """Orders with a landed file that bronze has read, rows in silver, and a ledger line."""
    pipeline = project.declare(dataclasses.replace(orders(), thresholds=Thresholds(lag_rows=0)))
    landed = project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    project.land("1.csv", "order_id,amount\nA-2,2.0\n")
    project.checkpoint(pipeline, pipeline.flow("bronze")).listed(0, landed).plan(0, {"logOffset": 0}).commit(0)
    project.table("bronze.orders", [{"line": "A-1,1.0", "_row_id": "1"}])
    project.table("silver.orders", [{"order_id": "A-1", "day": "2026-01-01", "_row_id": "1", "_batch_id": 0}])
    project.record(
        pipeline, LedgerLine(flow="silver", kind="upsert", app_id="orders/silver/v1/0", batch_id=0, read=1, written=1)
    )
    return project


def test_commands_that_start_no_jvm_work_without_any_extra(read: Project) -> None:
    printed = run(read, RUN, json.dumps(COMMANDS))
    ended = json.loads(printed.splitlines()[-1])
    assert {command: code for command, code in ended.items() if code not in (0, None)} == {}, printed
    assert len(ended) == len(COMMANDS)


def test_a_command_that_needs_an_extra_says_so_and_how_to_install_it(read: Project) -> None:
    (message,) = json.loads(run(read, RUN, json.dumps(["expectations check orders"])).splitlines()[-1]).values()
    assert message.startswith("the package pyspark is not installed in ")
    assert message.endswith('; install it there with `pip install "tidegate[job]"`')


def test_a_command_that_looks_at_data_says_that_it_needs_duckdb(read: Project) -> None:
    ended = json.loads(run(read, RUN, json.dumps(OF_PEOPLE)).splitlines()[-1])
    assert len(ended) == len(OF_PEOPLE)
    for command, message in ended.items():
        assert str(message).startswith("the package duckdb is not installed in "), command
        assert message.endswith('; install it there with `pip install "tidegate[query]"`'), command


def test_alerts_are_judged_and_recorded_without_any_extra(read: Project) -> None:
    episodes = json.loads(run(read, EVALUATE).splitlines()[-1])
    assert ["lag", "None"] in episodes, episodes


def test_the_tables_of_the_platform_are_written_and_compacted_without_any_extra(read: Project) -> None:
    lines, _ = json.loads(run(read, APPEND).splitlines()[-1])
    assert lines == [[0, {}], *([number, {"a": number}] for number in range(2, 9))]


def test_every_module_imports_or_says_which_extra_to_install(project: Project) -> None:
    imported, failed = json.loads(run(project, IMPORT).splitlines()[-1])
    assert {name: message for name, message in failed.items() if 'pip install "tidegate[' not in message} == {}
    need_one = {name.split(".")[1] for name in failed}
    of_project = {name.rpartition(".")[2] for name in failed if name.startswith("tidegate.project.")}
    assert of_project == {"statement", "statement_functions", "statement_joins", "statement_rules"}
    assert (
        {"airflow", "spark"}
        <= need_one
        <= {"airflow", "formats", "kinds", "project", "runs", "sources", "spark", "testing"}
    )
    assert imported > 200
