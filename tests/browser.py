"""A real Chromium for tests of pages, without access to the network.

`launched` starts it, the fixture `browser` provides it to tests, and `visit` opens a page and records its console messages and
its requests.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.waiting import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCRIPT = Path(__file__).parents[1] / "scripts" / "browser.sh"

NO_NETWORK = (
    # Names do not resolve, and all requests beyond loopback go to a proxy that does not exist.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--proxy-server=http://127.0.0.1:9",
    "--proxy-bypass-list=127.0.0.1;localhost",
)


@dataclass
class Visit:
    """An open page, with its problems and requests."""

    page: Page
    problems: list[str] = field(default_factory=list)
    """Errors and warnings on the console, violations of a Content-Security-Policy, exceptions, failed requests."""
    requests: list[str] = field(default_factory=list)
    """The URL of each request, the page's own first."""

    def foreign_requests(self, own: str) -> list[str]:
        """The URLs that do not begin with ``own``."""
        return [url for url in self.requests if not url.startswith((own, "data:"))]


@contextmanager
def launched() -> Iterator[Browser]:
    """A headless Chromium without a network, found or installed by ``scripts/browser.sh``; skips the test if there is none."""
    result = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(result.stderr.strip().splitlines()[-1])
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=result.stdout.strip(), args=list(NO_NETWORK))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(
    browser: Browser,
    url: str,
    *,
    scheme: Literal["light", "dark"] = "light",
    width: int = 1200,
    height: int = 900,
    scale: float = 1,
) -> Iterator[Visit]:
    """Open a page in a new context, without cookies or cache.

    Args:
        browser: From the fixture.
        url: ``file://…`` or a server on loopback.
        scheme: The value of ``prefers-color-scheme``.
        width: Of the window, in CSS pixels.
        height: The same.
        scale: Device pixels per CSS pixel, for screenshots.
    """
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": height}, device_scale_factor=scale
    )
    context.set_default_timeout(TIMEOUT_SECONDS * 1000)
    try:
        opened = Visit(context.new_page())
        page = opened.page
        page.on(
            "console",
            lambda message: opened.problems.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: opened.problems.append(str(error)))
        page.on("requestfailed", lambda request: opened.problems.append(f"{request.url}: {request.failure}"))
        page.on("request", lambda request: opened.requests.append(request.url))
        page.goto(url)
        yield opened
    finally:
        context.close()
