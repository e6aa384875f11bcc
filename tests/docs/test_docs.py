"""What the documents name exists: links, paths, commands, settings, modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FOLDERS = ("tidegate/", "tests/", "docs/", "demo/", "pipelines/", "spark_jobs/", "expectations/", "dags/", "plugins/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())

    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_in_the_project_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`([\w./-]+)`", page.read_text())
    # What `tidegate new orders` would make is an example, and names of other folders are the lake's.
    paths = [name for name in named if name.startswith(FOLDERS) and "orders" not in name and "/<" not in name]

    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_command_that_is_named_is_one_that_tidegate_has() -> None:
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text()
    known = set(re.findall(r"tidegate ([a-z]+)", reference))
    named = {command for page in PAGES for command in re.findall(r"(?:bin/|`)tidegate ([a-z]+)", page.read_text())}

    assert named - known == set()


def test_every_spark_setting_is_explained() -> None:
    from tidegate.spark.session import SETTINGS

    architecture = (ROOT / "docs" / "architecture.md").read_text()

    assert [name for name in SETTINGS if f"`{name}`" not in architecture] == []


def test_every_module_of_the_platform_has_its_room_in_the_architecture() -> None:
    architecture = (ROOT / "docs" / "architecture.md").read_text()
    rooms = {
        path.stem for path in (ROOT / "tidegate").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }

    assert [room for room in sorted(rooms - {"__init__"}) if not re.search(rf"\b{room}\b", architecture)] == []
