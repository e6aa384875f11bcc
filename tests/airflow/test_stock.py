"""Runs, decisions and pages in a stock Airflow on PostgreSQL with the wheel alone (`tests.airflow.stock`).

DAG folder, home and cache are read-only to Airflow and its jobs (`tests.airflow.sealed`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from tests.airflow.stock import ROLES, StockDeployment
from tests.postgres import postgres
from tests.redis import redis
from tests.s3_server import S3Process
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.testing.lake import read

pytestmark = [pytest.mark.packages, pytest.mark.jvm, pytest.mark.airflow, pytest.mark.timeout(2400)]

GREEN = dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockDeployment]:
    with postgres() as database:
        made = StockDeployment(tmp_path_factory.mktemp("stock"), database.address)
        made.install()
        yield made


@pytest.fixture(scope="module")
def running() -> Iterator[ExitStack]:
    """What runs; a test that needs its port closes it."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def airflow(deployment: StockDeployment, running: ExitStack) -> None:
    running.enter_context(deployment.airflow())


def test_a_dag_run_of_a_thin_airflow_is_green_and_pages_are_open_to_op_and_viewer(
    deployment: StockDeployment, airflow: None
) -> None:
    before = deployment.files()
    for folder, is_writable in (("lake", True), ("shop/dags", False), ("home", False), ("cache", False)):
        tried = subprocess.run([*deployment.seal, "touch", deployment.folder / folder / "new"], check=False)
        assert (tried.returncode == 0) == is_writable or not deployment.seal, folder
        (deployment.folder / folder / "new").unlink(missing_ok=True)
    assert deployment.call("PATCH", "dags/orders", "viewer", {"is_paused": False}).status_code == 403
    assert deployment.call("PATCH", "dags/orders", "op", {"is_paused": False}).status_code == 200
    states = deployment.end(f"dags/orders/dagRuns/{quote(deployment.first_run())}")
    assert states == GREEN, states
    _expect_pages(deployment)
    assert {flow["state"] for flow in deployment.tidegate("status")["flows"]} == {"up to date"}
    assert deployment.open_entries() == 2
    assert deployment.files() == before


def test_a_refused_batch_a_replay_and_a_backfill_with_its_preview_are_done_by_op_in_a_thin_airflow(
    deployment: StockDeployment, airflow: None
) -> None:
    """After the first run, which has written the sample."""
    _expect_decisions(deployment, "B", "upper", str.upper)


def _expect_decisions(deployment: StockDeployment, letter: str, function: str, python: Callable[[str], str]) -> None:
    """A batch is refused, and written after Op has cleared its task; Op replays an entry, previews a backfill, and runs it.

    Args:
        letter: With which the orders of a new file begin, four without a customer and one with a negative amount.
        function: Of Spark, by which the transform changes names for the backfill; before it writes them in lower case.
        python: The same for Python.
    """
    before, landing = deployment.files(), deployment.folder / "landing/orders"
    entries, names = deployment.open_entries(), deployment.customers()
    (state,) = [each["state"] for each in deployment.tidegate("status")["flows"] if each["flow"] == "gold"]
    # All rows of the refused batch go to quarantine: gold reads only what an earlier backfill of silver alone has changed.
    gold = "skipped" if state == "up to date" else "success"
    files = suite, transform = (
        deployment.project / "expectations/orders/silver.json",
        deployment.project / "spark_jobs/orders.py",
    )
    texts = {file: file.read_text() for file in files}

    def edit(file: Path, text: str, by: str) -> None:
        assert text in file.read_text()
        file.write_text(file.read_text().replace(text, by))

    sample = next(landing.glob("*sample*.csv"))
    header = sample.read_text().splitlines()[0]
    lines = [f"{letter}-{number},2026-01-07T09:00:00Z,,1.00,2026-01-07T09:00:00Z" for number in range(4)]
    lines.append(f"{letter}-4,2026-01-07T09:00:00Z,Zoe,-1.00,2026-01-07T09:00:00Z")
    (deployment.folder / "tmp/nameless.csv").write_text("\n".join([header, *lines, ""]))
    (deployment.folder / "tmp/nameless.csv").rename(landing / f"nameless_{letter}.csv")
    refused = deployment.call("POST", "dags/orders/dagRuns", "viewer", {"logical_date": None})
    assert refused.status_code == 403
    run = deployment.trigger({})
    states = deployment.end(run)
    assert states == GREEN | {"silver": "failed", "gold": "upstream_failed"}, states
    assert "not_null(customer) (4 of 5 rows break it" in deployment.log(run, "silver")

    edit(suite, '"mostly": 0.8', '"mostly": 0.0')
    clear = {"dry_run": False, "dag_run_id": unquote(run.rpartition("/")[2]), "task_ids": ["silver"]}
    clear |= {"include_downstream": True, "only_failed": False}
    assert deployment.call("POST", "dags/orders/clearTaskInstances", "viewer", clear).status_code == 403
    assert deployment.call("POST", "dags/orders/clearTaskInstances", "op", clear).is_success
    states = deployment.end(run)
    assert states == GREEN | {"gold": gold}, states
    assert deployment.open_entries() == entries + 5

    rule = "between(amount)"
    of_rule = f"SELECT record FROM quarantine.orders.silver WHERE state = 'open' AND list_contains(rules, '{rule}')"
    replayed = len(deployment.query(of_rule))
    assert replayed > 0
    edit(suite, '"min_value": 0.0', '"min_value": -100.0')
    replay = {"action": "replay", "pipeline": "orders", "flow": "silver", "rule": rule}
    decision = {"logical_date": None, "conf": replay}
    assert deployment.call("POST", "dags/quarantine/dagRuns", "viewer", decision).status_code == 403
    assert deployment.call("PATCH", "dags/quarantine", "op", {"is_paused": False}).status_code == 200
    run = deployment.trigger(replay, "quarantine")
    states = deployment.end(run)
    assert states == dict.fromkeys(("plan", "run", "show"), "success"), states
    assert f"{replayed} replayed = {replayed} written" in deployment.log(run, "show")
    assert deployment.open_entries() == entries + 5 - replayed
    names |= {"A-5": "alan", f"{letter}-4": "zoe"}
    assert deployment.customers() == names

    edit(transform, 'F.lower(F.trim("customer"))', f'F.{function}(F.trim("customer"))')
    window: dict[str, Any] = {
        "mode": "backfill",
        "from_date": "2026-01-05",
        "to_date": "2026-01-05",
        "flows": ["silver"],
    }
    run = deployment.trigger(window | {"dry_run": True})
    deployment.end(run)
    impact = "3 rows before, 3 after: 0 deleted, 3 changed, 0 added"
    assert impact in deployment.log(run, "silver")
    assert deployment.customers() == names
    run = deployment.trigger(window)
    states = deployment.end(run)
    assert (states["run"], states["silver"]) == ("success", "success"), states
    assert deployment.customers() == names | {order: python(names[order]) for order in ("A-1", "A-2", "A-3")}

    after = deployment.files()
    assert {file for file in before.keys() | after if before.get(file) != after.get(file)} == set(map(str, files))
    for file, text in texts.items():
        file.write_text(text)


@pytest.fixture(scope="module")
def fab(deployment: StockDeployment, running: ExitStack) -> Mapping[str, str]:
    """The variables of an Airflow with the FAB manager, which has the users, too. The other Airflow has ended."""
    running.close()
    variables = {"AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"}
    deployment.shell("airflow", "db", "migrate", **variables)
    deployment.shell("airflow", "dags", "reserialize", **variables)
    for name, role in ROLES.items():
        user = ("--username", name, "--password", name, "--role", role, "--firstname", name, "--lastname", name)
        deployment.shell("airflow", "users", "create", *user, "--email", f"{name}@example.org", **variables)
    return variables


def test_op_and_viewer_of_the_fab_manager_see_pages_and_op_decides(
    deployment: StockDeployment, fab: Mapping[str, str]
) -> None:
    with deployment.airflow(**fab):
        assert deployment.call("PATCH", "dags/orders", "viewer", {"is_paused": False}).status_code == 403
        assert deployment.call("PATCH", "dags/orders", "op", {"is_paused": False}).status_code == 200
        # Where this test runs alone, this is the run that writes the sample.
        states = deployment.end(f"dags/orders/dagRuns/{quote(deployment.first_run())}")
        assert states["run"] == "success", states
        _expect_pages(deployment)
        _expect_decisions(deployment, "C", "initcap", str.title)


def test_two_workers_of_celery_that_share_no_disk_run_a_dag_of_the_fab_manager_on_a_lake_in_a_bucket(
    deployment: StockDeployment, fab: Mapping[str, str], s3_server: S3Process, tmp_path: Path
) -> None:
    bucket = f"s3://{s3_server.new_bucket()}"
    variables = {**s3_server.variables, "TIDEGATE_LAKE": f"{bucket}/lake", "TIDEGATE_LANDING": f"{bucket}/landing"}
    layout = Layout.of(Environment.read({**variables, "TIDEGATE_PROJECT": str(deployment.project)}))
    [sample] = (deployment.folder / "landing/orders").glob("*sample*.csv")
    (layout.landing("orders") / sample.name).put(sample.read_bytes())
    with redis(tmp_path) as broker, deployment.celery(broker, **fab, **variables) as workers:
        assert deployment.call("PATCH", "dags/orders", "op", {"is_paused": False}).status_code == 200
        refused = deployment.call("POST", "dags/orders/dagRuns", "viewer", {"logical_date": None})
        assert refused.status_code == 403
        states = deployment.end(deployment.trigger({}))
    # Where this test runs alone, Airflow's own first run has read the file already.
    assert not {"failed", "upstream_failed"} & set(states.values()), states
    assert {row["order_id"] for row in read(layout.table("silver.orders")).to_pylist()} >= {"A-1", "A-2", "A-3", "A-4"}
    tasks = {
        queue: {
            log.parent.name.removeprefix("task_id=") for log in (folder / "logs/dag_id=orders").rglob("attempt=*.log")
        }
        for queue, folder in workers.items()
    }
    assert tasks == {"applications": {"run"}, "default": GREEN.keys() - {"run"}}


def _expect_pages(deployment: StockDeployment) -> None:
    for path in ("/tidegate/", "/tidegate/pipelines/orders", "/tidegate/pipelines/orders/flows/silver"):
        assert deployment.get(path).status_code == 401
        for user in ROLES:
            page = deployment.get(path, user)
            assert page.status_code == 200 and "orders" in page.text, (path, user, page.status_code)
