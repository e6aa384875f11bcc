"""A real Chromium for tests of pages, with no way out but to this machine.

`launched` starts it, the fixture `browser` hands it to tests, and `visit` opens a page and notes what a reader would
not see: complaints on the console and every request.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCRIPT = Path(__file__).parents[1] / "scripts" / "browser.sh"

NO_NETWORK = (
    # Names do not resolve, and what is not on loopback is sent to a proxy that is not there.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--proxy-server=http://127.0.0.1:9",
    "--proxy-bypass-list=127.0.0.1;localhost",
)


@dataclass
class Visit:
    """A page that is open, and what happened behind it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings on the console, breaches of a content security policy, exceptions, failed requests."""
    requests: list[str] = field(default_factory=list)
    """The URL of each request, the page's own first."""

    def strangers(self, own: str) -> list[str]:
        """The requests for anything that does not begin with ``own``."""
        return [url for url in self.requests if not url.startswith((own, "data:"))]


@contextmanager
def launched() -> Iterator[Browser]:
    """A headless Chromium without a network, found or installed by ``scripts/browser.sh``; skips where none can be had."""
    found = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(found.stderr.strip().splitlines()[-1])
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found.stdout.strip(), args=list(NO_NETWORK))
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
    """Open a page in a context of its own, without cookies or cache of another.

    Args:
        browser: From the fixture.
        url: ``file://…`` or a server on loopback.
        scheme: What the page is told of the reader's wish for light or dark.
        width: Of the window, in CSS pixels.
        height: The same.
        scale: Pixels of a screenshot per CSS pixel.
    """
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": height}, device_scale_factor=scale
    )
    try:
        seen = Visit(context.new_page())
        page = seen.page
        page.on(
            "console", lambda said: seen.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("requestfailed", lambda request: seen.complaints.append(f"{request.url}: {request.failure}"))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(url)
        yield seen
    finally:
        context.close()
