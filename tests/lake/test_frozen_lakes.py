"""Lakes that earlier versions wrote are read by the present one, as they were left."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.cli.project import Project
from tests.lake.freeze import FROZEN
from tidegate.lake.layout import LAKE_FORMAT

GOLD = [
    "2026-01-05,3,234.40",
    "2026-01-06,1,42.00",
    "2026-01-07,2,30.00",
    "2026-01-08,1,30.00",
    "2026-01-09,2,30.00",
    "2026-01-10,9,9.00",
]
"""Day, orders and amount of each row of the table gold.orders."""
HEADER = "order_id,ordered_at,customer,channel,amount,updated_at\n"


@pytest.fixture(params=sorted(FROZEN.glob("*.tar.xz")), ids=lambda path: path.name)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    """The project that the tutorial leaves, with its lake, in another folder than that where it was written."""
    project = Project(tmp_path / "shop", "127.0.0.1:9")
    with tarfile.open(request.param) as packed:
        packed.extractall(project.folder, filter="data")
    data = project.folder / ".data"
    (data / "lake").rename(project.folder / "lake")
    (data / "landing").rename(project.folder / "landing")
    return project


def test_there_is_a_frozen_lake_of_each_format() -> None:
    assert {path.name.partition("-")[0] for path in FROZEN.glob("*.tar.xz")} == {
        str(each) for each in range(1, LAKE_FORMAT + 1)
    }


def test_a_frozen_lake_is_read_without_a_jvm(shop: Project) -> None:
    gold = shop.run("query", "SELECT day, orders, amount FROM gold.orders ORDER BY day", "--csv")
    assert gold.out.splitlines()[1:] == GOLD
    for command in ("checkpoint", "contract show", "alerts"):
        assert shop.run(*command.split(), "orders").code == 0, command
    assert shop.run("quarantine", "list", "orders").row("silver: 2 open, 2 expired")
    ledger = shop.run("ledger", "orders").out
    for kind in ("append", "upsert", "recompute", "backfill", "swap", "undo"):
        assert f"  {kind}  " in ledger, ledger


@pytest.fixture
def moved(shop: Project) -> Project:
    """The same, after a person said that its landing zone was moved, with one new file."""
    moved = shop.run("landing", "moved", "orders", "--accept", "--reason", "It was restored.")
    assert moved.code == 0, moved.err
    assert shop.run("status", "orders").code == 0
    (shop.folder / "landing/orders/monday.csv").write_text(
        HEADER + "F-1,2026-01-12T09:00:00Z,Ada,web,1.00,2026-01-12T09:00:00Z\n"
    )
    return shop


def test_a_frozen_lake_goes_on_in_the_folder_to_which_it_was_moved(moved: Project) -> None:
    plan = moved.run("plan", "orders")
    assert "1 new file in orders" in plan.row("bronze  yes"), plan.out


@pytest.mark.packages
@pytest.mark.jvm
def test_an_increment_goes_on_from_the_checkpoints_of_a_frozen_lake(moved: Project) -> None:
    ran = moved.run("run", "orders")
    assert ran.code == 0, ran.out + ran.err
    gold = moved.run("query", "SELECT day, orders, amount FROM gold.orders ORDER BY day", "--csv").out.splitlines()
    assert gold[1:] == [*GOLD, "2026-01-12,1,1.00"]
    assert "nothing is new" in moved.run("run", "orders").out
