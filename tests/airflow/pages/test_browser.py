"""The pages in a real Airflow and a real browser: inside and outside of Airflow's frame, light and dark, by keyboard.

`make test-live` tests each aspect on one page in one theme; the other combinations run nightly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.waiting import TIMEOUT_SECONDS
from tidegate.project import registry

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FrameLocator, Page

pytestmark = [pytest.mark.live, pytest.mark.airflow, pytest.mark.browser]

nightly = pytest.mark.nightly

RUN_ID = "manual__tabs"
AIRFLOW_WARNING = "An iframe which has both allow-scripts and allow-same-origin"

Opened = Callable[..., "Page"]


@pytest.fixture(scope="session")
def run(server: str) -> str:
    """The id of a run of flights that stays queued, because there is no scheduler."""
    token = _post(f"{server}/auth/token", {"username": "admin", "password": "admin"})["access_token"]
    body = {"dag_run_id": RUN_ID, "logical_date": None}
    _post(f"{server}/api/v2/dags/flights/dagRuns", body, {"Authorization": f"Bearer {token}"})
    return RUN_ID


@pytest.fixture(scope="module")
def session(browser: Browser, server: str) -> Any:
    """The storage state of a browser after a login by the form, which redirected back to the requested page."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT_SECONDS * 1000)
    page = context.new_page()
    page.goto(f"{server}/tidegate/pipelines/flights")
    page.fill("input[name=username]", "viewer")
    page.fill("input[name=password]", "viewer")
    page.click("button[type=submit]")
    page.wait_for_url(f"{server}/tidegate/pipelines/flights")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def opened(browser: Browser, server: str, session: Any) -> Iterator[Opened]:
    """Opens paths as a logged-in user; fails on console messages, exceptions and foreign requests."""
    contexts, problems, foreign = [], [], []

    def open_page(path: str, **options: Any) -> Page:
        size = {"viewport": {"width": 1440, "height": 900}}
        context = browser.new_context(storage_state=session, **(size | options))
        context.set_default_timeout(TIMEOUT_SECONDS * 1000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith((server, "data:", "blob:")) else foreign.append(r.url))
        page.goto(f"{server}{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [problem for problem in problems if AIRFLOW_WARNING not in problem] == []
    assert [url for url in foreign if url.startswith("http")] == []


@contextmanager
def framed(page: Page) -> Iterator[FrameLocator]:
    frame = page.frame_locator("iframe[title=Tidegate]")
    frame.locator("main").wait_for()
    yield frame


def test_a_user_who_logs_in_by_the_form_sees_the_page(opened: Opened) -> None:
    page = opened("/tidegate/pipelines/flights")
    assert page.locator("h1").inner_text() == "flights"


@pytest.mark.nightly
def test_links_lead_from_the_navigation_to_the_pages_and_back_to_airflow(opened: Opened, server: str) -> None:
    page = opened("/")
    page.get_by_role("link", name="Tidegate").click()
    with framed(page) as frame:
        frame.get_by_role("link", name="silver").nth(1).click()
        frame.get_by_role("heading", name="Flow status").wait_for()
        page.wait_for_url(f"{server}/plugin/tidegate/tidegate/pipelines/flights/flows/silver")
        frame.get_by_role("link", name="Task in Airflow").click()
    page.wait_for_url(f"{server}/dags/flights/tasks/silver*")
    page.get_by_role("tab").or_(page.get_by_role("link", name="Overview")).first.wait_for()
    assert page.locator("iframe").count() == 0, "Airflow is shown in the window, not in a frame of itself"
    page.go_back()
    with framed(page) as frame:
        frame.get_by_role("heading", name="Flow status").wait_for()


def test_a_url_of_a_page_inside_the_frame_can_be_opened(opened: Opened) -> None:
    page = opened("/plugin/tidegate/tidegate/pipelines/flights/flows/silver/v1-0-batch-14")
    with framed(page) as frame:
        frame.get_by_role("heading", name="silver, batch 14").wait_for()
        for theme in ("dark", "light"):
            page.evaluate("t => { document.documentElement.className = t }", theme)
            frame.locator(f"html.{theme}").wait_for(state="attached")
            assert _is_dark(frame.locator("body")) == (theme == "dark")
        frame.get_by_role("link", name="flights").click()
        frame.get_by_role("heading", name="Newest batches").wait_for()


def test_a_foreign_link_inside_the_frame_opens_a_new_window(opened: Opened) -> None:
    page = opened("/plugin/tidegate/tidegate/pipelines/flights")
    page.context.route("http://127.0.0.1:18080/**", lambda route: route.abort())
    with framed(page) as frame, page.context.expect_page() as fresh:
        frame.get_by_role("link", name="Spark history server").click()
    assert fresh.value is not page
    assert "/plugin/tidegate" in page.url
    fresh.value.close()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param("/dags/flights/plugin/tidegate-dag", "Newest batches", marks=nightly),
        pytest.param("/dags/flights/tasks/silver/plugin/tidegate-task", "Flow status", marks=nightly),
        pytest.param(
            "/dags/flights/runs/{run}/plugin/tidegate-dag-run", "This run started no application", marks=nightly
        ),
        ("/dags/flights/runs/{run}/tasks/silver/plugin/tidegate-task-instance", "silver in this run"),
    ],
)
@pytest.mark.nightly
def test_dags_runs_and_tasks_have_a_tab(opened: Opened, run: str, path: str, content: str) -> None:
    page = opened(path.format(run=run))
    with framed(page) as frame:
        frame.get_by_text(content).first.wait_for()
    tab = page.get_by_role("link", name="Tidegate").or_(page.get_by_role("tab", name="Tidegate"))
    assert tab.count() >= 2, "one in the navigation, one among the tabs"


@nightly
def test_dark_mode_follows_airflow_inside_the_frame(opened: Opened) -> None:
    page = opened("/plugin/tidegate", color_scheme="dark")
    with framed(page) as frame:
        for theme in ("dark", "light", "dark"):
            page.evaluate("t => { document.documentElement.className = t }", theme)
            frame.locator(f"html.{theme}").wait_for(state="attached")
            assert _is_dark(frame.locator("body")) == (theme == "dark")


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=nightly), "dark"])
def test_dark_mode_follows_the_system_outside_the_frame(opened: Opened, scheme: str) -> None:
    assert _is_dark(opened("/tidegate/", color_scheme=scheme).locator("body")) == (scheme == "dark")


def test_a_page_works_without_its_script(opened: Opened) -> None:
    page = opened("/tidegate/", color_scheme="dark")
    page.route("**/pages.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.reload()
    assert _is_dark(page.locator("body"))
    silver = [name for name in registry.names() for flow in registry.load(name).flows if flow.name == "silver"]
    assert page.get_by_role("link", name="silver").count() == len(silver)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/tidegate/", marks=nightly),
        pytest.param("/tidegate/pipelines/flights", marks=nightly),
        "/tidegate/pipelines/flights/flows/silver",
        "/tidegate/pipelines/flights/flows/silver/v1-0-batch-14",
    ],
)
def test_pages_have_landmarks_headings_and_labels_for_screen_readers(opened: Opened, path: str) -> None:
    page = opened(path)
    for role in ("banner", "main", "navigation"):
        assert page.get_by_role(role).count() >= 1, role
    assert page.locator("h1").count() == 1
    for table in page.locator("table").all():
        assert table.locator("caption").count() == 1
        assert table.locator("thead th:not([scope=col])").count() == 0
        assert table.locator("tbody th:not([scope])").count() == 0
    assert page.locator("svg[role=img]:not([aria-label])").count() == 0
    unnamed = [field for field in page.locator("input, select").all() if not field.evaluate("f => f.labels.length")]
    assert unnamed == []
    assert page.locator("html[lang=en]").count() == 1


def test_the_keyboard_reaches_all_links_and_the_focus_is_visible(opened: Opened) -> None:
    page = opened("/tidegate/")
    page.keyboard.press("Tab")
    assert _focused(page) == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    focused = []
    for _ in range(30):
        page.keyboard.press("Tab")
        focused.append(_focused(page))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", focused[-1]
        if focused[-1] == "flights":
            break
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/tidegate/pipelines/flights$"))


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=nightly)])
def test_text_has_enough_contrast(opened: Opened, scheme: str) -> None:
    page = opened("/tidegate/pipelines/flights/flows/silver", color_scheme=scheme)
    faint = page.evaluate(_CONTRAST)
    assert faint == []


def test_pages_fit_into_a_narrow_window(opened: Opened) -> None:
    for path in ("/tidegate/", "/tidegate/pipelines/flights/flows/silver"):
        page = opened(path, viewport={"width": 600, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= 600


_CONTRAST = """() => {
  const light = c => { const [r, g, b] = c.map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                       return .2126 * r + .7152 * g + .0722 * b };
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const behind = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor);
                        if (c.length < 4 || c[3] > 0) return c.slice(0, 3) } return [255, 255, 255] };
  const faint = new Set();
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("svg, .hidden, option")) continue;
    const [a, b] = [light(parts(getComputedStyle(e).color).slice(0, 3)), light(behind(e))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) faint.add(`${e.className || e.tagName} ${ratio.toFixed(2)}`);
  }
  return [...faint];
}"""
"""Finds text with a contrast below WCAG's 4.5 to 1."""


def _is_dark(body: Any) -> bool:
    colour = body.evaluate("body => getComputedStyle(body).backgroundColor")
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) < 200


def _focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))


def _post(url: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    return (
        httpx.post(url, json=body, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False).raise_for_status().json()
    )
