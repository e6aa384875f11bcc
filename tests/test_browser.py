"""The browser of the tests: real, and cut off from the network."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import SCRIPT, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = '<!DOCTYPE html><title>t</title><p id="a">old</p><script>document.getElementById("a").textContent = "new"</script>{}'


@pytest.mark.browser
def test_it_runs_scripts_and_notes_requests(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(""))
    with visit(browser, page.as_uri()) as seen:
        assert seen.page.inner_text("p") == "new"
        assert seen.requests == [page.as_uri()]
        assert seen.complaints == []


@pytest.mark.browser
@pytest.mark.parametrize("away", ["http://example.com/a.js", "http://192.0.2.1/a.js"])
def test_it_reaches_nothing_beyond_this_machine_and_says_who_tried(browser: Browser, tmp_path: Path, away: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(f'<script src="{away}"></script>'))
    with visit(browser, page.as_uri()) as seen:
        assert seen.strangers("file://") == [away]
        assert any(away in complaint for complaint in seen.complaints)


@pytest.mark.browser
def test_it_notes_what_a_content_security_policy_forbids(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    page.write_text(policy + PAGE.format(""))
    with visit(browser, page.as_uri()) as seen:
        assert seen.page.inner_text("p") == "old"
        assert any("Content Security Policy" in complaint for complaint in seen.complaints)


def test_where_there_is_no_browser_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    for name in ("sh", "id"):
        (tmp_path / name).symlink_to(Path("/bin") / name if (Path("/bin") / name).exists() else Path("/usr/bin") / name)
    found = subprocess.run(
        [SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False, cwd=os.sep
    )
    assert found.returncode == 1
    assert found.stdout == ""
    (sentence,) = found.stderr.splitlines()
    assert "apt-get install chromium-headless-shell" in sentence
