"""One table whose log is damaged: each command names it, and goes on with the flows that do not stand on it.

The damage is random; which flows stand on a table is computed from the declaration alone.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.project import Project
from tests.cli.sample_lake import ORDERS, READING, fill
from tests.slices import of_week
from tidegate.errors import EX_CONFIG, EX_SOFTWARE
from tidegate.errors.error import of_tidegate
from tidegate.spec import Flow

pytestmark = pytest.mark.slow

TABLES = {flow.target.name: flow for flow in ORDERS.flows}


def empty(log: Path, rng: random.Random) -> None:
    rng.choice(entries(log)).write_bytes(b"")


def torn(log: Path, rng: random.Random) -> None:
    file = rng.choice(entries(log))
    content = file.read_bytes()
    # A torn file ends within a line.
    file.write_bytes(content[: rng.randrange(1, content.rindex(b"}") - 1)].rstrip())


def garbage(log: Path, rng: random.Random) -> None:
    rng.choice(entries(log)).write_bytes(rng.randbytes(300))


def missing(log: Path, rng: random.Random) -> None:
    # Not the newest one: without it the history is another one, and not damaged.
    rng.choice(entries(log)[:-1]).unlink()


def folder(log: Path, rng: random.Random) -> None:
    file = rng.choice(entries(log))
    file.unlink()
    file.mkdir()


def no_entry(log: Path, rng: random.Random) -> None:
    for file in entries(log):
        file.write_bytes(b"")


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (empty, torn, garbage, missing, folder, no_entry)


def entries(log: Path) -> list[Path]:
    return sorted(log.glob("*.json"))


def flows_of(table: str) -> set[str]:
    """The flows that write a table or read it; every flow writes the ledger."""
    if table.startswith("ops."):
        return {flow.name for flow in ORDERS.flows}
    own = {flow.name for flow in ORDERS.flows if table in (flow.target.name, *flow.source_tables)}
    return own | ({"silver"} if table == "quarantine.orders.silver" else set())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Path]:
    """A project whose tables have three commits each, and new work in each flow; and a copy of it."""
    path = tmp_path_factory.mktemp("damaged")
    project = Project.make(path / "project")
    fill(project)
    shutil.copytree(project.folder, path / "copy", symlinks=True)
    return project, path / "copy"


@pytest.fixture
def project(built: tuple[Project, Path]) -> Iterator[Project]:
    project, copy = built
    yield project
    shutil.rmtree(project.folder)
    shutil.copytree(copy, project.folder, symlinks=True)


COMMANDS = {
    **READING,
    "run": ("run", "orders"),
    "dry run": ("run", "orders", "--mode", "full_refresh", "--flow", "silver", "--dry-run"),
    "verify": ("verify", "orders", "gold"),
}
OF_FLOWS = {"plan": "error", "status": "error", "lag": "?"}
"""Commands that show every flow, and what they show for one that cannot be read."""


PER_MERGE = (1, 5, 6)
"""Seeds that damage the table of a flow, a quarantine table and the ledger."""


@pytest.mark.parametrize(
    "seed",
    [
        *PER_MERGE,
        *(
            pytest.param(seed, marks=pytest.mark.nightly)
            for seed in of_week([seed for seed in range(28) if seed not in PER_MERGE], 9)
        ),
    ],
)
def test_a_damaged_table_stops_what_stands_on_it_and_every_command_names_it(project: Project, seed: int) -> None:
    rng = random.Random(seed)
    tables = [*TABLES, "quarantine.orders.silver", "ops.orders.ledger"]
    table, damage = tables[seed % len(tables)], rng.choice(DAMAGES)
    damage(Path(project.layout.delta_tables()[table] / "_delta_log"), rng)
    stopped = flows_of(table)

    for name, arguments in COMMANDS.items():
        result = project.run(*(each.format(table=table) for each in arguments), JAVA_HOME="/nowhere")
        shown = " ".join((result.out + result.err).split())
        where = f"{table} {damage.__name__}: {name} ended with {result.code}:\n{result.out}{result.err}"
        assert of_tidegate(result.code) is not None and result.code != EX_SOFTWARE, where
        if name in OF_FLOWS:
            assert result.code == EX_CONFIG, where
            lines = {flow.name: line for line in result.out.splitlines() if (flow := flow_of(line)) is not None}
            assert {flow for flow, line in lines.items() if line.split()[1] == OF_FLOWS[name]} == stopped, where
            assert set(lines) == {flow.name for flow in ORDERS.flows}, where
        if name in (*OF_FLOWS, "query", "alerts", "run") or (result.code == EX_CONFIG and "JAVA_HOME" not in shown):
            assert f"table {table} cannot be read" in shown, where


def flow_of(line: str) -> Flow | None:
    """The flow that a line of a list of flows is about."""
    first = line.split()[0].removeprefix("orders/") if line.split() else ""
    return next((flow for flow in ORDERS.flows if flow.name == first), None)
