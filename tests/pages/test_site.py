"""The exported site of a pipeline: its pages, their links, and that it has no script and no value that is not escaped."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.pages import samples
from tests.s3_server import S3Process
from tests.store.buckets import new_store
from tests.with_fields import with_fields
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.pages.render import POLICY
from tidegate.pages.site import export
from tidegate.reports.ledger_line import LedgerLine
from tidegate.store import Address, LocalStore

pytestmark = pytest.mark.slow

FLIGHTS = samples.flights()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


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
            if name == "href" and value is not None and not value.startswith(("data:", "#")):
                self.links.append(value.partition("#")[0])


def site(layout: Layout, *batches: samples.Sample, newest: int = 200) -> Path:
    """The exported site after these batches were recorded."""
    samples.fill(layout, *batches)
    return Path(export(layout, FLIGHTS, PipelinePlace(layout, "flights").docs, newest)).parent


def text(path: Path) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8")).split())


def listed(path: Path) -> list[int]:
    """The ids of the batches in a list, from the top."""
    table = path.read_text(encoding="utf-8").partition('<h2 id="batches">')[2]
    return [int(number) for number in re.findall(r'<td class="num"><a href="../silver/v1-0-batch-(\d+)', table)]


def test_a_pipeline_that_never_ran_has_pages_without_batches(layout: Layout) -> None:
    folder = site(layout)
    assert text(folder / "index.html").count("never") == 3
    assert "No batch is recorded yet." in text(folder / "silver" / "index.html")


def test_a_batch_has_a_page_and_is_listed(layout: Layout) -> None:
    folder = site(layout, samples.batch(7))

    assert listed(folder / "silver" / "index.html") == [7]
    index = (folder / "index.html").read_text()
    assert index.count('href="silver/v1-0-batch-7.html"') == 2, "as the last batch of its flow, and among the newest"
    assert "scheduled-00007-1a2b3c4d" in index
    assert {path.name for path in folder.iterdir()} == {"index.html", "pages.css", "bronze", "silver", "gold"}
    assert {path.name for path in (folder / "silver").iterdir()} == {"index.html", "v1-0-batch-7.html"}


def test_a_page_shows_all_dispositions_rules_and_expectations(layout: Layout) -> None:
    batch = samples.batch(7)
    record = batch.record
    assert record is not None
    page = text(site(layout, batch) / "silver" / "v1-0-batch-7.html")

    for phrase in (
        f"{record.read:,} rows read: {record.written:,} written, {record.quarantined:,} quarantined, ",
        f"filtered excluded by a rule of the transform {sum(record.filtered.values())}",
        "cancelled_twice",
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
        assert phrase in page


def test_pages_name_fields_as_records_do_where_a_rename_is_declared(layout: Layout) -> None:
    bronze, *others = FLIGHTS.flows
    renamed = with_fields(bronze, source=with_fields(bronze.source, fields={"Origin Airport": "origin"}))
    samples.fill(layout, samples.batch(7))
    pipeline = dataclasses.replace(FLIGHTS, flows=(renamed, *others))
    folder = Path(export(layout, pipeline, PipelinePlace(layout, "flights").docs, 200)).parent
    page = text(folder / "silver" / "v1-0-batch-7.html")
    assert "Names in the records: origin (&#34;Origin Airport&#34; in the source)." in page


def test_a_sent_batch_names_the_version_of_the_source_and_none_of_the_sink(layout: Layout) -> None:
    line = LedgerLine(
        flow="gold", batch_id=4, app_id="flights/gold/v1/0", kind="send", read=3, written=3, target_version=8
    )
    folder = site(layout, dataclasses.replace(samples.gold(4), record=line))
    page = text(folder / "gold" / "v1-0-batch-4.html")
    assert "changes up to Delta version 8 of its source" in page


def test_a_landing_batch_shows_files_and_a_recomputed_one_shows_groups(layout: Layout) -> None:
    folder = site(layout, samples.bronze(4), samples.gold(4))
    landed = text(folder / "bronze" / "v1-0-batch-4.html")
    assert "12 files listed: 11 opened, 1 quarantined." in landed
    assert "corrupt_compression 1 8.3 %" in landed
    assert "No suite judged this batch." in landed
    recomputed = text(folder / "gold" / "v1-0-batch-4.html")
    assert (
        "184 groups recomputed: 154 upserted, 1 deleted, 29 unchanged; 9,068 changed rows of the source named"
        in recomputed
    )


def test_the_page_of_a_refused_batch_is_replaced_when_it_passes_and_keeps_all_judgements(layout: Layout) -> None:
    page = site(layout, samples.batch(3, outcome="refused")) / "silver" / "v1-0-batch-3.html"
    assert "nothing was written, and the batch waits" in text(page)
    assert "All verdicts" not in text(page)

    later = samples.batch(3)
    site(layout, dataclasses.replace(later, run_key="manual-2", at=later.at.replace(hour=23)))
    assert "Judged 2 times; this is the last verdict." in text(page)
    assert "refused 1 of 3 met; not met: not_null(carrier) (2,208 of 11,794 rows break it, mostly 0.99)" in text(page)
    assert listed(page.with_name("index.html")) == [3]


def test_all_names_are_escaped(layout: Layout) -> None:
    bad = '<i onclick="x">&'
    batch = samples.batch(1, rules={bad: 5, "other": 3}, filtered={bad: 4})
    assert batch.verdict is not None
    results = (dataclasses.replace(batch.verdict.results[0], rule=bad, sentence=bad, success=False, unexpected=1),)
    samples.change(layout, field=bad, decided_by=bad)
    folder = site(
        layout, dataclasses.replace(batch, verdict=dataclasses.replace(batch.verdict, suite=bad, results=results))
    )
    for path in folder.rglob("*.html"):
        assert "<i " not in path.read_text()
        assert _Page(path).forbidden == []
    assert (folder / "silver" / "v1-0-batch-1.html").read_text().count("&lt;i onclick=") == 7


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A flow with 155 batches, so that it has all kinds of pages."""
    folder = tmp_path_factory.mktemp("long")
    layout = Layout.local(folder / "lake", folder / "landing")
    site(layout, *(samples.batch(number) for number in range(155)))
    return layout


def test_every_batch_is_listed_once_and_the_lists_link_to_each_other(long_history: Layout) -> None:
    folder = PipelinePlace(long_history, "flights").docs / "silver"
    path, batches, visited = folder / "index.html", [], []
    while True:
        visited.append(path.name)
        batches += listed(Path(path))
        older = re.search(r'href="../silver/(batches-\d+\.html)#batches" rel="next"', path.read().data.decode())
        if older is None:
            break
        path = folder / older[1]

    assert batches == list(range(154, -1, -1))
    assert visited == ["index.html", "batches-2.html", "batches-3.html", "batches-4.html"]
    back = [
        re.search(r'href="../silver/([\w.-]+)#batches" rel="prev"', (folder / name).read().data.decode())
        for name in visited
    ]
    assert [match and match[1] for match in back] == [None, *visited[:-1]]


def test_every_link_has_a_target_and_no_page_violates_the_policy(long_history: Layout) -> None:
    pages = list(Path(PipelinePlace(long_history, "flights").docs).rglob("*.html"))
    assert len(pages) == 1 + 3 + 3 + 155
    for path in pages:
        page = _Page(path)
        assert page.forbidden == [], path
        assert [link for link in page.links if not (path.parent / link).is_file()] == [], path
        assert f'http-equiv="Content-Security-Policy" content="{POLICY}"'.replace("'", "&#39;") in path.read_text()


def test_only_the_newest_batches_are_exported_and_their_trend_is_complete(layout: Layout) -> None:
    folder = site(layout, *(samples.batch(number) for number in range(40)), newest=3)
    assert {path.name for path in (folder / "silver").iterdir()} == {
        "index.html",
        *(f"v1-0-batch-{number}.html" for number in (37, 38, 39)),
    }
    assert listed(folder / "silver" / "index.html") == [39, 38, 37]
    oldest = (folder / "silver" / "v1-0-batch-37.html").read_text()
    assert "bars for batches 8 to 37" in oldest
    assert [link for link in _Page(folder / "index.html").links if not (folder / link).is_file()] == []


def test_an_export_replaces_the_earlier_one_and_refuses_a_folder_with_other_files(
    layout: Layout, tmp_path: Path
) -> None:
    samples.fill(layout, samples.batch(0))
    out = tmp_path / "out"
    index = export(layout, FLIGHTS, Address.local(out))
    (out / "silver" / "old.html").write_text("old")
    assert export(layout, FLIGHTS, Address.local(out)) == index
    assert Path(index) == out / "index.html"
    assert not (out / "silver" / "old.html").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"lake", "out"}

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(RequestError, match="files that are not of an export"):
        export(layout, FLIGHTS, Address.local(tmp_path / "mine"))
    (tmp_path / "mine" / "pages.css").write_text("a style sheet of my own")
    with pytest.raises(RequestError, match="files that are not of an export"):
        export(layout, FLIGHTS, Address.local(tmp_path / "mine"))
    with pytest.raises(RequestError, match="is not a folder"):
        export(layout, FLIGHTS, Address.local(tmp_path / "mine" / "notes.txt"))
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"


def test_an_export_to_a_bucket_has_the_same_files_and_also_replaces_the_earlier_one(
    layout: Layout, s3_server: S3Process
) -> None:
    samples.fill(layout, samples.batch(0))
    folder = Address(new_store(s3_server), "docs/flights")
    for address in (folder, PipelinePlace(layout, "flights").docs):
        (address / "silver" / "old.html").put(b"old")
        (address / "pages.css").put(b"old")
        export(layout, FLIGHTS, address)
    local = PipelinePlace(layout, "flights").docs
    files, expected = (
        {entry.key[len(address.key) :]: address.at(entry).read().data for entry in address.walk()}
        for address in (folder, local)
    )
    assert files == expected and "/silver/old.html" not in files and len(files) > 3


def test_an_export_that_is_interrupted_leaves_no_link_without_a_target(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples.fill(layout, *(samples.batch(number) for number in range(3)))
    folder = site(layout)
    samples.fill(layout, *(samples.batch(number) for number in range(3, 6)))
    put, interruptions, done = LocalStore.put, 0, False
    while not done:
        left = interruptions

        def put_some(self: LocalStore, key: str, data: bytes) -> None:
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            put(self, key, data)

        monkeypatch.setattr(LocalStore, "put", put_some)
        try:
            export(layout, FLIGHTS, PipelinePlace(layout, "flights").docs, 3)
            done = True
        except KeyboardInterrupt:
            interruptions += 1
        for page in folder.rglob("*.html"):
            assert [link for link in _Page(page).links if not (page.parent / link).is_file()] == [], page
    assert interruptions > 6


def test_a_swap_and_the_batch_with_its_number_have_separate_pages(layout: Layout) -> None:
    staged = samples.batch(4)
    assert staged.record is not None
    record = dataclasses.replace(staged.record, app_id="flights/silver/v2/0")
    verdict = dataclasses.replace(samples.verdict(4), app_id="flights/silver/v2/0")
    staged = dataclasses.replace(staged, checkpoint_version=2, record=record, verdict=verdict)
    counts: dict[str, Any] = {
        "groups": 100,
        "upserted": 7,
        "deleted": 1,
        "unchanged": 92,
        "rules": {},
        "quarantined": 0,
    }
    swap = dataclasses.replace(staged, record=dataclasses.replace(record, kind="swap", **counts), verdict=None)
    folder = site(layout, staged, dataclasses.replace(swap, at=staged.at.replace(minute=59))) / "silver"
    assert {path.name for path in folder.glob("v2*")} == {"v2-0-batch-4.html", "v2-0-swap-4.html"}
    page = text(folder / "v2-0-swap-4.html")
    assert "100 rows compared: 7 upserted, 1 deleted, 92 unchanged." in page
    assert "A swap has no verdict" in page
