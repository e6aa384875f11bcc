"""Rows are followed through every kind of table: groups, windows, scopes, joins, histories. The lake is written without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.cli.project import append, quarantined
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.ops import query
from tidegate.project import resolution
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSink, Pipeline, Table, TimeWindows, Watermark
from tidegate.trace.lineage import Lineage
from tidegate.trace.step import Step

pytestmark = pytest.mark.slow

PIPELINE = Pipeline(
    name="shop",
    flows=(
        Flow(
            name="bronze", source=FileSource(path="shop", format="csv", schema="id STRING"), target=Table("bronze.shop")
        ),
        Flow(
            name="clicks",
            source=ChangeFeed("bronze.shop"),
            target=Table("silver.clicks", keys=("id",), sequence_by=("at",)),
        ),
        Flow(
            name="users",
            source=ChangeFeed("bronze.shop"),
            target=Table("silver.users", keys=("user",), sequence_by=("at",)),
        ),
        Flow(
            name="prices",
            source=ChangeFeed("bronze.shop"),
            target=Table("silver.prices", keys=("sku",), sequence_by=("at",), history="scd2"),
        ),
        Flow(
            name="items",
            source=ChangeFeed("bronze.shop"),
            target=Table("silver.items", keys=("order", "sku"), replace_by=("order",), sequence_by=("at",)),
        ),
        Flow(
            name="visits",
            source=ChangeFeed("bronze.shop"),
            transform="shop:visits",
            target=Table("silver.visits", event_time="at"),
            watermark=Watermark(delay="10 minutes"),
        ),
        Flow(
            name="known",
            source=ChangeFeed("silver.users"),
            target=Table("silver.known", keys=("user",), sequence_by=("at",)),
        ),
        Flow(
            name="sessions",
            source=ChangeFeed("silver.clicks"),
            transform="shop:sessions",
            target=Table("gold.sessions", keys=("user", "began"), replace_by=("user",)),
        ),
        Flow(
            name="hours",
            source=ChangeFeed("silver.clicks"),
            transform="shop:hours",
            target=Table(
                "gold.hours",
                keys=("window_start",),
                windows=TimeWindows(time="at", length="1 hour", every="30 minutes"),
            ),
        ),
        Flow(
            name="pages",
            sources=(ChangeFeed("silver.clicks"), ChangeFeed("silver.users", on={"user": "user"})),
            transform="shop:pages",
            target=Table("gold.pages", keys=("page",)),
        ),
        Flow(name="sent", source=ChangeFeed("silver.users"), target=KafkaSink("users")),
    ),
)


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 1, 1, hour, minute, tzinfo=UTC)


def row(of: str, *, deleted: bool = False, **values: Any) -> dict[str, Any]:
    return {**values, "_row_id": of, "_deleted": deleted, "_batch_id": 0}


CLICKS = [
    row("1.csv@1#2", id="a", user="ada", page="/", at=at(10)),
    row("1.csv@1#3", id="b", user="ada", page="/", at=at(10, 40)),
    row("1.csv@1#4", id="c", user="bob", page="/x", at=at(12)),
    row("1.csv@1#5", id="d", user="ada", page="/", at=at(10), deleted=True),
]
USERS = [row("1.csv@1#6", user="ada", name="Ada", at=at(9)), row("1.csv@1#7", user="eve", name="Eve", at=at(9))]


@pytest.fixture(scope="module", autouse=True)
def _shared_database() -> Iterator[None]:
    with query.shared():
        yield


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    folder = tmp_path_factory.mktemp("shop")
    layout = Layout.local(folder / "lake", folder / "landing")
    records = [f"1.csv@1#{line}" for line in range(2, 12)]
    write(layout, "bronze.shop", [{"_row_id": each, "line": "", "_ingested_at": at(9)} for each in records])
    write(layout, "silver.clicks", CLICKS)
    write(layout, "silver.users", USERS)
    ends: dict[str, Any] = {"valid_from": at(9), "valid_to": None, "_change": "version"}
    same: dict[str, Any] = {"valid_from": at(10), "valid_to": at(10), "_change": "unchanged"}
    prices = [row("1.csv@1#8", sku="s", at=at(9), **ends), row("1.csv@1#9", sku="s", at=at(10), deleted=True, **same)]
    write(layout, "silver.prices", prices)
    write(layout, "gold.sessions", [{"user": "ada", "began": at(10)}, {"user": "bob", "began": at(12)}])
    write(layout, "silver.visits", [{"_row_id": "1.csv@1#10", "at": at(11)}])
    late = {"_row_id": "1.csv@1#11", "at": at(9), "_watermark": at(10, 50), "_late_seconds": 6600.0}
    by_batch = {"_app_id": "shop/visits/v1/0", "_batch_id": 4}
    FlowPlace(layout, "shop", "visits").late.parent.make_folder()
    write_deltalake(str(FlowPlace(layout, "shop", "visits").late), pyarrow.Table.from_pylist([late | by_batch]))
    starts = (at(9, 30), at(10), at(10, 30), None)
    write(layout, "gold.hours", [{"window_start": start} for start in starts])
    write(layout, "gold.pages", [{"page": "/"}, {"page": "/x"}])
    entry = quarantined("eve|0|insert", ["not_null(mail)"], {}, "{}")
    append(FlowPlace(layout, "shop", "known").quarantine, [entry])
    return layout


def write(layout: Layout, table: str, rows: list[dict[str, Any]], flow: str = "") -> None:
    metadata = {"app_id": f"shop/{flow}/v1/0", "batch_id": 0, "prepared": {"kind": "upsert", "flow": flow}}
    write_deltalake(
        str(layout.table(table)),
        pyarrow.Table.from_pylist(rows),
        mode="append",
        configuration={"delta.enableChangeDataFeed": "true"},
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(metadata)} if flow else {}),
    )


def lineage(layout: Layout) -> Lineage:
    return Lineage(layout=layout, pipelines={"shop": resolution.resolve(PIPELINE, Path(layout.root), {})})


def up(layout: Layout, table: str, **key: str) -> Step:
    (step,) = lineage(layout).up(table, key)
    return step


def down(layout: Layout, flow: str, record: Mapping[str, Any]) -> dict[str, Step]:
    """What became of a row of a flow's table, by the tables that are made of it."""
    followed = lineage(layout)
    resolved = followed.pipelines["shop"]
    assert isinstance(resolved, resolution.ResolvedPipeline)
    return {step.table: step for step in followed.down(resolved.flow(flow), record).next}


def ids(step: Step, table: str = "silver.clicks") -> list[str]:
    return [each.key["id"] for each in step.next if each.table == table]


def test_a_session_is_made_of_the_rows_of_its_user(layout: Layout) -> None:
    session = up(layout, "gold.sessions", user="ada", began="2026-01-01T10:00:00Z")
    assert ids(session) == ["a", "b"], "not of the deleted one"
    assert session.notes == (
        "it is made of the rows of its scope (user): all, or some of them",
        "shop/sessions has not read changes of these rows yet (version 0 of silver.clicks)",
    )
    below = down(layout, "clicks", CLICKS[0])["gold.sessions"]
    assert (below.state, below.key) == ("present", {"user": "ada", "began": at(10)})


def test_a_window_is_made_of_the_rows_whose_time_it_contains(layout: Layout) -> None:
    assert ids(up(layout, "gold.hours", window_start="2026-01-01T10:00:00Z")) == ["a", "b"]
    assert ids(up(layout, "gold.hours", window_start="2026-01-01T10:30:00Z")) == ["b"]
    (without_time,) = lineage(layout).up("gold.hours", {"window_start": None})
    assert ids(without_time) == []
    hour = down(layout, "clicks", CLICKS[0])["gold.hours"]
    assert hour.key == {"window_start": at(9, 30)}
    assert hour.notes == ("it may be in 2 rows of gold.hours; this is the first",)


def test_a_joined_group_is_followed_to_the_rows_of_every_source_and_back(layout: Layout) -> None:
    group = up(layout, "gold.pages", page="/")
    assert [(each.table, *each.key.values()) for each in group.next] == [
        ("silver.clicks", "a"),
        ("silver.clicks", "b"),
        ("silver.users", "ada"),
    ]
    assert group.next[2].notes == ("shop/pages has not read changes of these rows yet (version 0 of silver.users)",)
    assert group.counts == {"silver.clicks": 2, "silver.users": 1}
    assert [each.table for each in up(layout, "gold.pages", page="/x").next] == ["silver.clicks"], "bob has no row"
    assert down(layout, "users", USERS[0])["gold.pages"].key == {"page": "/"}
    unused = down(layout, "users", USERS[1])["gold.pages"]
    assert (unused.state, unused.notes) == ("not there", ("no row of silver.clicks belongs to it",))


def test_a_record_of_a_history_that_makes_no_version_is_not_taken_for_a_delete(layout: Layout) -> None:
    states = [step.state for step in lineage(layout).up("silver.prices", {"sku": "s"})]
    assert states == ["present", "unchanged"]


def test_a_sink_is_no_table_whose_rows_can_be_followed(layout: Layout) -> None:
    with pytest.raises(
        RequestError, match=r"'kafka\.users' is a sink, to which shop/sent sends .* Trace the row in silver\.users"
    ):
        lineage(layout).up("kafka.users", {"user": "ada"})
    with pytest.raises(
        RequestError, match=r"no flow writes a table 'gold\.other'; the tables are: bronze\.shop, gold\.hours"
    ):
        lineage(layout).up("gold.other", {"user": "ada"})


def test_a_row_of_a_keyed_table_is_followed_to_its_quarantine_entry(layout: Layout) -> None:
    refused = down(layout, "users", USERS[1])["silver.known"]
    assert (refused.state, [entry["rules"] for entry in refused.entries]) == ("quarantined", [["not_null(mail)"]])


def test_windows_at_the_ends_of_the_calendar_are_followed(tmp_path: Path) -> None:
    layout = Layout.local(tmp_path / "lake", tmp_path / "landing")
    ends = {"first": datetime(1, 1, 1, tzinfo=UTC), "last": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)}
    starts = {"first": ends["first"], "last": ends["last"].replace(minute=30, second=0, microsecond=0)}
    write(layout, "bronze.shop", [{"_row_id": each, "line": "", "_ingested_at": at(9)} for each in ends])
    clicks = [row(each, id=each, user="ada", page="/", at=instant) for each, instant in ends.items()]
    write(layout, "silver.clicks", clicks)
    write(layout, "gold.hours", [{"window_start": start} for start in starts.values()])
    for click in clicks:
        assert ids(up(layout, "gold.hours", window_start=starts[click["id"]].isoformat())) == [click["id"]]
        below = down(layout, "clicks", click)["gold.hours"]
        assert (below.state, below.key) == ("present", {"window_start": starts[click["id"]]})


def test_a_row_that_a_newer_record_of_its_scope_lacks_is_replaced(layout: Layout) -> None:
    first, second = ("1.csv@1#10", "1.csv@1#11")
    write(layout, "silver.items", [row(first, order="o", sku=sku, at=at(9)) for sku in ("s1", "s2")], "items")
    metadata = {"app_id": "shop/items/v1/0", "batch_id": 1, "prepared": {"kind": "upsert", "flow": "items"}}
    DeltaTable(str(layout.table("silver.items"))).delete(
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(metadata)})
    )
    write(layout, "silver.items", [row(second, order="o", sku="s1", at=at(10))], "items")
    assert down(layout, "bronze", {"_row_id": first, "line": ""})["silver.items"].state == "replaced"


def test_a_late_row_is_found_from_its_record_and_by_its_values(layout: Layout) -> None:
    record = {"_row_id": "1.csv@1#11", "line": "", "_ingested_at": at(9)}

    below = down(layout, "bronze", record)["silver.visits"]

    assert (below.state, below.key) == ("late", {"_row_id": "1.csv@1#11"})
    assert below.notes == (
        "its at was 1 h 50 min before the watermark when batch 4 read it: it is in late.shop.visits",
    )
    assert up(layout, "silver.visits", at="2026-01-01T09:00:00Z") == below
