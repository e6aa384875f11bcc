"""The site of the documents is built strictly, and asks nothing of other hosts; `make docs` builds that of this repository."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFIGURATION = Path(__file__).parents[2] / "docs"
PAGES = {
    "README.md": "# Project\n\n[All pages](docs/README.md)\n",
    "docs/README.md": "# Documents\n\n## Guides\n\n- [Project](../README.md)\n- [A page](guides/a.md)\n- [Another](guides/b.md)\n",
    "docs/guides/a.md": "# A page\n\n[Another](b.md#what-is-here), [source](../source.py)\n\n```python\nFlow(…)\n```\n",
    "docs/guides/b.md": "# Another page\n\n## What is here\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n",
    "docs/source.py": "",
}


def build(folder: Path, builder: str = "html") -> subprocess.CompletedProcess[str]:
    """Build a site with the configuration of the repository, as `make docs` does.

    Args:
        folder: With the pages.
        builder: "dummy" checks the pages and writes nothing.
    """
    options = ("--quiet", "--fail-on-warning", "--builder", builder, "-c", CONFIGURATION)
    program = (sys.executable, "-m", "sphinx", *options, folder, folder / "build")
    return subprocess.run(program, capture_output=True, text=True, check=False)


def write(folder: Path, pages: dict[str, str]) -> None:
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_site_has_navigation_and_search_and_loads_nothing_from_another_host(tmp_path: Path) -> None:
    write(tmp_path, PAGES)
    done = build(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "build" / "docs" / "guides" / "a.html").read_text(encoding="utf-8")
    assert 'href="b.html#what-is-here"' in page
    assert re.findall(r'<span class="caption-text">(.*?)</span>', page) == ["Guides"]
    assert re.findall(r'toctree-l1.*?href="([^"]+)"', page) == ["../../README.html", "#", "b.html"]
    assert 'action="../../search.html"' in page
    loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"', page)
    assert loaded
    assert [address for pair in loaded for address in pair if "//" in address] == []
    assert 'url=docs/README.html"' in (tmp_path / "build" / "index.html").read_text(encoding="utf-8")


def test_a_link_without_a_target_and_a_page_that_is_not_in_the_navigation_are_errors(tmp_path: Path) -> None:
    faults = {
        "docs/README.md": PAGES["docs/README.md"] + "- [Removed](guides/removed.md)\n",
        "docs/guides/a.md": "# A page\n\n[gone](gone.md), [elsewhere](b.md#elsewhere)\n\n![drawing](gone.png)\n",
        "docs/guides/c.md": "# A page that is not listed\n",
    }
    write(tmp_path, PAGES | faults)
    done = build(tmp_path, "dummy")
    assert done.returncode == 1
    missing = {
        message: done.stderr
        for message in (
            "guides/removed",
            "a.md:3: WARNING: 'myst' cross-reference target not found: 'gone.md'",
            "local id not found in doc 'docs/guides/b': 'elsewhere'",
            "image file not readable: docs/guides/gone.png",
            "c.md: WARNING: document isn't included in any toctree",
        )
        if message not in done.stderr
    }
    assert missing == {}
