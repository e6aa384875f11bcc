"""Runs the console blocks of guides and compares their output.

This is also the end-to-end test of the command line: the real command starts the real Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from docs import draw_stateful
from tests.canaries import contains_any, files_containing, tables_containing
from tests.docs import guides
from tests.docs.guides import GuideRunner, StepResult
from tidegate.environment import Environment
from tidegate.layout import Layout
from tidegate.place import PipelinePlace
from tidegate.report import BatchRecord

NIGHTLY = ("backfill.md", "quarantine.md", "schema-changes.md", "verify.md")
"""Run nightly, because each starts several Spark applications. Per merge, tests of the same modules run."""
NIGHTLY_ELSEWHERE = (
    "keep-history.md",
    "windows-and-sessions.md",
    "change-data-capture.md",
    "inspect-batches.md",
    "complete-intervals.md",
    "stateful.md",
)
"""The others, in ``test_more_guides.py``: all of them would be too long for one file of a slice."""
RUNNABLE = [guides.GUIDES / name for name in ("alerts.md", *NIGHTLY, *NIGHTLY_ELSEWHERE)]


def test_a_guide_is_parsed_into_commands_and_their_output(tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text(
        "Text.\n\n```console\n$ cat <<END\n> one\n>\n>   two\n> END\none\n$ true\n```\n\n```bash\n$ rm -rf all\n```\n"
    )
    first, second = guides.steps(guide)
    assert (first.line, first.command, first.printed) == (4, "cat <<END\none\n\n  two\nEND", ["one"])
    assert (second.command, second.printed) == ("true", [])


@pytest.mark.parametrize(
    ("expected", "missing"),
    [
        (["rows   8 read"], None),
        (["done, … s", "8 read"], "8 read"),
        (["rows 8 read", "done, 1.5 s"], "done, 1.5 s"),
        (["rows 8 …", "end"], None),
    ],
)
def test_expected_lines_must_be_in_order_and_other_lines_may_be_left_out(
    expected: list[str], missing: str | None
) -> None:
    assert guides.missing_line(expected, "done, 1.5 s\n  rows  8  read\nmore\nend\n") == missing


def test_a_command_that_fails_or_prints_something_else_fails_the_guide(tmp_path: Path) -> None:
    for number, block in enumerate(("$ false", "$ echo a\nb")):
        guide = tmp_path / "guide.md"
        guide.write_text(f"```console\n{block}\n```\n")
        with pytest.raises(AssertionError, match=r"guide\.md, line 2"):
            GuideRunner(tmp_path / str(number), [guide]).run(guide)


def test_exported_variables_are_available_to_the_next_command_and_exit_codes_are_not_changed(tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    blocks = "$ export ONE='one 1'\n$ echo $ONE, $TWO\none 1, two\n$ (exit 3); echo $?\n3\n$ export ONE=no; exit 4"
    guide.write_text(f"```console\n{blocks}\n```\n")
    with pytest.raises(AssertionError, match=r"exit code 4: guide\.md, line 7"):
        GuideRunner(tmp_path / "runner", [guide], TWO="two").run(guide)


def test_common_first_commands_run_once_and_each_guide_continues_from_their_result(tmp_path: Path) -> None:
    prefix = f"$ echo run >> {tmp_path}/runs\n$ export NAME=ada; echo made > made; echo it is made\nit is made\n"
    ends = ("$ cat made; echo $NAME; rm made\nmade\nada\n", "$ cat made; echo $NAME\nmade\nada\n", "$ cat made\nlost\n")
    written = [tmp_path / f"{number}.md" for number in range(len(ends))]
    for guide, end in zip(written, ends, strict=True):
        guide.write_text(f"```console\n{prefix}{end}```\n")
    runner = GuideRunner(tmp_path / "runner", written)
    for guide in written[:2]:
        assert [result.output for result in runner.run(guide)] == ["", "it is made\n", "made\nada\n"]
    with pytest.raises(AssertionError, match="not printed: 'lost'"):
        runner.run(written[2])
    assert (tmp_path / "runs").read_text() == "run\n"


def test_the_output_of_a_shared_command_is_compared_with_each_guide(tmp_path: Path) -> None:
    written = [tmp_path / "right.md", tmp_path / "wrong.md"]
    for guide, line in zip(written, ("a", "b"), strict=True):
        guide.write_text(f"```console\n$ echo a\n{line}\n```\n")
    runner = GuideRunner(tmp_path / "runner", written)
    runner.run(written[0])
    with pytest.raises(AssertionError, match=r"not printed: 'b': wrong\.md, line 2"):
        runner.run(written[1])


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> GuideRunner:
    return GuideRunner(tmp_path_factory.mktemp("guides"), [guides.GUIDES / name for name in ("alerts.md", *NIGHTLY)])


def layout_of(runner: GuideRunner) -> Layout:
    return Layout.of(Environment.read({"TIDEGATE_PROJECT": str(runner.project)}))


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a Delta table, read with delta-rs: Spark wrote it."""
    from deltalake import DeltaTable

    records: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return records


VALUES = ("Katherine", "Edsger", "Barbara", "a lot", "205.00", "-3.00", "Kiel", "Bonn")
"""Values in the sample of a new pipeline, and in records that guides write."""
SHOWS_VALUES = ("tidegate quarantine show", "tidegate query", "tidegate state show", "python")
"""Commands that print contents on request."""


def pipelines_run(layout: Layout) -> list[str]:
    """The pipelines that have a ledger: `orders`, except in a guide that declares its own."""
    names = sorted(path.parent.name for path in layout.lake.glob("_ops/*/ledger"))
    assert names, "the guide ran no pipeline"
    return names


def check_no_value_leaves_the_tables(layout: Layout, results: Iterable[StepResult]) -> None:
    checked = [result for result in results if not result.step.command.startswith(SHOWS_VALUES)]
    assert [result.step.command for result in checked if contains_any(result.output, VALUES)] == []
    contents = [layout.lake / folder for folder in ("tables", "quarantine", "staging")]
    assert files_containing(layout.lake, VALUES, excluding=contents) == set()
    for pipeline in pipelines_run(layout):
        assert tables_containing(layout, pipeline, VALUES) == set()


def check_every_batch_balances(layout: Layout) -> None:
    ledgers = [rows(PipelinePlace(layout, pipeline).ops("ledger")) for pipeline in pipelines_run(layout)]
    batches = [BatchRecord.of_line(line) for ledger in ledgers for line in ledger]
    assert [batch for batch in batches if batch.imbalance()] == []


@pytest.mark.jvm
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "guide",
    ["alerts.md", *(pytest.param(guide, marks=pytest.mark.nightly) for guide in NIGHTLY)],
)
def test_a_guide_prints_what_it_shows_and_no_value_leaves_the_tables(guide: str, runner: GuideRunner) -> None:
    check_guide(guides.GUIDES / guide, runner)


def check_guide(guide: Path, runner: GuideRunner) -> None:
    results = runner.run(guide)
    layout = layout_of(runner)
    check_no_value_leaves_the_tables(layout, results)
    check_every_batch_balances(layout)
    bronze = [row for pipeline in pipelines_run(layout) for row in rows(layout.table(f"bronze.{pipeline}"))]
    assert any(contains_any(str(row), VALUES) for row in bronze), "the values are there"
    if guide.name == "backfill.md":
        check_rows_of_every_layer(layout)
    if guide.name == "stateful.md":
        drawn = draw_stateful.pictures(draw_stateful.measure(layout))
        shown = {name: (draw_stateful.PICTURES / name).read_text(encoding="utf-8") for name in drawn}
        assert drawn == shown, "the pictures are of another run: python -m docs.draw_stateful"


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
