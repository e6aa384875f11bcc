"""Every shell block of the guides runs: `console` blocks with their output, `bash` blocks on one lake that they share.

The processes of their commands are forked (`tests.docs.fork_server`); those of the README are real ones. A block that cannot run says
why in a comment before it, ``<!-- not run: it needs a topic -->``.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from demo import flights_feed
from docs import draw_stateful
from tests.canaries import contains_any, files_containing, tables_containing
from tests.cli.project import append, quarantined
from tests.docs import fork_server, guides
from tests.docs.fork_server import ForkServer
from tests.docs.guides import GuideRunner, StepResult
from tests.tiers import OTHER_GUIDES
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops.table import line_of
from tidegate.reports.ledger_line import LedgerLine
from tidegate.store import Address

NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
MOST_NOT_RUN = 7
TUTORIAL = guides.ROOT / "docs" / "tutorial.md"
LIVE = guides.GUIDES / "scheduling.md"
"""`tests/live/test_guides.py` runs its console blocks in a real Airflow."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a guide."""

    guide: Path
    line: int
    language: str
    text: str
    not_run: str
    """Why it does not run; empty if it does."""

    def __str__(self) -> str:
        return f"{self.guide.name}:{self.line}"


def blocks(guide: Path) -> Iterator[Block]:
    lines = guide.read_text(encoding="utf-8").splitlines()
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith("```")]
    for first, last in zip(fences[::2], fences[1::2], strict=True):
        before = next((line for line in reversed(lines[:first]) if line.strip()), "")
        reason = NOT_RUN.fullmatch(before.strip())
        language = lines[first].strip().removeprefix("```")
        yield Block(guide, first + 1, language, "\n".join(lines[first + 1 : last]), reason[1] if reason else "")


BLOCKS = [block for guide in sorted(guides.GUIDES.glob("*.md")) for block in blocks(guide)]
SHELL = [block for block in BLOCKS if block.language == "bash"]
RUNNABLE = sorted({block.guide for block in BLOCKS if block.language == "console"} - {LIVE})


def test_few_blocks_do_not_run_and_each_says_why() -> None:
    not_run = [f"{block}: {block.not_run}" for block in BLOCKS if block.not_run]
    assert len(not_run) <= MOST_NOT_RUN, not_run
    assert all(block.language in ("bash", "json") for block in BLOCKS if block.not_run)


def test_every_block_has_a_language_that_is_tested() -> None:
    languages = {block.language.split(" ")[0] for block in BLOCKS}
    assert languages <= {"bash", "console", "python", "json", "toml", ""}, languages


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_a_file_of_settings_is_valid(block: Block, tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text(block.text)
    assert Environment.read({"TIDEGATE_PROJECT": str(tmp_path)}).project_name


def test_guides_with_the_same_first_commands_run_in_one_worker() -> None:
    begin = {guide.stem: [step.command for step in guides.steps(guide)][:2] for guide in RUNNABLE}
    others = {name for name, commands in begin.items() if commands != ["tidegate new orders", "tidegate run orders"]}
    assert others == set(OTHER_GUIDES)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[ForkServer]:
    with fork_server.running(tmp_path_factory.mktemp("server"), spark) as running:
        yield running


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> GuideRunner:
    return GuideRunner(tmp_path_factory.mktemp("guides"), RUNNABLE, server.commands)


def in_shell(command: str, project: Path, commands: Path | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=project,
        env=guides.shell_of(project, commands),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.jvm
def test_a_forked_command_ends_and_prints_as_the_real_one(tmp_path: Path, server: ForkServer) -> None:
    guides.scaffold(tmp_path / "project")
    real, forked = (in_shell("tidegate plan flight", tmp_path / "project", each) for each in (None, server.commands))
    assert (forked.returncode, forked.stdout, forked.stderr) == (real.returncode, real.stdout, real.stderr)
    assert (forked.returncode, forked.stdout) == (64, "")
    assert "there is no pipeline 'flight'" in forked.stderr


@pytest.mark.jvm
def test_an_edit_within_a_second_that_keeps_the_size_of_a_file_is_read(tmp_path: Path, server: ForkServer) -> None:
    guides.scaffold(tmp_path / "project")
    edit = (
        "tidegate plan flights | grep -c 'nothing is new'; sed -i 's/schema=SCHEMA/schema=SHEMAC/' pipelines/flights.py"
    )
    done = in_shell(f"{edit}; tidegate plan flights", tmp_path / "project", server.commands)
    assert (done.returncode, done.stdout.strip()) == (78, "1"), done.stderr
    assert "name 'SHEMAC' is not defined" in done.stderr


@pytest.mark.jvm
@pytest.mark.parametrize("block", ["$ tidegate plan flight", "$ tidegate new orders\nmade pipelines/customers.py"])
def test_a_forked_command_that_fails_or_prints_something_else_fails_the_guide(
    block: str, tmp_path: Path, server: ForkServer
) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text(f"```console\n{block}\n```\n")
    with pytest.raises(AssertionError, match=r"guide\.md, line 2"):
        GuideRunner(tmp_path / "runner", [guide], server.commands).run(guide)


def layout_of(runner: GuideRunner) -> Layout:
    return Layout.of(Environment.read({"TIDEGATE_PROJECT": str(runner.project)}))


def rows(path: Path | Address) -> list[dict[str, Any]]:
    """The rows of a Delta table, read with delta-rs: Spark wrote it."""
    from deltalake import DeltaTable

    records: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return records


VALUES = ("Katherine", "Edsger", "Barbara", "a lot", "205.00", "-3.00", "Kiel", "Bonn")
"""Values in the sample of a new pipeline, and in records that guides write."""
SHOWS_VALUES = ("tidegate quarantine show", "tidegate query", "tidegate state show", "tidegate diff", "python")
"""Commands that print contents on request."""


def pipelines_run(layout: Layout) -> list[str]:
    """The pipelines that have a ledger: `orders`, except in a guide that declares its own."""
    names = sorted(path.parent.name for path in Path(layout.root).glob("_ops/*/ledger"))
    assert names, "the guide ran no pipeline"
    return names


def check_no_value_leaves_the_tables(layout: Layout, results: Iterable[StepResult]) -> None:
    checked = [result for result in results if not result.step.command.startswith(SHOWS_VALUES)]
    assert [result.step.command for result in checked if contains_any(result.output, VALUES)] == []
    contents = [Path(layout.root) / folder for folder in ("tables", "quarantine", "staging")]
    assert files_containing(Path(layout.root), VALUES, excluding=contents) == set()
    for pipeline in pipelines_run(layout):
        assert tables_containing(layout, pipeline, VALUES) == set()


def check_every_batch_balances(layout: Layout) -> None:
    ledgers = [rows(PipelinePlace(layout, pipeline).ops("ledger")) for pipeline in pipelines_run(layout)]
    batches = [line_of(LedgerLine, line) for ledger in ledgers for line in ledger]
    assert [batch for batch in batches if batch.imbalance()] == []


@pytest.mark.jvm
@pytest.mark.timeout(900)
@pytest.mark.parametrize("guide", RUNNABLE, ids=lambda guide: guide.name)
def test_a_guide_prints_what_it_shows_and_no_value_leaves_the_tables(guide: Path, runner: GuideRunner) -> None:
    results = runner.run(guide)
    layout = layout_of(runner)
    check_no_value_leaves_the_tables(layout, results)
    check_every_batch_balances(layout)
    bronze = [row for pipeline in pipelines_run(layout) for row in rows(layout.read_table(f"bronze.{pipeline}"))]
    assert any(contains_any(str(row), VALUES) for row in bronze), "the values are there"
    if guide.name == "backfill.md":
        check_rows_of_every_layer(layout)
    if guide.name == "stateful.md":
        drawn = draw_stateful.pictures(draw_stateful.measure(layout))
        shown = {name: (draw_stateful.PICTURES / name).read_text(encoding="utf-8") for name in drawn}
        assert drawn == shown, "the pictures are of another run: python -m docs.draw_stateful"


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_tutorial_prints_what_it_shows_in_a_project_that_it_makes(tmp_path: Path, server: ForkServer) -> None:
    runner = GuideRunner(tmp_path, [TUTORIAL], server.commands, project=False)
    results = runner.run(TUTORIAL)
    data = runner.project / "shop" / ".data"
    layout = Layout.local(data / "lake", data / "landing")
    check_no_value_leaves_the_tables(layout, results)
    check_every_batch_balances(layout)


def check_rows_of_every_layer(layout: Layout) -> None:
    """The eight orders are in all layers; the undo put back the customers that the backfill had changed."""
    assert len(rows(layout.table("bronze.orders"))) == 8
    silver = {row["order_id"]: (row["customer"], str(row["amount"])) for row in rows(layout.table("silver.orders"))}
    assert silver == {
        "A-1": ("ada", "19.90"),
        "A-2": ("grace", "205.00"),
        "A-3": ("edsger", "7.50"),
        "A-4": ("barbara", "42.00"),
    }
    gold = {str(row["day"]): (row["orders"], str(row["amount"])) for row in rows(layout.table("gold.orders"))}
    assert gold == {"2026-01-05": (3, "232.40"), "2026-01-06": (1, "42.00")}


def without_a_suite(project: Path) -> None:
    """`tidegate expectations propose --write` replaces none."""
    (project / "expectations" / "flights" / "silver.json").unlink()


def with_an_export(project: Path) -> None:
    (project / "exports").mkdir()
    (project / "exports" / "orders.csv").write_text("order_id,amount,ordered_at\nA-1,19.90,2026-01-05T10:00:00Z\n")


BEFORE: dict[str, Callable[[Path], None]] = {
    "expectations propose": without_a_suite,
    "exports/orders.csv": with_an_export,
}
"""What a block needs, by a part of its text."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Path:
    """A copy of the project with a lake of the pipeline `flights`, an entry in quarantine, and a bronze table of orders."""
    folder = tmp_path_factory.mktemp("shell") / "project"
    environment = Environment.read({"TIDEGATE_PROJECT": guides.scaffold(folder)["TIDEGATE_PROJECT"]})
    flights_feed.land_day(environment.landing, date(2013, 3, 10))
    done = in_shell("tidegate run flights", folder, server.commands)
    assert done.returncode == 0, done.stdout + done.stderr
    order = {
        "_path": "file:///1.csv",
        "_line_number": 2,
        "line": "A-1",
        "_ingested_at": datetime(2026, 1, 5, tzinfo=UTC),
    }
    layout = Layout.of(environment)
    append(layout.table("bronze.orders"), [order])
    source = {"path": "file:///flights/flights_2013-03-10.csv", "line": 7}
    append(
        FlowPlace(layout, "flights", "silver").quarantine,
        [quarantined("flights.csv#7", ["required(origin)"], source, "2013")],
    )
    return folder


@pytest.mark.jvm
@pytest.mark.parametrize("block", [block for block in SHELL if not block.not_run], ids=str)
def test_a_shell_block_runs_without_an_error(project: Path, server: ForkServer, block: Block) -> None:
    for part, prepare in BEFORE.items():
        if part in block.text:
            prepare(project)
    done = in_shell(block.text, project, server.commands)
    assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
