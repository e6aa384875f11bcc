"""Every shell block of the guides runs: `console` blocks with their output, `bash` blocks on one lake that they share.

A block that cannot run says why in a comment before it, ``<!-- not run: it needs a topic -->``.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from demo import flights_feed
from tests.cli.project import append, quarantined
from tests.docs import guides
from tests.docs.test_guides import RUNNABLE
from tidegate.environment import Environment
from tidegate.layout import Layout
from tidegate.place import FlowPlace

NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
MOST_NOT_RUN = 7
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


def test_few_blocks_do_not_run_and_each_says_why() -> None:
    not_run = [f"{block}: {block.not_run}" for block in BLOCKS if block.not_run]
    assert len(not_run) <= MOST_NOT_RUN, not_run
    assert all(block.language in ("bash", "json") for block in BLOCKS if block.not_run)


def test_every_console_block_is_of_a_guide_that_a_test_runs() -> None:
    assert {block.guide for block in BLOCKS if block.language == "console"} == {*RUNNABLE, LIVE}


def test_every_block_has_a_language_that_is_tested() -> None:
    languages = {block.language.split(" ")[0] for block in BLOCKS}
    assert languages <= {"bash", "console", "python", "json", ""}, languages


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
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with a lake of the pipeline `flights`, an entry in quarantine, and a bronze table of orders."""
    from tidegate.testing.lake import Lake

    folder = tmp_path_factory.mktemp("shell") / "project"
    variables = guides.scaffold(folder)
    environment = Environment.read({"TIDEGATE_PROJECT": variables["TIDEGATE_PROJECT"]})
    flights_feed.land_day(environment.landing, date(2013, 3, 10))
    report = Lake(environment, "flights").run()
    assert [flow.state for flow in report.flows] == ["done"] * len(report.flows)
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


def cases() -> Iterator[Any]:
    """The blocks that run; nightly if they start Spark for a minute."""
    for block in SHELL:
        if not block.not_run:
            marks = [pytest.mark.nightly] if "expectations coverage" in block.text else []
            yield pytest.param(block, marks=marks, id=str(block))


@pytest.mark.jvm
@pytest.mark.parametrize("block", cases())
def test_a_shell_block_runs_without_an_error(project: Path, block: Block) -> None:
    for part, prepare in BEFORE.items():
        if part in block.text:
            prepare(project)
    done = subprocess.run(
        ["bash", "-e", "-c", block.text],
        cwd=project,
        env=guides.shell_of(project),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
