"""The site of a pipeline: its pages, their links, and a constant cost per batch."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.pages import samples
from tidegate.layout import Layout
from tidegate.pages import publish
from tidegate.pages.history import PER_PAGE, History
from tidegate.pages.render import POLICY, style

FLIGHTS = samples.flights()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


@pytest.fixture
def site(layout: Layout) -> Path:
    return layout.docs("flights")


class _Page(HTMLParser):
    """The links of a page, and elements that a strict policy forbids."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forbidden: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "iframe", "img", "object", "base", "form"):
            self.forbidden.append(tag)
        for name, value in attributes:
            if name == "style" or name.startswith("on") or "://" in (value or ""):
                self.forbidden.append(f"{tag} {name}")
            if name == "href" and value is not None and not value.startswith("data:"):
                self.links.append(value)


def _pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def _text(path: Path) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8")).split())


def _listed(path: Path) -> list[int]:
    """The ids of the batches in a list, from the top."""
    return [int(number) for number in re.findall(r'<tr>\s*<th scope="row"><a href="v1-0-batch-(\d+)', _lists(path))]


def _lists(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("<caption>Batches")[2]


def test_a_batch_gets_a_page_and_is_listed(layout: Layout, site: Path) -> None:
    page = publish(layout, FLIGHTS, samples.batch(7))

    assert page == site / "silver" / "v1-0-batch-7.html"
    assert _listed(site / "silver" / "index.html") == [7]
    index = (site / "index.html").read_text()
    assert index.count('href="silver/v1-0-batch-7.html"') == 3, "as the last batch, in the strip, and in its run"
    assert "scheduled-00007-1a2b3c4d" in index
    assert [path.name for path in site.glob("*.css")] == [style().name]


def test_a_page_shows_all_dispositions_rules_and_expectations(layout: Layout) -> None:
    batch = samples.batch(7)
    record = batch.record
    assert record is not None
    text = _text(publish(layout, FLIGHTS, batch))

    for phrase in (
        f"{record.read:,} rows read: {record.written:,} written, {record.quarantined:,} quarantined.",
        f"filtered excluded by a rule of the transform {sum(record.filtered.values())}",
        "cancelled_twice",
        "deduplicated another row of the batch has the same key and a higher order 0 0 %",
        f"superseded the table has a newer row with the key {record.superseded}",
        "required(origin)",
        "wrong_type(dep_delay)",
        "Suite flights/silver : 2 of 3 met.",
        "✗ not met dep_delay values must be greater than or equal to -120 and less than or equal to 2000. between(dep_delay)"
        " warning 11,580 1 &gt; 99.9 % 100 %",
        "✓ met Must have greater than or equal to 1 rows. row_count_between info about the batch as a whole",
        "Schema changes None in this batch.",
        "silver.flights, Delta version 8",
    ):
        assert phrase in text


def test_a_landing_batch_shows_files_and_a_recomputed_one_shows_groups(layout: Layout) -> None:
    landed = _text(publish(layout, FLIGHTS, samples.bronze(4)))
    assert "1 of 12 files quarantined" in landed
    assert "corrupt_compression 1 8.3 %" in landed
    assert "No suite judged this batch." in landed
    recomputed = _text(publish(layout, FLIGHTS, samples.gold(4)))
    assert "9,068 changed rows in 184 groups: 154 upserted, 1 deleted, 29 unchanged." in recomputed


def test_the_page_of_a_refused_batch_is_replaced_when_it_passes_and_keeps_all_judgements(layout: Layout) -> None:
    refused = publish(layout, FLIGHTS, samples.batch(3, outcome="refused"))
    assert "nothing was written, and the batch waits" in _text(refused)
    assert "All verdicts" not in _text(refused)

    later = dataclasses.replace(samples.batch(3), run_key="manual-2", at="2013-02-03T09:00:00+00:00")
    passed = publish(layout, FLIGHTS, later)
    assert passed == refused
    text = _text(passed)
    assert "Judged 2 times; this is the last verdict." in text
    assert "refused 1 of 3 met; not met: not_null(carrier) (2,208 of 11,794 rows break it, mostly 0.99)" in text
    assert _listed(passed.with_name("index.html")) == [3]


def test_all_names_are_escaped(layout: Layout, site: Path) -> None:
    bad = '<i onclick="x">&'
    batch = samples.batch(1, rules={bad: 5, "other": 3}, filtered={bad: 4})
    verdict = batch.verdict
    assert verdict is not None
    results = (dataclasses.replace(verdict.results[0], rule=bad, sentence=bad, success=False, unexpected=1),)
    verdict = dataclasses.replace(verdict, suite=bad, results=results)
    publish(layout, FLIGHTS, dataclasses.replace(batch, verdict=verdict, changes=({bad: bad},)))
    for path in _pages(site):
        assert "<i " not in path.read_text()
        assert _Page(path).forbidden == []


def test_schema_changes_are_listed(layout: Layout) -> None:
    from tidegate.pages import render

    change = {"field": "gate", "kind": "added", "before": "", "after": "STRING", "decided_by": ""}
    batch = dataclasses.replace(samples.batch(1), changes=(change,))
    text = render.batch_page(FLIGHTS, batch, [batch.entry()])
    table = text.partition("Schema changes</h2>")[2]
    assert re.findall(r'<th scope="col">([^<]+)</th>', table) == ["Field", "Kind", "Before", "After", "Decided by"]
    assert re.findall(r"<td>([^<]+)</td>", table) == ["gate", "added", "\N{EN DASH}", "STRING", "\N{EN DASH}"]


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A flow with 155 batches, so that it has all kinds of pages."""
    folder = tmp_path_factory.mktemp("long")
    layout = Layout(folder / "lake", folder / "landing")
    for number in range(155):
        publish(layout, FLIGHTS, samples.batch(number))
    return layout


def test_every_batch_is_listed_once_and_the_lists_link_to_each_other(long_history: Layout) -> None:
    folder = long_history.docs("flights") / "silver"
    path, listed, visited = folder / "index.html", [], []
    while True:
        visited.append(path.name)
        listed += _listed(path)
        older = re.search(r'href="(batches-\d+\.html)" rel="next"', path.read_text())
        if older is None:
            break
        path = folder / older[1]

    assert listed == list(range(154, -1, -1))
    assert visited == ["index.html", "batches-2.html", "batches-1.html"]
    back = [re.search(r'href="([\w.-]+)" rel="prev"', (folder / name).read_text()) for name in reversed(visited[1:])]
    assert [match and match[1] for match in back] == ["batches-2.html", "batches-3.html"]
    assert 'href="index.html" rel="prev"' in (folder / "batches-3.html").read_text()


def test_every_link_has_a_target_and_no_page_violates_the_policy(long_history: Layout) -> None:
    pages = _pages(long_history.docs("flights"))
    assert len(pages) > 155
    for path in pages:
        page = _Page(path)
        assert page.forbidden == [], path
        assert [link for link in page.links if not (path.parent / link).is_file()] == [], path
        assert f'http-equiv="Content-Security-Policy" content="{POLICY}"'.replace("'", "&#39;") in path.read_text()


def test_the_number_of_files_written_for_a_batch_does_not_grow(long_history: Layout, layout: Layout) -> None:
    def written(lake: Layout, number: int) -> tuple[set[str], int]:
        folder = lake.docs("flights")
        before = {path: path.stat().st_ino for path in folder.rglob("*.*")}
        publish(lake, FLIGHTS, samples.batch(number))
        fresh = {path for path in folder.rglob("*.*") if before.get(path) != path.stat().st_ino}
        return {path.name for path in fresh}, sum(path.stat().st_size for path in fresh)

    for number in range(55):
        publish(layout, FLIGHTS, samples.batch(number))
    few, small = written(layout, 55)
    many, large = written(long_history, 155)

    assert few == {"index.html", "history.json", "v1-0-batch-55.html"}
    assert many == {"index.html", "history.json", "v1-0-batch-155.html"}
    assert large < 1.1 * small


def test_a_history_that_cannot_be_read_is_replaced(layout: Layout, site: Path) -> None:
    publish(layout, FLIGHTS, samples.batch(0))
    (site / "silver" / "history.json").write_text('{"format": 1, "clo')
    publish(layout, FLIGHTS, samples.batch(1))
    assert _listed(site / "silver" / "index.html") == [1]


def test_a_history_has_fifty_to_ninety_nine_batches(tmp_path: Path) -> None:
    history, sizes = History(), []
    for number in range(4 * PER_PAGE):
        moved = history.add(samples.batch(number).entry())
        assert moved is None or len(moved) == PER_PAGE
        sizes.append(len(history.entries))
    history.write(tmp_path)

    assert max(sizes) == 2 * PER_PAGE - 1
    assert set(sizes[PER_PAGE - 1 :]) == set(range(PER_PAGE, 2 * PER_PAGE))
    assert History.read(tmp_path) == history


def test_pages_of_another_version_of_tidegate_keep_their_style_sheet(layout: Layout, site: Path) -> None:
    publish(layout, FLIGHTS, samples.batch(0))
    (site / "pages-01234567.css").write_text("/* older */")
    publish(layout, FLIGHTS, samples.batch(1))
    assert (site / "pages-01234567.css").read_text() == "/* older */"
    assert style().name in (site / "silver" / "v1-0-batch-1.html").read_text()


def test_a_swap_and_the_batch_with_its_number_have_separate_pages(layout: Layout, site: Path) -> None:
    staged = dataclasses.replace(samples.batch(4), checkpoint_version=2)
    assert staged.record is not None
    swap = dataclasses.replace(
        staged.record, kind="swap", groups=100, upserted=7, deleted=1, unchanged=92, rules={}, quarantined=0
    )
    publish(layout, FLIGHTS, staged)
    page = publish(layout, FLIGHTS, dataclasses.replace(staged, record=swap, verdict=None))
    assert {path.name for path in (site / "silver").glob("v2*")} == {"v2-0-batch-4.html", "v2-0-swap-4.html"}
    assert "7 rows changed, 1 deleted, 92 unchanged" in _text(page)
