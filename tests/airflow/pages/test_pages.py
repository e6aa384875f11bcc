"""What the pages say: where flows stand, what batches did, and never a value of the data."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from html import unescape
from typing import TYPE_CHECKING

import pytest

from tests.airflow.lake import Lake
from tests.cli.project import append
from tests.written import drift_waits
from tidegate import registry
from tidegate.alerting.episodes import Event
from tidegate.checkpoints import gap, intervention
from tidegate.ops import alert_history, ledger
from tidegate.quarantine import decision
from tidegate.quarantine.selection import Selection

if TYPE_CHECKING:
    from tests.airflow.pages.conftest import Client

pytestmark = pytest.mark.airflow


def text(html: str) -> str:
    """A page as it is read."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_the_overview_tells_of_every_flow(client: Client, lake: Lake) -> None:
    lake.land("flights/1.csv", "a,b\n" * 50)
    lake.batch("flights", "bronze", 0, read=120, written=120)
    lake.batch("flights", "silver", 0, read=120, written=117, quarantined=3, rules={"required(origin)": 3})
    lake.quarantine(3, "required(origin)")
    lake.quarantine(2, "required(origin)", state="waived")
    page = client().get("/tidegate/").text
    told = text(page)
    assert "Flows 6 Need a person 1 Rows read, 24 h 240 Set aside, 24 h 3 In quarantine, open 3" in told
    assert re.search(
        r"bronze bronze.flights behind \d+ (?:s|min) ago ingested \d+ (?:s|min) ago ~49 rows 200 B 0 120 0 0", told
    ), told
    assert re.search(
        r"silver silver.flights not begun \d+ (?:s|min) ago ingested \d+ (?:s|min) ago nothing 0 120 3 3", told
    ), told
    assert "no Kafka broker answers" in told
    assert "The last 1 batches, the newest at the right: 120 to 120 rows each, 3 of 120 set aside" in told


def test_flows_can_be_found_by_name_and_status(client: Client, lake: Lake) -> None:
    viewer = client()
    assert "2 of 6 flows" in text(viewer.get("/tidegate/?q=GOLD").text)
    found = text(viewer.get("/tidegate/?state=error").text)
    assert "1 of 6 flows" in found
    assert "bronze.clicks" in found
    assert "No flow fits" in text(viewer.get("/tidegate/?q=nothing").text)


def test_a_flow_tells_of_its_batches_verdicts_checkpoints_and_quarantine(client: Client, lake: Lake) -> None:
    lake.begin("flights")
    lake.verdict("silver", 0, "split")
    lake.batch(
        "flights", "silver", 0, read=100, written=88, quarantined=4, superseded=3, filtered={"test_row": 5},
        rules={"required(origin)": 4}, target_version=7, seconds=2.5,
    )  # fmt: skip
    lake.verdict("silver", 1, "refused", ("in_set(origin)",))
    lake.quarantine(4, "required(origin)")
    lake.page("silver/v1-0-batch-0.html", "a report")
    page = client().get("/tidegate/pipelines/flights/flows/silver").text
    told = text(page)
    assert "split 100 88 4 required(origin) 4 5 filtered by test_row; 3 superseded 7 2.5 s" in told
    assert "refused in_set(origin) Nothing was written: the batch waits" in told
    assert "required(origin) row open 4" in told
    assert re.search(r"v1 in use \d{4}-\d\d-\d\d 1 ", told), told
    assert "No change of schema is recorded." in told
    assert 'href="/tidegate/pipelines/flights/docs/silver/v1-0-batch-0.html"' in page
    assert "a secret" not in page


def test_a_batch_that_its_frozen_contract_refused_has_its_report_where_the_flow_stands(
    client: Client, lake: Lake
) -> None:
    drift_waits(lake.layout, registry.load("flights"), "silver", "0a1b2c3d4e5f", batch_id=3)
    lake.page("silver/v1-0-batch-3.html", "a report")
    page = client().get("/tidegate/pipelines/flights/flows/silver").text
    assert "batch 3 was refused by its frozen contract; drift 0a1b2c3d4e5f needs an answer" in text(page)
    assert 'href="/tidegate/pipelines/flights/docs/silver/v1-0-batch-3.html">Report of batch 3, which waits' in page


def test_a_refused_batch_that_passed_later_has_one_line(client: Client, lake: Lake) -> None:
    lake.verdict("silver", 0, "refused", ("in_set(origin)",))
    lake.verdict("silver", 0, "passed")
    lake.batch("flights", "silver", 0, read=10, written=10)
    told = text(client().get("/tidegate/pipelines/flights/flows/silver").text)
    assert "passed 10 10" in told
    assert "refused" not in told


def test_a_refused_replay_beside_a_batch_of_its_number_is_told_as_a_replay(client: Client, lake: Lake) -> None:
    ada = {"mode": "replay", "requested_by": "ada"}
    lake.verdict("silver", 0, "passed")
    lake.batch("flights", "silver", 0, read=10, written=10)
    lake.verdict("silver", 0, "refused", ("in_set(origin)",), purpose="window", asked=ada)
    told = text(client().get("/tidegate/pipelines/flights/flows/silver").text)
    assert re.search(r"\b0 v1 \d+ (?:s|min) ago passed 10 10", told), told
    assert re.search(
        r"replay 0 v1 \d+ (?:s|min) ago refused in_set\(origin\) Nothing was written: the table is as it was .* replay by ada",
        told,
    ), told


def test_the_overview_counts_batches_and_no_replays(client: Client, lake: Lake) -> None:
    ada = {"mode": "replay", "requested_by": "ada"}
    lake.batch("flights", "silver", 0, read=120, written=120)
    lake.batch("flights", "silver", 7, purpose="window", asked=ada, kind="rederive", read=900, written=900)
    told = text(client().get("/tidegate/").text)
    assert re.search(
        r"silver silver.flights not begun \d+ (?:s|min) ago ingested \d+ (?:s|min) ago nothing 0 120 0 0", told
    ), told
    assert "The last 1 batches" in told
    told = text(client().get("/tidegate/pipelines/flights/flows/silver").text)
    assert re.search(r"replay 7 v1 \d+ (?:s|min) ago replay 7 900 900 .* replay by ada", told), told


def test_a_decision_about_the_quarantine_is_told_with_who_took_it_and_not_why(client: Client, lake: Lake) -> None:
    lake.quarantine(3, "required(origin)")
    decision.waive(lake.layout, "flights", "silver", Selection(), by="ada", reason="the airport's own test")
    told = text(client().get("/tidegate/pipelines/flights/flows/silver").text)
    assert re.search(
        r"waive \d+ (?:s|min) ago waive 3 0 0 required\(origin\) 3 3 closed \S+ 0(\.0)? m?s waive by ada", told
    ), told
    assert "own test" not in told
    assert "never" in text(client().get("/tidegate/?q=silver.flights").text), "it is no batch"


def test_messages_that_were_given_up_are_told_with_who_gave_them_up_and_not_why(client: Client, lake: Lake) -> None:
    gap.accept(
        lake.layout, "clickstream", "bronze", "clicks", "an id", {0: (10, 14)}, by="ada", reason="they were tests"
    )
    ledger.record_gaps(lake.layout, "clickstream", "bronze")
    told = text(client().get("/tidegate/pipelines/clickstream/flows/bronze").text)
    assert re.search(r"gap \d+ (?:s|min) ago gap 5 0 0 5 filtered by gap\(clicks 0:10-14\); .* gap by ada", told), told
    assert "were tests" not in told
    assert "never" in text(client().get("/tidegate/?q=bronze.clicks").text), "it is no batch"


def test_batches_are_paged(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.airflow.pages.views.BATCHES", 2)
    for number in range(5):
        lake.batch("flights", "bronze", number, read=1000 + number, written=1000 + number)
    viewer = client()
    pages = [text(viewer.get(f"/tidegate/pipelines/flights/flows/bronze?page={page}").text) for page in (1, 2, 3)]
    assert [re.findall(r"no gate (1,00\d)", page) for page in pages] == [
        ["1,004", "1,003"],
        ["1,002", "1,001"],
        ["1,000"],
    ]
    assert ["Older" in page for page in pages] == [True, True, False]


def test_the_next_look_opens_only_what_is_new(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.ops.mirror import Mirror

    opened: list[int] = []
    refresh = Mirror.refresh

    def counting(self: Mirror, kind: str, pipeline: str, path: object) -> int:
        opened.append(refresh(self, kind, pipeline, path))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(Mirror, "refresh", counting)
    for number in range(6):
        lake.batch("flights", "bronze", number, read=1, written=1)
    viewer = client()
    viewer.get("/tidegate/")
    assert sum(opened) == 6
    opened.clear()
    viewer.get("/tidegate/")
    assert sum(opened) == 0
    lake.batch("flights", "bronze", 6, read=1, written=1)
    opened.clear()
    assert ">6<" in viewer.get("/tidegate/").text
    assert sum(opened) == 1


def test_a_run_tells_of_its_attempts_and_leads_to_spark(client: Client, lake: Lake) -> None:
    run_id = "scheduled__2026-01-05T00:00:00+00:00"
    lake.report(run_id, "a1", error={"kind": "SinkConflictError", "message": "another writer came first"})
    lake.report(run_id, "a2", application="app-1")
    lake.batch("flights", "bronze", 3, run_id=run_id, read=12, written=12)
    lake.batch("flights", "bronze", 4, run_id="another", read=99, written=99)
    page = client().get(f"/tidegate/pipelines/flights/runs/{run_id.replace('+', '%2B')}").text
    told = text(page)
    assert told.index("Attempt 2 of 2") < told.index("Attempt 1 of 2") < told.index("another writer came first")
    assert 'href="http://127.0.0.1:18080/history/app-1/jobs/"' in page
    assert "12 12" in told
    assert "99 99" not in told
    assert "This run started no application" in text(client().get("/tidegate/pipelines/flights/runs/manual__2").text)


def test_a_report_that_cannot_be_read_does_not_hide_the_run(client: Client, lake: Lake) -> None:
    lake.report("manual__1")
    [torn] = lake.layout.reports("flights").glob("*/a1/report.json")
    torn.write_text('{"format": 1, "flo')
    answer = client().get("/tidegate/pipelines/flights/runs/manual__1")
    assert answer.status_code == 200
    assert "It has no report" in answer.text


def test_tabs_of_tasks_show_the_flow_or_the_whole(client: Client, lake: Lake) -> None:
    viewer = client()
    assert "Where it stands" in viewer.get("/tidegate/pipelines/flights/tasks/silver").text
    assert "Newest batches" in viewer.get("/tidegate/pipelines/flights/tasks/plan").text
    assert "silver in this run" in viewer.get("/tidegate/pipelines/flights/runs/manual__1/tasks/silver").text
    assert "<h1>Run</h1>" in viewer.get("/tidegate/pipelines/flights/runs/manual__1/tasks/run").text


def test_the_entry_and_each_tab_in_airflow_leads_to_its_page(client: Client, lake: Lake) -> None:
    from tidegate.airflow.plugin import TidegatePlugin

    says = {
        "nav": "Flows 6",
        "dag": "Newest batches",
        "task": "Where it stands",
        "dag_run": "This run started no application",
        "task_instance": "silver in this run",
    }
    views = {view["destination"]: view for view in TidegatePlugin.external_views}
    assert views.keys() == says.keys()
    assert len({view["url_route"] for view in views.values()}) == len(says)
    viewer = client()
    for destination, view in views.items():
        address = view["href"].format(DAG_ID="flights", RUN_ID="manual__1", TASK_ID="silver")
        assert says[destination] in text(viewer.get(address).text), destination
        assert viewer.get(view["icon"]).status_code == viewer.get(view["icon_dark_mode"]).status_code == 200


def test_a_dag_that_is_no_pipeline_is_told_in_one_line(client: Client, lake: Lake) -> None:
    for path in ("", "/tasks/one", "/runs/manual__1", "/runs/manual__1/tasks/one"):
        answer = client().get(f"/tidegate/pipelines/somebody_elses{path}")
        assert answer.status_code == 200
        assert "somebody_elses is not a pipeline of Tidegate" in text(answer.text)


def test_changes_of_schema_and_alerts_are_shown_where_they_are_recorded(client: Client, lake: Lake) -> None:
    moment = datetime(2026, 1, 5, tzinfo=UTC)
    change = {"flow": "silver", "field": "gate", "after": "STRING", "recorded_at": moment}
    append(lake.layout.ops("flights", "evolution"), [change, {**change, "flow": "gold", "field": "other"}])
    for flow, rule, kind in (
        ("silver", "lag", "opened"),
        ("silver", "state", "opened"),
        ("silver", "state", "resolved"),
    ):
        event = Event(flow=flow, rule=rule, opened_at=moment, kind=kind, at=moment, message=f"too much {rule}")
        alert_history.append(lake.layout, "flights", [event])
    viewer = client()
    flow = text(viewer.get("/tidegate/pipelines/flights/flows/silver").text)
    assert "flow field after recorded at silver gate STRING 2026-01-05 00:00:00" in flow
    assert "other" not in flow.split("Schema history")[1]
    assert "flow rule opened at over at why silver lag 2026-01-05 00:00:00 open too much lag silver state" in flow
    assert "too much lag" not in text(viewer.get("/tidegate/pipelines/flights/flows/gold").text)


def test_each_row_tells_which_of_its_alerts_are_open_and_the_tile_counts_all_of_them(
    client: Client, lake: Lake
) -> None:
    moment = datetime(2026, 1, 5, tzinfo=UTC)
    for pipeline, flow, rule, kind in (
        ("flights", "silver", "lag", "opened"),
        ("flights", "silver", "freshness", "opened"),
        ("flights", "gold", "long", "opened"),
        ("flights", "gold", "long", "resolved"),
        ("clickstream", "bronze", "unreadable", "opened"),
    ):
        event = Event(flow=flow, rule=rule, opened_at=moment, kind=kind, at=moment, message="so it is")
        alert_history.append(lake.layout, pipeline, [event])
    viewer = client()
    page = viewer.get("/tidegate/").text
    told = text(page)
    assert "Open alerts 3" in told
    assert "not begun alerts: freshness, lag" in told
    assert re.findall(r"alerts?: [a-z]+", told) == ["alert: unreadable", "alerts: freshness"], "and none at gold"
    assert 'href="/tidegate/pipelines/flights/flows/silver#alerts"' in page
    assert "Open alerts 3" in text(viewer.get("/tidegate/?q=gold").text), "a filter hides rows and no alert"
    assert "alerts: freshness, lag" in text(viewer.get("/tidegate/pipelines/flights").text)


def test_a_row_tells_how_new_its_data_is(client: Client, lake: Lake) -> None:
    day = (datetime.now(UTC) - timedelta(days=3)).date()
    append(
        lake.layout.table("silver.flights"),
        [{"flight_id": "a", "day": day}, {"flight_id": "b", "day": date(2099, 1, 1)}],
    )
    append(lake.layout.table("bronze.flights"), [{"_ingested_at": datetime.now(UTC) - timedelta(hours=5)}])
    told = text(client().get("/tidegate/").text)
    assert re.search(r"silver silver.flights [a-z ]+ 3 d( \d+ h)? ago event never", told), told
    assert re.search(r"bronze bronze.flights [a-z ]+ 5 h ago ingested never", told), told
    assert re.search(r"gold gold.daily_delay [a-z ]+ \S never", told), told


def test_a_flow_that_is_switched_off_can_be_found_by_that(client: Client, lake: Lake) -> None:
    intervention.switch(lake.layout, "flights", "gold", on=False, by="ada", reason="it lies")
    viewer = client()
    assert ">off (1)</option>" in viewer.get("/tidegate/").text
    found = text(viewer.get("/tidegate/?state=off").text)
    assert "1 of 6 flows" in found
    assert "gold.daily_delay off" in found


def test_whatever_is_printed_is_escaped(client: Client, lake: Lake) -> None:
    sly = "<script>alert(1)</script>"
    lake.batch("flights", "silver", 0, read=1, quarantined=1, rules={sly: 1})
    lake.verdict("silver", 0, "split", (sly,))
    lake.quarantine(1, sly)
    lake.report("manual__1", error={"kind": sly, "message": sly})
    viewer = client()
    paths = (f"/?q={sly}", "/pipelines/flights", "/pipelines/flights/flows/silver", "/pipelines/flights/runs/manual__1")
    for path in (*paths, f"/pipelines/flights/runs/{sly.replace('/', '')}", "/pipelines/<script>alert(1)"):
        answer = viewer.get(f"/tidegate{path}")
        assert answer.status_code == 200
        assert "<script>" not in answer.text
        assert "&lt;script&gt;" in answer.text
    assert viewer.get("/tidegate/pipelines/flights/flows/<script>").status_code == 404
