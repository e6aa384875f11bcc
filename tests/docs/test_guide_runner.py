"""The runner of guides: a guide that is wrong fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import guides
from tests.docs.guides import GuideRunner


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


def test_commands_find_the_given_programs_first(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "tidegate"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho given\n")
    program.chmod(0o755)
    guide = tmp_path / "guide.md"
    guide.write_text("```console\n$ type tidegate\n$ tidegate\n```\n")
    where, printed = [result.output for result in GuideRunner(tmp_path / "runner", [guide], program.parent).run(guide)]
    assert str(program) in where
    assert printed == "given\n"
