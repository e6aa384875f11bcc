"""Guides that a reader can follow line by line are followed line by line.

They are also the end-to-end test of the command line: the real command starts the real Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.canaries import files_quoting, quotes, tables_quoting
from tests.docs import guides
from tests.docs.guides import Followed, Reader
from tidegate.environment import Environment
from tidegate.layout import Layout
from tidegate.report import BatchRecord

STORIES = [guides.GUIDES / name for name in ("quarantine.md", "alerts.md", "backfill.md", "schema-changes.md")]
NIGHTLY = ("quarantine.md", "schema-changes.md")
"""Followed nightly, for they start eight Spark applications. Per merge, what they show is held by tests/cli/test_quarantine.py,
tests/spark/reprocessing/test_reentry.py, tests/spark/intake/test_contracts.py and tests/spark/test_flow.py."""


def test_a_guide_is_read_as_commands_and_what_they_print(tmp_path: Path) -> None:
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
def test_shown_lines_are_found_in_their_order_and_lines_between_may_be_left_out(
    expected: list[str], missing: str | None
) -> None:
    assert guides.missing_line(expected, "done, 1.5 s\n  rows  8  read\nmore\nend\n") == missing


def test_a_command_that_fails_or_prints_something_else_fails_the_guide(tmp_path: Path) -> None:
    for number, block in enumerate(("$ false", "$ echo a\nb")):
        guide = tmp_path / "guide.md"
        guide.write_text(f"```console\n{block}\n```\n")
        with pytest.raises(AssertionError, match=r"guide\.md, line 2"):
            Reader(tmp_path / str(number), [guide]).follow(guide)


def test_what_a_command_exports_is_there_for_the_next_and_its_code_is_its_own(tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    blocks = "$ export SAID='it is so'\n$ echo $SAID, $GIVEN\nit is so, too\n$ (exit 3); echo $?\n3\n$ export SAID=no; exit 4"
    guide.write_text(f"```console\n{blocks}\n```\n")
    with pytest.raises(AssertionError, match=r"it ended with 4: guide\.md, line 7"):
        Reader(tmp_path / "reader", [guide], GIVEN="too").follow(guide)


def test_what_two_guides_begin_with_runs_once_and_each_goes_on_from_there(tmp_path: Path) -> None:
    beginning = f"$ echo run >> {tmp_path}/runs\n$ export NAME=ada; echo made > made; echo it is made\nit is made\n"
    ends = ("$ cat made; echo $NAME; rm made\nmade\nada\n", "$ cat made; echo $NAME\nmade\nada\n", "$ cat made\nlost\n")
    written = [tmp_path / f"{number}.md" for number in range(len(ends))]
    for guide, end in zip(written, ends, strict=True):
        guide.write_text(f"```console\n{beginning}{end}```\n")
    reader = Reader(tmp_path / "reader", written)
    for guide in written[:2]:
        assert [done.output for done in reader.follow(guide)] == ["", "it is made\n", "made\nada\n"]
    with pytest.raises(AssertionError, match="it did not print 'lost'"):
        reader.follow(written[2])
    assert (tmp_path / "runs").read_text() == "run\n"


def test_what_a_shared_command_printed_is_compared_with_each_guide(tmp_path: Path) -> None:
    written = [tmp_path / "right.md", tmp_path / "wrong.md"]
    for guide, line in zip(written, ("a", "b"), strict=True):
        guide.write_text(f"```console\n$ echo a\n{line}\n```\n")
    reader = Reader(tmp_path / "reader", written)
    reader.follow(written[0])
    with pytest.raises(AssertionError, match=r"it did not print 'b': wrong\.md, line 2"):
        reader.follow(written[1])


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(tmp_path_factory.mktemp("guides"), STORIES)


def layout_of(reader: Reader) -> Layout:
    return Layout.of(Environment.read({"TIDEGATE_PROJECT": str(reader.project)}))


def rows(path: Path) -> list[dict[str, Any]]:
    """Of a Delta table, by another reader than the one that wrote it."""
    from deltalake import DeltaTable

    found: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return found


VALUES = ("Katherine", "Edsger", "Barbara", "a lot", "205.00", "-3.00")
"""Of the sample of a new pipeline."""
SHOWS_VALUES = ("tidegate quarantine show", "python")
"""Commands whose reader asks for contents."""


def check_no_value_leaves_the_tables(layout: Layout, followed: Iterable[Followed]) -> None:
    outputs = [done for done in followed if not done.step.command.startswith(SHOWS_VALUES)]
    assert [done.step.command for done in outputs if quotes(done.output, VALUES)] == []
    contents = [layout.lake / folder for folder in ("tables", "quarantine", "staging")]
    assert files_quoting(layout.lake, VALUES, but=contents) == set()
    assert tables_quoting(layout, "orders", VALUES) == set()


def check_every_batch_balances(layout: Layout) -> None:
    batches = [BatchRecord.from_json(line) for line in rows(layout.ops("orders", "ledger"))]
    assert [batch for batch in batches if batch.imbalance()] == []


@pytest.mark.jvm
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "guide",
    [pytest.param(guide, marks=[pytest.mark.nightly] if guide.name in NIGHTLY else []) for guide in STORIES],
    ids=lambda guide: guide.name,
)
def test_a_guide_can_be_followed_line_by_line_and_no_value_leaves_the_tables(guide: Path, reader: Reader) -> None:
    followed = reader.follow(guide)
    layout = layout_of(reader)
    check_no_value_leaves_the_tables(layout, followed)
    check_every_batch_balances(layout)
    assert any(quotes(str(row), VALUES) for row in rows(layout.table("bronze.orders"))), "the values are there"
    if guide.name == "backfill.md":
        check_rows_of_every_layer(layout)


def check_rows_of_every_layer(layout: Layout) -> None:
    """Eight orders went their way; those of the first day have the customers that the replay made."""
    assert len(rows(layout.table("bronze.orders"))) == 8
    silver = {row["order_id"]: (row["customer"], str(row["amount"])) for row in rows(layout.table("silver.orders"))}
    assert silver == {
        "A-1": ("ADA", "19.90"),
        "A-2": ("GRACE", "205.00"),
        "A-3": ("EDSGER", "7.50"),
        "A-4": ("barbara", "42.00"),
    }
    gold = {str(row["day"]): (row["orders"], str(row["amount"])) for row in rows(layout.table("gold.orders"))}
    assert gold == {"2026-01-05": (3, "232.40"), "2026-01-06": (1, "42.00")}
