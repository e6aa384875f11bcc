"""The content of the pages: flow status, batches, quarantine and alerts, but no data values."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, date, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests import places
from tests.airflow.lake import Lake
from tests.cli.project import append
from tests.pages import samples
from tests.spark_files import write_refused_schema_change
from tidegate.airflow.components import silent
from tidegate.alerting.episodes import Event
from tidegate.checkpoints import gap, overrides, rewrite
from tidegate.checkpoints.rewrite import JudgedRewrite
from tidegate.errors import EX_DATAERR, WriteConflictError
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import alert_history, ledger
from tidegate.project import registry
from tidegate.quarantine import decision
from tidegate.quarantine.selection import Selection
from tidegate.reports.impact import Impact
from tidegate.reports.report import ErrorReport, FlowReport
from tidegate.spec import KafkaSource
from tidegate.spec.tables import InvalidTable

if TYPE_CHECKING:
    from tests.airflow.pages.conftest import Client

EventKind = Literal["opened", "resolved"]
pytestmark = pytest.mark.airflow


def text(html: str) -> str:
    """The visible text of a page."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def declared() -> list[str]:
    """The tables of all flows."""
    return [flow.target.name for name in registry.names() for flow in registry.load(name).flows]


def unreachable() -> list[str]:
    """The tables of the flows that read a topic: no broker runs."""
    flows = [flow for name in registry.names() for flow in registry.load(name).flows]
    return [flow.target.name for flow in flows if isinstance(flow.source, KafkaSource)]


def test_the_overview_shows_every_flow(client: Client, lake: Lake) -> None:
    lake.land("flights/1.csv", "a,b\n" * 50)
    lake.batch("flights", "bronze", 0, read=120, written=120)
    lake.batch("flights", "silver", 0, read=120, written=117, quarantined=3, rules={"required(origin)": 3})
    lake.quarantine(3, "required(origin)")
    lake.quarantine(2, "required(origin)", state="waived")
    page = client().get("/tidegate/").text
    page_text = text(page)
    totals = f"Need a person {len(unreachable())} Rows read, 24 h 240 Quarantined, 24 h 3 Open in quarantine 3"
    assert f"Flows {len(declared())} {totals}" in page_text
    assert re.search(
        r"bronze bronze.flights behind \d+ (?:s|min) ago ingested \d+ (?:s|min) ago ~49 rows 200 B 0 120 0 0", page_text
    ), page_text
    assert re.search(
        r"silver silver.flights not begun \d+ (?:s|min) ago ingested \d+ (?:s|min) ago nothing 0 120 3 3", page_text
    ), page_text
    assert "no Kafka broker answers" in page_text
    assert "The last 1 batch, the newest at the right: 120 to 120 rows each, 3 of 120 quarantined" in page_text


def test_the_overview_says_which_component_of_airflow_is_silent(client: Client, lake: Lake) -> None:
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session

    page_text = text(client().get("/tidegate/").text)
    assert "Airflow's scheduler has never reported: no run starts, and no alert is evaluated." in page_text
    heard_at = datetime(2026, 1, 5, 7, 30, tzinfo=UTC)
    job = Job(job_type="SchedulerJob", state="running", latest_heartbeat=heard_at)  # type: ignore[no-untyped-call]
    with create_session() as session:
        session.add(job)
        session.flush()
        job_id = job.id
    try:
        assert "Airflow's scheduler has not reported since 2026-01-05 07:30:00 UTC: no run starts" in " ".join(silent())
    finally:
        with create_session() as session:
            session.delete(session.get(Job, job_id))


def test_the_overview_filters_by_name_and_status(client: Client, lake: Lake) -> None:
    viewer = client()
    gold = [table for table in declared() if "gold" in table]
    assert f"{len(gold)} of {len(declared())} flows" in text(viewer.get("/tidegate/?q=GOLD").text)
    filtered = text(viewer.get("/tidegate/?state=unreachable").text)
    assert f"{len(unreachable())} of {len(declared())} flows" in filtered
    assert all(table in filtered for table in unreachable())
    assert "No flow matches" in text(viewer.get("/tidegate/?q=nothing").text)


def test_the_page_of_a_flow_shows_batches_verdicts_checkpoints_and_quarantine(client: Client, lake: Lake) -> None:
    lake.begin("flights")
    lake.verdict("silver", 0, "split")
    lake.batch(
        "flights", "silver", 0, read=100, written=88, quarantined=4, superseded=3, filtered={"test_row": 5},
        rules={"required(origin)": 4}, target_version=7, seconds=2.5,
    )  # fmt: skip
    lake.verdict("silver", 1, "refused", ("in_set(origin)",))
    lake.quarantine(4, "required(origin)")
    page = client().get("/tidegate/pipelines/flights/flows/silver").text
    page_text = text(page)
    assert "split 100 88 4 required(origin) 4 5 filtered by test_row; 3 superseded 7 2.5 s" in page_text
    assert "refused in_set(origin) Nothing was written: the batch waits" in page_text
    assert "required(origin) row open 4" in page_text
    assert re.search(r"v1 in use \d{4}-\d\d-\d\d 1 ", page_text), page_text
    assert "No schema changes are recorded." in page_text
    assert 'href="/tidegate/pipelines/flights/flows/silver/v1-0-batch-0"' in page
    assert "a secret" not in page


def test_the_page_of_a_flow_links_the_page_of_a_batch_that_its_frozen_contract_refused(
    client: Client, lake: Lake
) -> None:
    write_refused_schema_change(lake.layout, registry.load("flights"), "silver", "0a1b2c3d4e5f", batch_id=3)
    samples.change(
        lake.layout, batch_id=3, event="refused", decision="freeze", schema_change_id="0a1b2c3d4e5f", field="gate"
    )
    viewer = client()
    page = viewer.get("/tidegate/pipelines/flights/flows/silver").text
    assert "batch 3 was refused by its frozen contract; schema change 0a1b2c3d4e5f needs an answer" in text(page)
    address = "/tidegate/pipelines/flights/flows/silver/v1-0-batch-3"
    assert f'href="{address}">Page of the refused batch 3' in page
    assert "tidegate contract answer flights 0a1b2c3d4e5f evolve" in text(viewer.get(address).text)


def test_a_refused_batch_that_passed_later_has_one_line(client: Client, lake: Lake) -> None:
    lake.verdict("silver", 0, "refused", ("in_set(origin)",))
    lake.verdict("silver", 0, "passed")
    lake.batch("flights", "silver", 0, read=10, written=10)
    page_text = text(client().get("/tidegate/pipelines/flights/flows/silver").text)
    assert "passed 10 10" in page_text
    assert "refused" not in page_text


def test_a_refused_backfill_with_the_number_of_a_batch_has_a_line_of_its_own(client: Client, lake: Lake) -> None:
    ada = {"mode": "backfill", "requested_by": "ada"}
    lake.verdict("silver", 0, "passed")
    lake.batch("flights", "silver", 0, read=10, written=10)
    lake.verdict("silver", 0, "refused", ("in_set(origin)",), purpose="window", request=ada)
    page_text = text(client().get("/tidegate/pipelines/flights/flows/silver").text)
    assert re.search(r"\b0 v1 \d+ (?:s|min) ago passed 10 10", page_text), page_text
    assert re.search(
        r"backfill 0 v1 \d+ (?:s|min) ago refused in_set\(origin\) Nothing was written: the table is unchanged.* backfill by ada",
        page_text,
    ), page_text


def test_the_overview_counts_batches_and_no_backfills(client: Client, lake: Lake) -> None:
    ada = {"mode": "backfill", "requested_by": "ada"}
    lake.batch("flights", "silver", 0, read=120, written=120)
    lake.batch("flights", "silver", 7, purpose="window", request=ada, kind="backfill", read=900, written=900)
    page_text = text(client().get("/tidegate/").text)
    assert re.search(
        r"silver silver.flights not begun \d+ (?:s|min) ago ingested \d+ (?:s|min) ago nothing 0 120 0 0", page_text
    ), page_text
    assert "The last 1 batch, " in page_text
    page_text = text(client().get("/tidegate/pipelines/flights/flows/silver").text)
    assert re.search(r"backfill 7 v1 \d+ (?:s|min) ago backfill 7 900 900 .* backfill by ada", page_text), page_text


def test_a_quarantine_decision_is_shown_with_its_author_and_without_its_reason(client: Client, lake: Lake) -> None:
    lake.quarantine(3, "required(origin)")
    decision.waive(FlowPlace(lake.layout, "flights", "silver"), Selection(), by="ada", reason="the airport's own test")
    page_text = text(client().get("/tidegate/pipelines/flights/flows/silver").text)
    assert re.search(
        r"waive \d+ (?:s|min) ago waive 3 0 0 required\(origin\) 3 3 closed \S+ 0(\.0)? m?s waive by ada", page_text
    ), page_text
    assert "own test" not in page_text
    assert "never" in text(client().get("/tidegate/?q=silver.flights").text), "it is no batch"


def test_an_accepted_gap_is_shown_with_its_author_and_without_its_reason(client: Client, lake: Lake) -> None:
    gap.accept(
        FlowPlace(lake.layout, "clickstream", "bronze"),
        "clicks",
        "an id",
        {0: (10, 14)},
        by="ada",
        reason="they were tests",
    )
    ledger.record_gaps(FlowPlace(lake.layout, "clickstream", "bronze"))
    page_text = text(client().get("/tidegate/pipelines/clickstream/flows/bronze").text)
    assert re.search(
        r"gap \d+ (?:s|min) ago gap 5 0 0 5 filtered by gap\(clicks 0:10-14\); .* gap by ada", page_text
    ), page_text
    assert "were tests" not in page_text
    assert "never" in text(client().get("/tidegate/?q=bronze.clicks").text), "it is no batch"


def test_batches_are_paginated(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.pages.content.PER_PAGE", 2)
    for number in range(5):
        lake.batch("flights", "bronze", number, read=1000 + number, written=1000 + number)
    viewer = client()
    pages = [text(viewer.get(f"/tidegate/pipelines/flights/flows/bronze?page={page}").text) for page in (1, 2, 3)]
    assert [re.findall(r"written (1,00\d)", page.partition("Outcome Read")[2]) for page in pages] == [
        ["1,004", "1,003"],
        ["1,002", "1,001"],
        ["1,000"],
    ]
    assert ["Older" in page for page in pages] == [True, True, False]


def test_the_next_request_reads_only_new_files(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.ops.table_cache import TableCache

    opened: list[int] = []
    refresh = TableCache.refresh

    def counting(self: TableCache, kind: str, pipeline: str, path: object) -> int:
        opened.append(refresh(self, kind, pipeline, path))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(TableCache, "refresh", counting)
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


def test_a_refused_backfill_is_on_the_pages_of_its_flow_and_of_its_run(client: Client, lake: Lake) -> None:
    loss = Impact(before=355, after=0, deleted=355, changed=0, added=0, read=427, quarantined=427)
    flights = registry.load("flights")
    silver = flights.flow("silver")
    place = places.current(lake.layout, flights, silver)
    what = "backfill 3 of 2013-01-01"
    judged = JudgedRewrite(what=what, app_id=place.windows_app_id, impact=loss, reasons=(loss.phrase("deleted"),))
    rewrite.record(place, judged)
    report = FlowReport(
        flow="silver",
        target=silver.target.name,
        checkpoint_version=1,
        state="refused",
        impact=loss,
        error=ErrorReport(kind="RewriteRefusedError", message=what, transient=False, exit_code=EX_DATAERR),
    )
    lake.report("manual__1", "a1", flows=[report])

    assert f"{what} was refused on" in text(client().get("/tidegate/pipelines/flights/flows/silver").text)
    assert loss.summary() in text(client().get("/tidegate/pipelines/flights/runs/manual__1").text)


def test_the_page_of_a_run_shows_its_attempts_and_links_to_spark(client: Client, lake: Lake) -> None:
    run_id = "scheduled__2026-01-05T00:00:00+00:00"
    lake.report(run_id, "a1", error=ErrorReport.of(WriteConflictError("a concurrent commit conflicts")))
    lake.report(run_id, "a2", application="app-1")
    lake.batch("flights", "bronze", 3, run_id=run_id, read=12, written=12)
    lake.batch("flights", "bronze", 4, run_id="another", read=99, written=99)
    page = client().get(f"/tidegate/pipelines/flights/runs/{run_id.replace('+', '%2B')}").text
    page_text = text(page)
    assert (
        page_text.index("Attempt 2 of 2")
        < page_text.index("Attempt 1 of 2")
        < page_text.index("a concurrent commit conflicts")
    )
    assert 'href="http://127.0.0.1:18080/history/app-1/jobs/"' in page
    assert "12 12" in page_text
    assert "99 99" not in page_text
    assert "This run started no application" in text(client().get("/tidegate/pipelines/flights/runs/manual__2").text)


def test_an_unreadable_report_does_not_break_the_page_of_a_run(client: Client, lake: Lake) -> None:
    lake.report("manual__1")
    [torn] = Path(PipelinePlace(lake.layout, "flights").reports).glob("*/a1/report.json")
    torn.write_text('{"format": 1, "flo')
    answer = client().get("/tidegate/pipelines/flights/runs/manual__1")
    assert answer.status_code == 200
    assert "There is no report" in answer.text


def test_tabs_of_tasks_show_the_flow_or_the_pipeline(client: Client, lake: Lake) -> None:
    viewer = client()
    assert "Flow status" in viewer.get("/tidegate/pipelines/flights/tasks/silver").text
    assert "Newest batches" in viewer.get("/tidegate/pipelines/flights/tasks/plan").text
    assert "silver in this run" in viewer.get("/tidegate/pipelines/flights/runs/manual__1/tasks/silver").text
    assert "<h1>Run</h1>" in viewer.get("/tidegate/pipelines/flights/runs/manual__1/tasks/run").text


def test_the_navigation_entry_and_each_tab_open_their_page(client: Client, lake: Lake) -> None:
    from tidegate.airflow.plugin import TidegatePlugin

    contents = {
        "nav": f"Flows {len(declared())}",
        "dag": "Newest batches",
        "task": "Flow status",
        "dag_run": "This run started no application",
        "task_instance": "silver in this run",
    }
    views = {view["destination"]: view for view in TidegatePlugin.external_views}
    assert views.keys() == contents.keys()
    assert len({view["url_route"] for view in views.values()}) == len(contents)
    viewer = client()
    for destination, view in views.items():
        address = view["href"].format(DAG_ID="flights", RUN_ID="manual__1", TASK_ID="silver")
        assert contents[destination] in text(viewer.get(address).text), destination
        assert viewer.get(view["icon"]).status_code == viewer.get(view["icon_dark_mode"]).status_code == 200


def test_the_tab_of_another_dag_says_that_it_is_not_a_pipeline(client: Client, lake: Lake) -> None:
    for path in ("", "/tasks/one", "/runs/manual__1", "/runs/manual__1/tasks/one"):
        answer = client().get(f"/tidegate/pipelines/other_dag{path}")
        assert answer.status_code == 200
        assert "other_dag is not a Tidegate pipeline" in text(answer.text)


def test_schema_changes_and_alerts_are_shown_for_their_flow(client: Client, lake: Lake) -> None:
    moment = datetime(2026, 1, 5, tzinfo=UTC)
    samples.change(lake.layout, field="gate")
    samples.change(lake.layout, flow="gold", field="other")
    events: list[tuple[str, str, EventKind]] = [
        ("silver", "lag", "opened"),
        ("silver", "long_batch", "opened"),
        ("silver", "slow", "opened"),
        ("silver", "slow", "resolved"),
    ]
    for flow, rule, kind in events:
        event = Event(flow=flow, rule=rule, opened_at=moment, kind=kind, recorded_at=moment, message=f"too much {rule}")
        alert_history.append(PipelinePlace(lake.layout, "flights"), [event])
    viewer = client()
    flow = text(viewer.get("/tidegate/pipelines/flights/flows/silver").text)
    assert re.search(
        r"Recorded Batch Field Kind After Event Decision [-\d]+ [:\d]+ 1 gate addition STRING observed rescue", flow
    )
    assert "other" not in flow.split("Schema history")[1]
    assert (
        "Flow Rule Opened Resolved Message silver long_batch 2026-01-05 00:00:00 open too much long_batch silver"
        in flow
    )
    assert "silver lag 2026-01-05 00:00:00 now too much lag" in flow, "its cause is gone"
    assert "too much lag" not in text(viewer.get("/tidegate/pipelines/flights/flows/gold").text)


def test_each_row_shows_its_open_alerts_and_the_tile_counts_all(client: Client, lake: Lake) -> None:
    moment = datetime(2026, 1, 5, tzinfo=UTC)
    events: list[tuple[str, str, str, EventKind]] = [
        ("flights", "silver", "long_batch", "opened"),
        ("flights", "silver", "lag", "opened"),
        ("flights", "silver", "slow", "opened"),
        ("flights", "gold", "long", "opened"),
        ("flights", "gold", "long", "resolved"),
        ("clickstream", "bronze", "unreadable", "opened"),
    ]
    for pipeline, flow, rule, kind in events:
        event = Event(flow=flow, rule=rule, opened_at=moment, kind=kind, recorded_at=moment, message="an example")
        alert_history.append(PipelinePlace(lake.layout, pipeline), [event])
    viewer = client()
    page = viewer.get("/tidegate/").text
    page_text = text(page)
    assert "Open alerts 3" in page_text
    assert "not begun alerts: long_batch, slow" in page_text
    assert re.findall(r"alerts?: [a-z_]+", page_text) == ["alert: unreadable", "alerts: long_batch"], (
        "no open alert of gold, and none whose cause is gone"
    )
    assert 'href="/tidegate/pipelines/flights/flows/silver#alerts"' in page
    assert "Open alerts 3" in text(viewer.get("/tidegate/?q=gold").text), "the tile also counts alerts of hidden rows"
    assert "alerts: long_batch, slow" in text(viewer.get("/tidegate/pipelines/flights").text)


def test_a_row_shows_the_age_of_its_data(client: Client, lake: Lake) -> None:
    day = (datetime.now(UTC) - timedelta(days=3)).date()
    append(
        lake.layout.table("silver.flights"),
        [{"flight_id": "a", "day": day}, {"flight_id": "b", "day": date(2099, 1, 1)}],
    )
    append(lake.layout.table("bronze.flights"), [{"_ingested_at": datetime.now(UTC) - timedelta(hours=5)}])
    page_text = text(client().get("/tidegate/").text)
    assert re.search(r"silver silver.flights [a-z ]+ 3 d( \d+ h)? ago event never", page_text), page_text
    assert re.search(r"bronze bronze.flights [a-z ]+ 5 h ago ingested never", page_text), page_text
    assert re.search(r"gold gold.daily_delay [a-z ]+ \S never", page_text), page_text


def test_a_table_of_a_list_that_is_not_valid_has_a_row_with_its_error(
    client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pipelines.flights

    message = "pipelines/flights.csv line 3, table 'tills': keys is missing"
    invalid = InvalidTable(name="tills", where="pipelines/flights.csv line 3", problem=message, advice=None)
    listed = dataclasses.replace(registry.reload("flights"), invalid_tables=(invalid,))
    monkeypatch.setattr(pipelines.flights, "pipeline", listed)

    for address in ("/tidegate/", "/tidegate/pipelines/flights"):
        page_text = text(client().get(address).text)
        assert message in page_text
        assert "bronze bronze.flights" in page_text


def test_flows_that_are_switched_off_can_be_filtered(client: Client, lake: Lake) -> None:
    overrides.switch(FlowPlace(lake.layout, "flights", "gold"), on=False, by="ada", reason="wrong numbers")
    viewer = client()
    assert ">off (1)</option>" in viewer.get("/tidegate/").text
    filtered = text(viewer.get("/tidegate/?state=off").text)
    assert f"1 of {len(declared())} flows" in filtered
    assert "gold.daily_delay off" in filtered


def test_all_values_are_escaped(client: Client, lake: Lake) -> None:
    script = "<script>alert(1)</script>"
    lake.batch("flights", "silver", 0, read=1, quarantined=1, rules={script: 1})
    lake.verdict("silver", 0, "split", (script,))
    lake.quarantine(1, script)
    lake.report("manual__1", error=ErrorReport(kind=script, message=script, transient=False, exit_code=70))
    viewer = client()
    paths = (
        f"/?q={script}",
        "/pipelines/flights",
        "/pipelines/flights/flows/silver",
        "/pipelines/flights/runs/manual__1",
    )
    for path in (*paths, f"/pipelines/flights/runs/{script.replace('/', '')}", "/pipelines/<script>alert(1)"):
        answer = viewer.get(f"/tidegate{path}")
        assert answer.status_code == 200
        assert "<script>" not in answer.text
        assert "&lt;script&gt;" in answer.text
    assert viewer.get("/tidegate/pipelines/flights/flows/<script>").status_code == 404
