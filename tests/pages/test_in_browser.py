"""Exported pages in a real Chromium without a network: from a disk, with the policy as a header, without style sheet, light and dark.

Per merge one page of a batch is tested in light mode; the other pages and dark mode are tested nightly.
"""

from __future__ import annotations

import functools
import http.server
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.browser import visit
from tests.pages import samples
from tests.serving import serving
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.pages.render import POLICY
from tidegate.pages.site import export

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

nightly = pytest.mark.nightly

PAGES = (
    "silver/v1-0-batch-103.html",
    *(
        pytest.param(path, marks=nightly)
        for path in (
            "index.html",
            "silver/index.html",
            "silver/batches-2.html",
            "silver/v1-0-batch-105.html",
            "bronze/v1-0-batch-4.html",
            "gold/v1-0-batch-5.html",
        )
    ),
)
LIGHT_AND_DARK = ("light", pytest.param("dark", marks=nightly))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with pages of all kinds; silver's batch 105 was refused."""
    folder = tmp_path_factory.mktemp("site")
    layout = Layout.local(folder / "lake", folder / "landing")
    samples.fill(layout, *(samples.batch(number) for number in range(105)), samples.batch(105, outcome="refused"))
    samples.fill(layout, *(batch(number) for number in range(6) for batch in (samples.bronze, samples.gold)))
    return Path(export(layout, samples.flights(), PipelinePlace(layout, "flights").docs)).parent


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The URL of a server that serves the site and sends the policy as a header."""

    class Strict(http.server.SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", f"{POLICY}; frame-ancestors 'self'")
            self.send_header("X-Content-Type-Options", "nosniff")
            super().end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Strict, directory=site))
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}"


def colour_of(page: Page, selector: str, name: str) -> str:
    value: str = page.eval_on_selector(selector, "(element, name) => getComputedStyle(element)[name]", name)
    return value


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_under_the_strict_policy_without_problems_or_foreign_requests(
    browser: Browser, served: str, path: str
) -> None:
    with visit(browser, f"{served}/{path}") as visited:
        assert visited.problems == []
        assert visited.foreign_requests(served) == []
        assert f"{served}/pages.css" in visited.requests
        assert colour_of(visited.page, ".scroll", "borderRadius") == "8px", "the style sheet applies"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_from_a_disk_with_its_style_sheet(browser: Browser, site: Path, path: str) -> None:
    with visit(browser, (site / path).as_uri()) as visited:
        assert visited.problems == []
        assert visited.foreign_requests(site.as_uri()) == []
        assert colour_of(visited.page, ".scroll", "borderRadius") == "8px"


@pytest.mark.parametrize(
    ("scheme", "background", "colour"),
    [("light", (255, 255, 255), (22, 29, 45)), ("dark", (22, 29, 45), (248, 250, 253))],
)
def test_light_or_dark_mode_follows_the_system(
    browser: Browser, site: Path, scheme: Literal["light", "dark"], background: tuple[int, ...], colour: tuple[int, ...]
) -> None:
    with visit(browser, (site / "silver/v1-0-batch-103.html").as_uri(), scheme=scheme) as visited:
        assert colour_of(visited.page, "body", "backgroundColor") == f"rgb{background}"
        assert colour_of(visited.page, "body", "color") == f"rgb{colour}"


@pytest.mark.parametrize("scheme", LIGHT_AND_DARK)
@pytest.mark.parametrize("path", PAGES)
def test_every_text_has_enough_contrast(
    browser: Browser, site: Path, path: str, scheme: Literal["light", "dark"]
) -> None:
    """4.5 to 1, as WCAG 2 level AA requires of text."""
    with visit(browser, (site / path).as_uri(), scheme=scheme) as visited:
        assert visited.page.evaluate(_LOW_CONTRAST) == []


_LOW_CONTRAST = """() => {
  const rgb = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const luminance = colour => {
    const [r, g, b] = rgb(colour).slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if ((rgb(colour)[3] ?? 1) > 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const failures = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ['TITLE', 'title', 'desc'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(element.closest('svg') ? style.fill : style.color), luminance(background(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) failures.add(`${element.tagName}.${element.className} ${contrast.toFixed(2)}`);
  }
  return [...failures];
}"""


def test_a_page_without_its_style_sheet_is_readable(browser: Browser, site: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(site / "silver/v1-0-batch-103.html", tmp_path))
    with visit(browser, copy.as_uri()) as visited:
        text = visited.page.inner_text("body")
        assert "rows read" in text
        assert "required(origin)" in text
        bar = visited.page.locator("svg.trend rect.written").first
        assert bar.evaluate("bar => getComputedStyle(bar).fill") == "rgb(15, 118, 110)"
        assert visited.page.locator("svg.trend").bounding_box()["width"] > 300  # type: ignore[index]  # it is shown


@pytest.mark.parametrize("path", PAGES)
def test_a_narrow_window_scrolls_tables_instead_of_the_page(browser: Browser, site: Path, path: str) -> None:
    with visit(browser, (site / path).as_uri(), width=360) as visited:
        assert visited.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_links_lead_from_the_pipeline_to_a_batch_and_back(browser: Browser, served: str) -> None:
    with visit(browser, f"{served}/index.html") as visited:
        page = visited.page
        page.get_by_role("link", name="silver", exact=True).first.click()
        page.get_by_role("link", name="Older").click()
        assert page.url == f"{served}/silver/batches-2.html#batches"
        page.get_by_role("link", name="batch 50 of silver").click()
        assert page.get_by_role("heading", level=1).inner_text().split() == ["silver,", "batch", "50", "passed"]
        page.get_by_role("link", name="flights").click()
        page.get_by_role("link", name="batch 105 of silver").click()
        assert "the batch waits" in page.inner_text("main")
        page.get_by_role("img", name="Rows read and in quarantine").wait_for()
        page.get_by_text("Show as a table").click()
        assert page.get_by_role("row").filter(has_text="refused").count() == 1
        assert visited.problems == []
