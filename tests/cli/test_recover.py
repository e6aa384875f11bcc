"""`tidegate recover` before a JVM starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import places
from tests.cli.project import Project, orders
from tests.spark_files import Checkpoint
from tidegate.checkpoints import history
from tidegate.checkpoints.overrides import OVERRIDES
from tidegate.lake.place import FlowPlace
from tidegate.lake.table_history import Position

pytestmark = pytest.mark.slow


@pytest.fixture
def damaged(project: Project) -> Project:
    """Bronze has read two files, one of which is landed still, and its table is gone."""
    pipeline = orders()
    project.declare(pipeline)
    project.layout.open()
    landing = project.layout.landing(pipeline.flows[0].source.path)  # type: ignore[union-attr]  # a FileSource
    landing.make_folder()
    kept = landing / "kept.csv"
    kept.put(b"order_id\n1\n")
    place = places.current(project.layout, pipeline, pipeline.flows[0])
    spark = Checkpoint(place.checkpoint)
    spark.list_files(0, {str(kept): kept.stat().modified_ns // 1_000_000, str(landing / "gone.csv"): 1_700_000_000_000})
    spark.run(0, {"logOffset": 0})
    positions = {"tables/bronze/orders": Position(version=0, digest="1")}
    history.write(place, batch=0, positions=positions)
    return project


def test_nothing_to_recover_is_said_and_ends_well(project: Project) -> None:
    project.declare(orders())
    for arguments in ((), ("--plan",), ("silver.orders",)):
        result = project.run("recover", *arguments)
        assert (result.code, result.out) == (0, "nothing to recover; no JVM was started\n"), result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("silver.nothing",), "no flow writes a table 'silver.nothing'; known: bronze.orders, "),
        (
            ("--accept", "bronze:lost=1"),
            "accept='bronze:lost=1' is not allowed; write <pipeline>/<flow>:<what>=<number>",
        ),
    ],
)
def test_wrong_arguments_exit_with_64(damaged: Project, arguments: tuple[str, ...], message: str) -> None:
    result = damaged.run("recover", *arguments)
    assert (result.code, message in result.err) == (64, True), result.err


def test_the_plan_names_damage_steps_and_losses_and_changes_nothing(damaged: Project) -> None:
    before = sorted(path for path in Path(damaged.layout.root).rglob("*") if "leases" not in path.parts)
    result = damaged.run("recover", "--plan")
    assert result.code == 0, result.err
    assert "damaged: orders/bronze: bronze.orders: it has no log any more" in result.out
    assert "1. orders/bronze: bronze.orders: read 1 of 1 landed file, those that are not in bronze" in result.out
    assert "removed or changed since: gone.csv" in result.row("lost: orders/bronze")
    values = damaged.run("recover", "--json").json
    assert [each["action"] for each in values["steps"]] == ["read again", *["follow"] * (len(values["steps"]) - 1)]
    assert [each["accept"] for each in values["lost"]] == ["bronze:lost=1"]
    assert sorted(path for path in Path(damaged.layout.root).rglob("*") if "leases" not in path.parts) == before


def test_a_loss_that_is_not_accepted_by_its_number_stops_everything_before_it_begins(damaged: Project) -> None:
    for accept in ((), ("--accept", "orders/bronze:lost=2")):
        result = damaged.run("recover", *accept)
        assert result.code == 65, result.out
        assert "tidegate recover --accept orders/bronze:lost=1" in result.err
    assert not list((Path(damaged.layout.root) / "reports").glob("**/*.request.json"))
    assert not OVERRIDES.path(FlowPlace(damaged.layout, "orders", "bronze")).exists()


def test_a_pipeline_that_does_not_load_is_named_and_the_others_are_judged(damaged: Project) -> None:
    (damaged.folder / "pipelines" / "broken.py").write_text("pipeline = 1\n")
    result = damaged.run("recover", "--plan")
    assert "not known: broken: " in result.out
    assert "damaged: orders/bronze" in result.out
    assert json.loads(damaged.run("recover", "--json").out)["unknown"].keys() == {"broken"}
