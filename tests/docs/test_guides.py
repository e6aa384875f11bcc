"""Guides that a reader can follow line by line are followed line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import guides


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
            guides.run(guide, tmp_path / str(number))


def test_what_a_command_exports_is_there_for_the_next_and_its_code_is_its_own(tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    blocks = "$ export SAID='it is so'\n$ echo $SAID, $GIVEN\nit is so, too\n$ (exit 3); echo $?\n3\n$ export SAID=no; exit 4"
    guide.write_text(f"```console\n{blocks}\n```\n")
    with pytest.raises(AssertionError, match=r"it ended with 4: guide\.md, line 7"):
        guides.run(guide, tmp_path / "project", GIVEN="too")


@pytest.mark.jvm
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["quarantine.md", "alerts.md", "backfill.md", "schema-changes.md"])
def test_a_guide_can_be_followed_line_by_line(name: str, tmp_path: Path) -> None:
    guides.run(guides.GUIDES / name, tmp_path / "project")
