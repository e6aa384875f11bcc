"""Every surface says the same about a flow, in every state: the states are made of real files of a lake.

`CASES` makes a lake for each state of `tidegate.states.STATES`; `SURFACES` reads what each surface shows of it. The page in a
real Airflow is checked in `tests/airflow/pages`, and the texts of its tasks in `tests/airflow/test_tasks.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tests import places
from tests.cli.project import Checkpoint, Project, append, orders
from tests.pages import samples
from tests.spark_files import delta_offset, write_refused_schema_change
from tests.waiting import TIMEOUT_SECONDS
from tests.with_fields import with_fields
from tidegate.airflow.pages.views import NEEDS_PERSON, Views
from tidegate.alerting.episodes import Event
from tidegate.checkpoints import checkpoint, history, overrides, refusal, rewrite
from tidegate.checkpoints.overrides import OVERRIDES
from tidegate.checkpoints.rewrite import JudgedRewrite
from tidegate.cli import lag as cli_lag
from tidegate.cli import plan as cli_plan
from tidegate.cli import status as cli_status
from tidegate.cli.project import readings as flow_readings
from tidegate.errors import SourceUnavailableError
from tidegate.errors.refusals import GateRefusal, HeldBatch
from tidegate.lake.place import AttemptPlace, FlowPlace, PipelinePlace, Place
from tidegate.ops import alert_history
from tidegate.pages import render, site
from tidegate.probes import delta_history, delta_log
from tidegate.project import fingerprints, resolution
from tidegate.reports.impact import Impact
from tidegate.reports.report import ErrorReport, FlowReport, RunReport
from tidegate.requests.request import RunRequest
from tidegate.spec import FileSource, Intervals, Pipeline
from tidegate.states import STATES, FlowState, status_of
from tidegate.status import evaluation, flow_status, status_cache
from tidegate.status.plan import decide
from tidegate.store import Address

pytestmark = pytest.mark.airflow

ORDERS = orders()
SILVER = ORDERS.flow("silver")
SILVER_V2 = orders(version=2).flow("silver")

SHORT = 0.5
"""Patience of a reading that does not end by itself."""
Case = tuple[str, str, str]
"""The pipeline and the flow that is in the state, and a part of what is said about it."""
CASES: dict[str, Callable[[Project], Iterator[Case]]] = {}


def case(build: Callable[[Project], Iterator[Case]]) -> Callable[[Project], Iterator[Case]]:
    """Registers the lake of a state, by the name of the function."""
    CASES[build.__name__.replace("_", " ")] = build
    return build


def caught_up(project: Project) -> None:
    """All flows of orders have read everything."""
    project.declare(ORDERS)
    read = project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    project.checkpoint(ORDERS, ORDERS.flow("bronze")).listed(0, read).plan(0, {"logOffset": 0}).commit(0)
    above = project.table("bronze.orders", [{"line": "A-1,1.0"}])
    for name in ("silver", "gold"):
        own = project.checkpoint(ORDERS, ORDERS.flow(name))
        own.plan(0, delta_offset(1, table_id=above)).commit(0)
        above = project.table(f"{name}.orders", [{"order_id": "A-1"}])


def pending(project: Project, flow: str = "silver") -> Checkpoint:
    """A second batch of a flow is planned; its source has it."""
    project.table("bronze.orders", [{"line": "A-2,2.0"}])
    table_id = append(project.layout.table("bronze.orders"), [{"line": "A-3,3.0"}])
    return Checkpoint(Path(Place(project.layout, "orders", flow, 1, 0).checkpoint)).plan(
        1, delta_offset(3, table_id=table_id)
    )


def ended(project: Project, hours_ago: float, *, final: bool = True, **states: Any) -> str:
    """A run with one attempt that ended then, as a job reports it; returns its id."""
    at = datetime.now(UTC) - timedelta(hours=hours_ago)
    stamp = f"{at:%Y%m%dT%H%M%S}"
    request = RunRequest(dag_id="orders", run_id=f"manual__{stamp}", request_id=f"q{stamp}-0")
    request.write(project.layout)
    error = ErrorReport.of(SourceUnavailableError("no broker answers"))
    flows = [
        FlowReport(
            flow=name,
            target=f"{name}.orders",
            checkpoint_version=1,
            state=state,
            error=error if state == "failed" else None,
        )
        for name, state in states.items()
    ]
    path = AttemptPlace(project.layout, "orders", request.run_key, f"a{stamp}-0").report
    end = at.isoformat() if final else None
    RunReport(
        dag_id="orders",
        run_key=request.run_key,
        attempt=f"a{stamp}-0",
        started_at=at.isoformat(),
        ended_at=end,
        flows=flows,
    ).write(path)
    for each in (path, path.parent, path.parent.parent):
        os.utime(each, (at.timestamp(), at.timestamp()))
    return request.run_id


@case
def off(project: Project) -> Iterator[Case]:
    caught_up(project)
    pending(project)
    overrides.switch(FlowPlace(project.layout, "orders", "silver"), on=False, by="ada", reason="wrong numbers")
    yield "orders", "silver", "switched off by ada"


@case
def unreachable(project: Project) -> Iterator[Case]:
    project.declare(orders(topic="clicks"))
    yield "clicks", "bronze", "no Kafka broker answers at 127.0.0.1:9"


@case
def not_read(project: Project) -> Iterator[Case]:
    """A file that is read first does not come."""
    caught_up(project)
    path = OVERRIDES.path(FlowPlace(project.layout, "orders", "silver"))
    Path(path.parent).mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    yield "orders", "silver", f"its source did not answer within {SHORT:g} s"
    # The threads that wait end.
    Path(path).write_bytes(b"")


@case
def in_doubt(project: Project) -> Iterator[Case]:
    """The newest commit of its table is another one than the checkpoint knows."""
    caught_up(project)
    table = project.layout.table("silver.orders")
    known = {table.key: delta_history.position(table, 0)}
    place = places.current(project.layout, ORDERS, ORDERS.flow("silver"))
    history.write(place, batch=0, positions=known)
    entry = delta_log.entry(table, 0)
    entry.put(entry.read().data + b"\n")
    yield "orders", "silver", "version 0 is another commit than it was"


@case
def error(project: Project) -> Iterator[Case]:
    project.declare(ORDERS)
    (project.folder / "landing/orders").write_text("a file in place of the folder")
    yield "orders", "bronze", "is a file, not a folder"


@case
def running(project: Project) -> Iterator[Case]:
    caught_up(project)
    pending(project)
    with lease_taken(project, "checkpoint:orders/silver"):
        yield "orders", "silver", "held by process"


@contextmanager
def lease_taken(project: Project, resource: str) -> Iterator[None]:
    """Another process holds a lease."""
    lock = project.layout.lease(resource)
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    hold = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.stdin.write("\n")
        holder.stdin.close()


@case
def contract_refused(project: Project) -> Iterator[Case]:
    """Its first batch, so that its table does not exist."""
    project.declare(ORDERS)
    read = project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    project.checkpoint(ORDERS, ORDERS.flow("bronze")).listed(0, read).plan(0, {"logOffset": 0}).commit(0)
    project.table("bronze.orders", [{"line": "A-1,1.0"}])
    checkpoint.write_sidecar(places.of(project.layout, ORDERS, SILVER), SILVER)
    write_refused_schema_change(project.layout, ORDERS, "silver", "0a1b2c3d4e5f")
    yield "orders", "silver", "batch 0 was refused by its frozen contract; schema change 0a1b2c3d4e5f needs an answer"


@case
def refused(project: Project) -> Iterator[Case]:
    caught_up(project)
    pending(project)
    refuse(project)
    yield "orders", "silver", "batch 1 was refused by orders/silver"


def refuse(project: Project) -> None:
    """The gate refused silver's pending batch."""
    by_gate = GateRefusal(
        batch_id=1,
        suite_fingerprint=fingerprints.suite_fingerprint(project.folder / "expectations/orders/silver.json"),
        code_fingerprint=fingerprints.code_fingerprint(project.folder / "spark_jobs/orders.py"),
    )
    refusal.record(places.current(project.layout, ORDERS, SILVER), by_gate)


@case
def on_hold(project: Project) -> Iterator[Case]:
    caught_up(project)
    pending(project)
    by_statistic = HeldBatch(
        batch_id=1,
        statistics_fingerprint=fingerprints.fingerprint({}),
        code_fingerprint=fingerprints.code_fingerprint(project.folder / "spark_jobs/orders.py"),
    )
    refusal.record(places.current(project.layout, ORDERS, SILVER), by_statistic)
    yield "orders", "silver", "batch 1 is held, because a statistic of it breaks its rule"


@case
def rewrite_refused(project: Project) -> Iterator[Case]:
    for _ in refresh_pending(project):
        loss = Impact(before=9, after=0, deleted=9, changed=0, added=0, read=9, quarantined=0)
        place = places.current(project.layout, orders(version=2), SILVER_V2)
        refusal_of_swap = JudgedRewrite(
            what="swap of v2/0", app_id=place.app_id, impact=loss, reasons=(loss.phrase("deleted"),)
        )
        rewrite.record(place, refusal_of_swap)
        yield "orders", "silver", "it would delete 9 of 9 rows (100.0%)"


@case
def crashed(project: Project) -> Iterator[Case]:
    """A batch was planned; the table does not have it."""
    caught_up(project)
    pending(project)
    ended(project, 2, final=False, bronze="done", silver="running", gold="waiting")
    yield "orders", "silver", "the last run crashed: it left no final report"


@case
def failed(project: Project) -> Iterator[Case]:
    caught_up(project)
    pending(project)
    ended(project, 17, bronze="idle", silver="done", gold="done")
    for hours in range(16, 0, -1):
        ended(project, hours, bronze="idle", silver="failed", gold="skipped")
    yield "orders", "silver", "16 runs in a row failed; the last run failed: no broker answers (reports/orders/"


@case
def waits(project: Project) -> Iterator[Case]:
    """It has read all of its source, and a flow above it is refused."""
    caught_up(project)
    pending(project)
    refuse(project)
    yield "orders", "gold", "waits for silver: refused"


@case
def written(project: Project) -> Iterator[Case]:
    """The job ended after the write of the table and before the ledger line."""
    from deltalake import CommitProperties, Transaction, write_deltalake

    caught_up(project)
    pending(project)
    import pyarrow

    write_deltalake(
        str(project.layout.table("silver.orders")),
        pyarrow.Table.from_pylist([{"order_id": "A-2"}]),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction("orders/silver/v1/0", 1)]),
    )
    yield "orders", "silver", "batch 1 is written and not recorded yet; its next run records it"


@case
def refresh_pending(project: Project) -> Iterator[Case]:
    caught_up(project)
    refreshed = project.declare(orders(version=2))
    table_id = append(project.layout.table("bronze.orders"), [{"line": "A-2,2.0"}])
    project.checkpoint(refreshed, refreshed.flow("silver")).plan(0, delta_offset(2, table_id=table_id)).commit(0)
    append(Place(project.layout, "orders", "silver", 2, 0).staging, [{"order_id": "A-1"}])
    yield "orders", "silver", "a full refresh waits to be swapped in"


@case
def unfinished(project: Project) -> Iterator[Case]:
    caught_up(project)
    pending(project)
    yield "orders", "silver", "batch 1 was planned and not committed"


@case
def behind(project: Project) -> Iterator[Case]:
    caught_up(project)
    project.land("1.csv", "order_id,amount\nA-2,2.0\n")
    yield "orders", "bronze", "1 new file in orders"


@case
def not_begun(project: Project) -> Iterator[Case]:
    project.declare(ORDERS)
    (project.folder / "landing/orders").mkdir()
    yield "orders", "bronze", "nothing new in orders"


@case
def up_to_date(project: Project) -> Iterator[Case]:
    caught_up(project)
    yield "orders", "silver", "nothing new in bronze.orders"


def test_there_is_a_lake_for_every_state() -> None:
    assert list(CASES) == list(STATES), "in the same order"


# What each surface shows of a flow, as text.


def command(surface: Callable[..., None], capsys: pytest.CaptureFixture[str], **arguments: Any) -> str:
    """The output of a command in this process."""
    capsys.readouterr()
    with contextlib.suppress(typer.Exit):
        surface(**arguments)
    return capsys.readouterr().out


def visible(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def page(template: str, **values: Any) -> str:
    link = SimpleNamespace(
        style="", pipeline=lambda name: name, flow=lambda *parts: "/".join(map(str, parts)), batch=lambda *_, **__: None
    )
    return visible(render.page(template, link, airflow="", root="", address="", **values))


@pytest.fixture
def project(imported_project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name, value in imported_project.variables.items():
        monkeypatch.setenv(name, value)
    return imported_project


@pytest.mark.parametrize("name", CASES)
def test_all_surfaces_say_the_same_in_every_state(
    project: Project, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = SHORT if name == "not read" else TIMEOUT_SECONDS
    # On a machine that is busy with other tests, sources need longer to answer.
    for module in (flow_status, status_cache):
        monkeypatch.setattr(module, "PATIENCE", patience)
    cases = CASES[name](project)
    pipeline, flow, words = next(cases)
    statuses = {each.flow: each for each in flow_readings(project.environment, pipeline, patience)}
    status = status_of(statuses[flow])
    assert (status.name, status.state) == (name, STATES[name])
    assert words in status.sentence
    need_person = [each for each in statuses.values() if status_of(each).needs_person]
    assert (statuses[flow] in need_person) == (STATES[name].tone == "bad")
    sentence = " ".join(status.sentence.split())

    printed = command(cli_status.status, capsys, name=pipeline, as_json=False, timeout=patience)
    (row,) = [line for line in printed.splitlines() if line.startswith(f"{pipeline}/{flow} ")]
    assert f" {status.label} " in row
    explained = [line for line in printed.splitlines() if line.startswith(f"{pipeline}/{flow}: ")]
    assert [sentence.rstrip(".") in line for line in explained] == ([] if status.state.plain else [True])
    assert all(status.next_step in line for line in explained)

    printed = command(cli_lag.lag, capsys, name=pipeline, as_json=False, timeout=patience)
    (row,) = [line for line in printed.splitlines() if line.startswith(f"{pipeline}/{flow} ")]
    assert row.endswith(sentence)

    views = Views(project.environment)
    overview = views.overview({pipeline}, "", "")
    assert overview["need_person"] == len(need_person)
    shown = page("overview.html", **overview)
    assert f"Need a person {len(need_person)} " in shown
    assert f"{flow} {statuses[flow].target} {status.label} " in shown
    assert (sentence in shown) or status.state.plain
    filtered = views.overview({pipeline}, "", NEEDS_PERSON if need_person else status.name)
    rows = [row for group in overview["groups"] for row in group["rows"]]
    assert [row["flow"] for row in filtered["groups"][0]["rows"]] == [
        row["flow"] for row in rows if (row["state"].needs_person if need_person else row["state"].name == name)
    ]
    assert f"{flow} {statuses[flow].target} {status.label} " in page("pipeline.html", **views.pipeline(pipeline))
    shown = page("flow.html", **views.flow(pipeline, flow, 1))
    assert f"{flow} {status.label} " in shown
    assert sentence.rstrip(".")[1:] in shown
    assert status.next_step.replace("`", "") in shown.replace("`", "")

    folder = project.folder / "export"
    declared = resolution.load_all(project.environment.project)[pipeline]
    assert isinstance(declared, resolution.ResolvedPipeline)
    site.export(
        project.layout,
        declared.pipeline,
        Address.local(folder),
        statuses={flow: status_of(each) for flow, each in statuses.items()},
    )
    assert f"{flow} {statuses[flow].target} {status.label} " in visible((folder / "index.html").read_text())
    shown = visible((folder / flow / "index.html").read_text())
    assert f"{flow} {status.label} On " in shown and sentence.rstrip(".")[1:] in shown

    # A plan says what a run would do: whether a process holds the lease, or the last run failed, does not matter to it. It
    # waits for the lake.
    if name not in ("running", "crashed", "failed", "not read"):
        plan = decide(project.environment, declared, declared.pipeline.flows)
        capsys.readouterr()
        cli_plan.print_plan(plan.readings)
        (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{flow} ")]
        assert row.endswith(sentence)

    (evaluated,) = evaluation.evaluate_pipelines(
        project.environment, [(pipeline, declared)], datetime.now(UTC), patience
    )
    alerts = {each.rule: each.message for own in evaluated.findings if own.flow == flow for each in own.alerts}
    rules = {
        "unreachable": "unreadable",
        "error": "unreadable",
        "in doubt": "unreadable",
        "contract refused": "refused",
        "on hold": "refused",
        "rewrite refused": "refused_rewrite",
        "crashed": "failed",
    }
    if status.state.needs_person:
        message = alerts[rules.get(name, name)]
        ends = statuses[flow].ends
        cause = ends.sentence if name == "crashed" and ends else sentence
        assert message.startswith((cause or "").rstrip("."))
        # Of a table in doubt, the error itself says what derives it again.
        assert name in ("crashed", "in doubt") or status.next_step in message
    elif name != "not read":
        assert not {*rules.values(), "refused", "failed"} & alerts.keys()
    list(cases)


@pytest.mark.parametrize("name", [name for name, state in STATES.items() if state.tone == "bad"])
def test_no_flow_below_one_that_needs_a_person_is_up_to_date(project: Project, name: str) -> None:
    cases = CASES[name](project)
    _, flow, _ = next(cases)
    statuses = flow_status.gather(project.environment, declared(project), TIMEOUT_SECONDS)
    names = [each.flow for each in statuses]
    below = [status_of(each).label for each in statuses[names.index(flow) + 1 :]]
    # A flow that reads a table in doubt is in doubt itself.
    assert below and set(below) == {name if name == "in doubt" else f"waits for {flow}"}
    list(cases)


def declared(project: Project) -> list[tuple[str, Any]]:
    return list(resolution.load_all(project.environment.project).items())


def test_a_flow_of_another_pipeline_waits_too_unless_it_has_something_to_read(project: Project) -> None:
    cases = CASES["refused"](project)
    next(cases)
    (gold,) = (flow for flow in ORDERS.flows if flow.name == "gold")
    target = with_fields(gold.target, name="gold.other")
    other = project.declare(
        Pipeline(name="other", flows=(dataclasses.replace(gold, target=target, transform="other:totals"),))
    )

    def state() -> tuple[str, str]:
        (only,) = flow_readings(project.environment, "other", TIMEOUT_SECONDS)
        return status_of(only).label, status_of(only).sentence

    assert state()[0] == "behind"
    table_id = append(project.layout.table("silver.orders"), [{"order_id": "A-1"}])
    project.checkpoint(other, other.flows[0]).plan(0, delta_offset(2, table_id=table_id)).commit(0)
    assert state() == ("waits for orders/silver", "waits for orders/silver: refused")


def test_a_failed_increment_is_over_when_no_run_would_start(project: Project) -> None:
    caught_up(project)
    ended(project, 3, bronze="done", silver="done", gold="done")
    for hours in (2, 1):
        ended(project, hours, bronze="failed", silver="skipped", gold="skipped")

    def bronze() -> FlowState:
        read = flow_status.gather(project.environment, declared(project), TIMEOUT_SECONDS)
        return next(status_of(each) for each in read if each.flow == "bronze")

    assert bronze().name == "up to date", "the source was away, and has nothing new"
    file = project.land("1.csv", "order_id,amount\nA-2,2.0\n")
    assert bronze().name == "failed"
    file.unlink()
    (project.folder / "landing/orders/0.csv").unlink()
    (project.folder / "landing/orders").rmdir()
    (project.folder / "landing/orders").write_text("a file in place of the folder")
    assert bronze().name == "error" and bronze().sentence.endswith("; 2 runs in a row failed")


@pytest.mark.parametrize("name", ["refused", "on hold"])
def test_a_flow_whose_batches_cannot_go_to_quarantine_is_not_told_to_send_one(project: Project, name: str) -> None:
    caught_up(project)
    flows = {each.flow: each for each in flow_readings(project.environment, "orders", TIMEOUT_SECONDS)}
    steps = [dataclasses.replace(status_of(flows[flow]), name=name).next_step for flow in ("silver", "gold")]
    assert ["quarantine take" in step for step in steps] == [True, False]
    assert "correct" in steps[1]


def test_an_open_alert_makes_its_flow_one_that_needs_a_person(project: Project) -> None:
    caught_up(project)
    at = datetime.now(UTC)
    for rule in ("lag", "slow"):
        opened = Event(flow="silver", rule=rule, opened_at=at, kind="opened", recorded_at=at, message="too much")
        alert_history.append(PipelinePlace(project.layout, "orders"), [opened])
    overview = Views(project.environment).overview({"orders"}, "", "")
    assert (overview["need_person"], overview["alerts"]) == (1, 1)
    flows = {each.flow: each for each in flow_readings(project.environment, "orders", TIMEOUT_SECONDS)}
    assert [name for name, each in flows.items() if status_of(each).needs_person] == ["silver"]
    assert flow_status.to_json(flows["silver"])["alerts"] == ["slow"], (
        "nothing waits any more; the speed of the last run is unknown"
    )


def test_the_alerts_of_a_pipeline_that_does_not_load_need_a_person_once(project: Project) -> None:
    (project.folder / "pipelines/broken.py").write_text("pipeline = (")
    at = datetime.now(UTC)
    for flow in ("", "silver"):
        opened = Event(
            flow=flow, rule="unreadable", opened_at=at, kind="opened", recorded_at=at, message="it does not load"
        )
        alert_history.append(PipelinePlace(project.layout, "broken"), [opened])
    overview = Views(project.environment).overview({"broken"}, "", "")
    assert (overview["need_person"], overview["alerts"]) == (1, 2)


def test_an_old_reading_is_shown_with_a_warning(project: Project) -> None:
    caught_up(project)
    views = Views(project.environment)
    assert "they may have changed since" not in page("overview.html", **views.overview({"orders"}, "", ""))
    statuses = views._statuses.statuses()
    minutes_ago = dataclasses.replace(statuses, at=statuses.at - 420)
    views._statuses.statuses = lambda: minutes_ago  # type: ignore[method-assign]
    for template, values in (
        ("overview.html", views.overview({"orders"}, "", "")),
        ("pipeline.html", views.pipeline("orders")),
        ("flow.html", views.flow("orders", "silver", 1)),
    ):
        assert "The statuses on this page were read 7 min ago : they may have changed since." in page(
            template, **values
        )


def test_a_judged_batch_without_a_ledger_line_is_not_said_to_be_refused(project: Project) -> None:
    project.copy_of_real("flights")
    judged = samples.batch(3, outcome="split")
    samples.fill(project.layout, samples.batch(2), dataclasses.replace(judged, record=None))
    views = Views(project.environment)
    shown = page("flow.html", **views.flow("flights", "silver", 1))
    assert "pending" in shown and "Nothing was written" not in shown
    assert "Judged and not recorded yet: a run is writing it, or the next run completes it." in shown
    batch = page("batch.html", **views.batch("flights", "silver", "v1-0-batch-3"))
    assert "Judged and not recorded yet" in batch and "A critical expectation" not in batch


@pytest.mark.parametrize(
    ("minutes", "states", "words"),
    [
        (5, {"bronze": "done", "silver": "running"}, "it was stopped, or it crashed"),
        (5, {"bronze": "waiting"}, "it is starting, between two flows, or was stopped"),
        (20, {"bronze": "waiting"}, "it was stopped, or it crashed"),
    ],
)
def test_the_page_of_a_run_says_what_is_known_about_an_attempt_without_an_end(
    project: Project, minutes: int, states: dict[str, Any], words: str
) -> None:
    caught_up(project)
    run_id = ended(project, minutes / 60, final=False, **states)
    shown = page("run.html", **views_of_run(project, run_id))
    assert words in shown and "not ended yet" not in shown
    assert ("crashed" in shown.partition("Quarantined by rule")[2]) == ("running" in states.values())


def test_the_page_of_a_run_says_that_an_attempt_with_a_lease_is_running(project: Project) -> None:
    caught_up(project)
    run_id = ended(project, 2, final=False, bronze="done", silver="running")
    (attempt,) = views_of_run(project, run_id)["attempts"]
    resource = "checkpoint:orders/silver"
    with lease_taken(project, resource):
        from tidegate.checkpoints import lease

        pid = re.search(r"process (\d+)", lease.holder(project.layout, resource) or "")
        assert pid is not None
        lease.write_owner(project.layout, resource, what=f"attempt {attempt.id} of orders", pid=int(pid[1]))
        assert "it is running and holds a lease" in page("run.html", **views_of_run(project, run_id))


def views_of_run(project: Project, run_id: str) -> dict[str, Any]:
    return Views(project.environment).run("orders", run_id)


def test_every_surface_says_which_days_are_complete(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    bronze = ORDERS.flow("bronze")
    assert isinstance(bronze.source, FileSource)
    days = Intervals("%Y-%m-%d", marker="%Y-%m-%d.done")
    own = dataclasses.replace(bronze, source=dataclasses.replace(bronze.source, intervals=days))
    declared = project.declare(dataclasses.replace(ORDERS, flows=(own, *ORDERS.flows[1:])))
    read = [project.land(f"2026-01-0{day}.csv", "order_id,amount\nA-1,1.0\n") for day in (1, 3)]
    project.checkpoint(declared, own).listed(0, *read).plan(0, {"logOffset": 0}).commit(0)
    (read[0].parent / "2026-01-01.done").touch()
    summary = "1 of 3 days complete, missing: 2026-01-02, incomplete: 2026-01-03 (no 2026-01-03.done)"

    printed = command(cli_status.status, capsys, name="orders", as_json=False, timeout=TIMEOUT_SECONDS)
    assert f"orders/bronze: {summary}\n" in printed
    printed = command(cli_lag.lag, capsys, name="orders", as_json=False, timeout=TIMEOUT_SECONDS)
    assert f"nothing new in orders; {summary}" in printed
    printed = command(cli_status.status, capsys, name="orders", as_json=True, timeout=TIMEOUT_SECONDS)
    intervals = json.loads(printed)["flows"][0]["completeness"]["intervals"]
    assert [(each["interval"], each["state"]) for each in intervals] == [
        ("2026-01-01", "complete"),
        ("2026-01-02", "missing"),
        ("2026-01-03", "incomplete"),
    ]

    shown = page("flow.html", **Views(project.environment).flow("orders", "bronze", 1))

    assert summary in shown
    assert "1 of 3 days are complete." in shown
    assert re.search("2026-01-03 incomplete 1 no 2026-01-03.done 2026-01-02 missing 0 . 2026-01-01 complete 1 ", shown)
    assert "Intervals" not in page("flow.html", **Views(project.environment).flow("orders", "silver", 1))
