"""A list of tables runs as one pipeline: one that fails stops itself alone, and one that is declared again goes on where it stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.project import registry
from tidegate.status.removed import removed_flows
from tidegate.testing.lake import Lake

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table, Tables


def versions(
    name: str, keys: tuple[str, ...], transform: str = "shop_of_tables:clean", version: int = 1
) -> tuple[Flow, ...]:
    source = FileSource(path=name, format="csv", schema="id INT NOT NULL, version INT, amount INT")
    silver = Flow(
        name=f"{name}_silver",
        source=ChangeFeed(f"bronze.{name}"),
        transform=transform,
        target=Table(f"silver.{name}", keys=keys, sequence_by="version"),
        checkpoint_version=version,
    )
    return Flow(name=f"{name}_bronze", source=source, target=Table(f"bronze.{name}")), silver


pipeline = Pipeline(name="shop_of_tables", tables=Tables("shop_of_tables.csv", versions))
"""
TRANSFORMS = """
def clean(rows):
    return rows


def broken(rows):
    from pyspark.sql import functions as F

    return rows.withColumn("amount", F.raise_error(F.lit("broken")).cast("int"))
"""
HEADER, CUSTOMERS, TILLS = "name,keys,transform,version\n", "customers,id,,\n", "tills,id,,\n"
BROKEN, CORRECTED, INVALID = "orders,id,shop_of_tables:broken,\n", "orders,id,,2\n", "visits,,,\n"
NAMES = ("customers", "orders", "tills")
FILES = ("id,version,amount\n1,1,10\n2,1,20\n1,2,11\n", "id,version,amount\n2,3,22\n3,1,30\n1,1,10\n")


def newest(*files: str) -> list[tuple[int, int, int]]:
    """The newest version of each id in landed files, computed without the platform."""
    kept: dict[int, tuple[int, int, int]] = {}
    for line in (line for file in files for line in file.splitlines()[1:]):
        key, version, amount = map(int, line.split(","))
        if key not in kept or kept[key][1] < version:
            kept[key] = (key, version, amount)
    return sorted(kept.values())


@pytest.fixture
def shop(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Lake, Callable[..., None]]:
    """A lake, and what writes the list."""
    import pipelines
    import spark_jobs

    for package, file, text in (
        (pipelines, "shop_of_tables.py", DECLARATION),
        (spark_jobs, "shop_of_tables.py", TRANSFORMS),
    ):
        own = tmp_path / package.__name__
        own.mkdir()
        (own / file).write_text(text)
        monkeypatch.setattr(package, "__path__", [str(own)])
        monkeypatch.setitem(sys.modules, f"{package.__name__}.shop_of_tables", None)
        del sys.modules[f"{package.__name__}.shop_of_tables"]

    def write(*lines: str) -> None:
        (tmp_path / "pipelines" / "shop_of_tables.csv").write_text("".join((HEADER, *lines)))
        registry.reload("shop_of_tables")

    return Lake.make(tmp_path / "lake", "shop_of_tables"), write


def silver(lake: Lake, name: str) -> list[tuple[int, int, int]]:
    rows = lake.table(f"silver.{name}").select(["id", "version", "amount"]).to_pylist()
    return sorted((row["id"], row["version"], row["amount"]) for row in rows)


def test_a_list_of_tables_runs_without_its_bad_ones_and_a_removed_table_goes_on_when_it_is_declared_again(
    shop: tuple[Lake, Callable[..., None]],
) -> None:
    lake, write = shop
    for name in NAMES:
        lake.land(f"{name}/1.csv", FILES[0])

    write(CUSTOMERS, BROKEN, TILLS, INVALID)
    report = lake.run()

    states = {each.flow: each.state for each in report.flows}
    assert states == {
        **{f"{name}_{layer}": "done" for name in ("customers", "tills") for layer in ("bronze", "silver")},
        "orders_bronze": "done",
        "orders_silver": "refused",
    }
    assert [silver(lake, name) for name in ("customers", "tills")] == [newest(FILES[0])] * 2

    for name in NAMES:
        lake.land(f"{name}/2.csv", FILES[1])
    write(CUSTOMERS, CORRECTED)
    report = lake.run()

    assert {each.flow: each.state for each in report.flows} == {
        f"{name}_{layer}": "done" for name in ("customers", "orders") for layer in ("bronze", "silver")
    }
    assert [silver(lake, name) for name in NAMES] == [newest(*FILES), newest(*FILES), newest(FILES[0])]
    pipeline = registry.load("shop_of_tables")
    removed = removed_flows(lake.layout, pipeline, {pipeline.name: pipeline})
    assert [each.summary() for each in removed] == [
        "tills_bronze: bronze.tills with 3 rows, checkpoint v1/0 after batch 0",
        "tills_silver: silver.tills with 2 rows, checkpoint v1/0 after batch 0",
    ]

    write(CUSTOMERS, CORRECTED, TILLS)
    report = lake.run()

    assert [report.flow(f"tills_{layer}").state for layer in ("bronze", "silver")] == ["done", "done"]
    assert report.flow("customers_silver").state == "idle"
    assert [silver(lake, name) for name in NAMES] == [newest(*FILES)] * 3
    lake.expect_a_balanced_ledger()
