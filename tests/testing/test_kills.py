"""What counts as the same lake after killed runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tidegate.lake.place import FlowPlace
from tidegate.project import registry
from tidegate.testing import Lake
from tidegate.testing.kills import expect_equal

FLIGHTS = registry.load("flights")
SILVER: dict[str, list[Any]] = {
    "flight_id": ["a", "b"],
    "mean": [0.1 + 0.2, 1.0],
    "_deleted": [False, True],
    "_row_id": ["x#1", "x#2"],
}


def put(lake: Lake, path: Path, **columns: Any) -> None:
    write_deltalake(str(path), pa.table(columns), mode="append", schema_mode="merge")


@pytest.fixture
def lakes(tmp_path: Path) -> tuple[Lake, Lake]:
    """Two lakes with equal tables that different batches wrote."""
    made: list[Lake] = []
    for name in ("killed", "undisturbed"):
        lake = Lake.make(tmp_path / name, "flights")
        silver = {**SILVER, "mean": [0.3, 1.0]} if made else SILVER
        put(lake, Path(lake.layout.table("silver.flights")), **silver, _batch_id=[len(made)] * 2)
        entry = {"_row_id": ["x#3"], "level": ["row"], "rules": [["r"]], "state": ["open"], "quarantined_at": [name]}
        put(lake, Path(FlowPlace(lake.layout, "flights", "silver").quarantine), **entry)
        made.append(lake)
    return made[0], made[1]


def test_batches_times_and_the_last_digits_of_sums_do_not_count(lakes: tuple[Lake, Lake]) -> None:
    expect_equal(*lakes, FLIGHTS, "a kill")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"flight_id": ["c"], "mean": [1.0], "_deleted": [False], "_row_id": ["x#4"]},
            "has 1 row too many and lacks 0 rows",
        ),
        ({name: values[:1] for name, values in SILVER.items()}, "has 1 row too many and lacks 0 rows"),
    ],
)
def test_a_row_too_many_is_named_with_its_table(
    lakes: tuple[Lake, Lake], changed: dict[str, list[object]], message: str
) -> None:
    put(lakes[0], Path(lakes[0].layout.table("silver.flights")), **changed)
    with pytest.raises(AssertionError, match=f"after a kill: tables/silver/flights {message}"):
        expect_equal(*lakes, FLIGHTS, "a kill")


def test_a_table_or_an_entry_that_only_one_lake_has_is_lacking(lakes: tuple[Lake, Lake]) -> None:
    other = lakes[1]
    put(
        other,
        Path(FlowPlace(other.layout, "flights", "silver").quarantine),
        _row_id=["x#9"],
        level=["row"],
        rules=[["r"]],
        state=["open"],
    )
    with pytest.raises(AssertionError, match="lacks 1 row"):
        expect_equal(*lakes, FLIGHTS, "a kill")
    put(
        lakes[0],
        Path(FlowPlace(lakes[0].layout, "flights", "silver").quarantine),
        _row_id=["x#9"],
        level=["row"],
        rules=[["r"]],
        state=["open"],
    )
    put(other, Path(other.layout.table("gold.daily_delay")), carrier=["UA"])
    with pytest.raises(AssertionError, match="gold/daily_delay has 0 rows too many and lacks 1 row"):
        expect_equal(*lakes, FLIGHTS, "a kill")


def test_a_lake_has_the_landing_zone_of_its_folder(tmp_path: Path) -> None:
    lake = Lake.make(tmp_path)
    landed = lake.land("flights/a.csv", "x")
    assert landed.read_text() == "x"
    assert [path.name for path in landed.parent.iterdir()] == ["a.csv"]
    assert dataclasses.replace(lake, pipeline="flights").request().dag_id == "flights"
