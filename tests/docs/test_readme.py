"""The first steps of the README, in real processes: an end-to-end test of the command line and its Spark applications."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.guides import GuideRunner, readme_block


@pytest.mark.jvm
@pytest.mark.live
def test_the_first_steps_print_what_the_readme_shows(tmp_path: Path) -> None:
    _, *commands = (line.partition("#")[0].strip() for line in readme_block(". .venv/bin/activate"))
    assert commands[:2] == ["tidegate new orders", "tidegate run orders"]
    lines = [f"$ {command}" for command in commands]
    lines[2:2] = readme_block("bronze -> bronze.orders")
    page = tmp_path / "readme.md"
    page.write_text("\n".join(["```console", *lines, "```\n"]))
    assert len(GuideRunner(tmp_path / "runner", [page]).run(page)) == len(commands)
