"""The browser of the tests has no access to the network."""

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
def test_it_runs_scripts_and_records_requests(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(""))
    with visit(browser, page.as_uri()) as visited:
        assert visited.page.inner_text("p") == "new"
        assert visited.requests == [page.as_uri()]
        assert visited.problems == []


@pytest.mark.browser
@pytest.mark.parametrize("url", ["http://example.com/a.js", "http://192.0.2.1/a.js"])
def test_it_reaches_nothing_beyond_this_machine_and_records_the_attempt(
    browser: Browser, tmp_path: Path, url: str
) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(f'<script src="{url}"></script>'))
    with visit(browser, page.as_uri()) as visited:
        assert visited.foreign_requests("file://") == [url]
        assert any(url in problem for problem in visited.problems)


@pytest.mark.browser
def test_it_records_violations_of_a_content_security_policy(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    page.write_text(policy + PAGE.format(""))
    with visit(browser, page.as_uri()) as visited:
        assert visited.page.inner_text("p") == "old"
        assert any("Content Security Policy" in problem for problem in visited.problems)


def test_without_a_browser_one_line_says_what_to_install(tmp_path: Path) -> None:
    for name in ("sh", "id"):
        (tmp_path / name).symlink_to(Path("/bin") / name if (Path("/bin") / name).exists() else Path("/usr/bin") / name)
    result = subprocess.run(
        [SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False, cwd=os.sep
    )
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert "apt-get install chromium-headless-shell" in line
