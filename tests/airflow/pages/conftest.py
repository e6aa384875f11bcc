"""A lake with sample data, Airflow's app with the pages, and a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.airflow.entry_points import airflow_app
from tests.airflow.lake import Lake
from tests.airflow.server import serving
from tests.cli.project import Checkpoint, append
from tests.spark_files import delta_offset
from tidegate.alerting.episodes import Event
from tidegate.checkpoints.refusal import REFUSAL
from tidegate.environment import Environment
from tidegate.errors import EX_DATAERR
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace, Place
from tidegate.ops import alert_history
from tidegate.project import fingerprints, registry
from tidegate.reports.report import ErrorReport, FlowReport, now
from tidegate.status import flow_status

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

PROJECT = Path(__file__).parents[3]

Client = Callable[..., "TestClient"]


def variables(folder: Path) -> dict[str, str]:
    """The environment variables of a deployment with an empty landing zone."""
    for source in ("flights", "weather", "airlines"):
        (folder / "landing" / source).mkdir(parents=True)
    return {
        "TIDEGATE_LAKE": str(folder / "lake"),
        "TIDEGATE_LANDING": str(folder / "landing"),
        "TIDEGATE_KAFKA": "127.0.0.1:9",
        "TIDEGATE_SPARK_HISTORY": "http://127.0.0.1:18080",
    }


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.delenv("TIDEGATE_PROJECT", raising=False)
    for name, value in variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    # On a machine that is busy with other tests, sources need longer to answer.
    monkeypatch.setattr(flow_status, "PATIENCE", 30.0)
    return Environment.read()


@pytest.fixture
def lake(environment: Environment) -> Lake:
    """An empty lake."""
    layout = Layout.of(environment)
    layout.open()
    return Lake(layout)


@pytest.fixture
def client(home_with_dags: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Creates clients of Airflow's app with the plugin: logged in as a user, or logged out with ``None``."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    from tidegate.airflow.pages.app import build
    from tidegate.airflow.plugin import TidegatePlugin

    pages = TidegatePlugin.fastapi_apps[0]["app"]
    monkeypatch.setattr(pages, "_app", build(environment))

    def make(username: str | None = "viewer", role: str = "viewer", **options: Any) -> TestClient:
        client = TestClient(airflow_app(), follow_redirects=False, **options)
        if username is not None:
            token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=username, role=role))
            client.cookies.set(COOKIE_NAME_JWT_TOKEN, token)
        return client

    return make


@pytest.fixture(scope="session")
def sample_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with several weeks of batches."""
    folder = tmp_path_factory.mktemp("sample-lake")
    environment = variables(folder)
    lake = Lake(Layout.local(Path(environment["TIDEGATE_LAKE"]), Path(environment["TIDEGATE_LANDING"])))
    lake.layout.open()
    fill(lake)
    return lake


@pytest.fixture(scope="session")
def server(home_with_dags: Path, sample_lake: Lake) -> Iterator[str]:
    """The URL of a real API server on the sample lake."""
    folder = Path(sample_lake.layout.root).parent
    environment = {"TIDEGATE_LAKE": str(Path(sample_lake.layout.root)), "TIDEGATE_LANDING": str(folder / "landing")}
    environment |= {"TIDEGATE_SPARK_HISTORY": "http://127.0.0.1:18080"}
    with serving(home_with_dags, environment | {"TIDEGATE_KAFKA": "127.0.0.1:9", "TIDEGATE_PROJECT": ""}) as address:
        yield address


def fill(lake: Lake) -> None:
    """Some weeks of flights and clicks."""
    rows = [9128, 8801, 9340, 9977, 10236, 8120, 7733, 9480, 9905, 10110, 9216, 8874, 9502, 10040, 11835]
    for name in ("flights", "clickstream"):
        lake.begin(name)
    for number, read in enumerate(rows):
        run_id = f"scheduled__2026-11-{number + 1:02}T00:00:00+00:00"
        lake.batch(
            "flights", "bronze", number, run_id=run_id, read=read, written=read, files_listed=7, files_opened=7,
            target_version=number, seconds=4.1 + number / 7,
        )  # fmt: skip
        bad = {5: 212, 9: 31, 14: 53}.get(number, number % 3)
        late = 100 + number
        rules = {"required(origin)": bad - bad // 4, "wrong_type(dep_delay)": bad // 4} if bad > 10 else {}
        lake.verdict("silver", number, "split" if bad else "passed", run_id=run_id)
        lake.batch(
            "flights", "silver", number, run_id=run_id, read=read, written=read - bad - late, quarantined=bad,
            rules=rules or ({"between(dep_delay)": bad} if bad else {}), superseded=late, target_version=number,
            seconds=9.3 + number / 5,
        )  # fmt: skip
        groups = 150 + number * 3
        lake.batch(
            "flights", "gold", number, run_id=run_id, read=read - bad - late, groups=groups, upserted=groups - 4,
            unchanged=4, target_version=number, seconds=3.2,
        )  # fmt: skip
    lake.verdict("silver", 15, "refused", ("in_set(origin)",), run_id="scheduled__2026-11-16T00:00:00+00:00")
    lake.report(
        "scheduled__2026-11-16T00:00:00+00:00",
        application="app-20261116000000-0001",
        ended_at=now(),
        parts={"total": 31.4},
        flows=[
            FlowReport(flow="bronze", target="bronze.flights", checkpoint_version=1, state="idle", seconds=0.6),
            FlowReport(
                flow="silver", target="silver.flights", checkpoint_version=1, state="refused", seconds=7.9,
                error=ErrorReport(
                    kind="GateRefusedError", message="batch 15 was refused by flights/silver: in_set(origin)",
                    transient=False, exit_code=EX_DATAERR,
                ),
            ),
            FlowReport(flow="gold", target="gold.daily_delay", checkpoint_version=1, state="skipped"),
        ],
    )  # fmt: skip
    lake.quarantine(160, "required(origin)")
    lake.quarantine(71, "wrong_type(dep_delay)")
    lake.quarantine(12, "between(dep_delay)", state="waived")
    for number in range(8):
        read = 2400 + number * 130
        lake.batch("clickstream", "bronze", number, read=read, written=read, target_version=number, seconds=3.0)
        lake.batch(
            "clickstream", "silver", number, read=read, written=read - 9, quarantined=4, deduplicated=5,
            rules={"malformed_json": 4}, target_version=number, seconds=5.2,
        )  # fmt: skip
    _set_status(lake)


def _set_status(lake: Lake) -> None:
    """The status of the flows of flights: a file waits, a batch was refused, gold is up to date."""
    pipeline = registry.load("flights")
    row = {"id": 1, "day": datetime.now(UTC).date() - timedelta(days=2)}
    append(lake.layout.table("bronze.flights"), [row])
    ids = {name: append(lake.layout.table(name), [row]) for name in ("bronze.flights", "silver.flights")}
    for name, flow, rule in (("flights", "silver", "refused"), ("clickstream", "bronze", "unreadable")):
        moment = datetime.now(UTC) - timedelta(minutes=4)
        event = Event(flow=flow, rule=rule, opened_at=moment, kind="opened", recorded_at=moment, message="an example")
        alert_history.append(PipelinePlace(lake.layout, name), [event])
    lines = "flight,origin\n" * 700
    read = lake.land("flights/2026-11-15.csv", lines)
    lake.land("flights/2026-11-17.csv", lines)
    bronze, silver, gold = (
        Checkpoint(Path(Place(lake.layout, "flights", flow.name, 1, 0).checkpoint)) for flow in pipeline.flows
    )
    for each in (bronze, silver, gold):
        each.folder.mkdir(parents=True)
        (each.folder / "metadata").write_text('{"id":"0b7e6f0e-6d5a-4a55-9a35-0d8a9b5b6c11"}')
    bronze.listed(0, read).plan(14, {"logOffset": 0}).commit(14)
    silver.plan(14, delta_offset(1, table_id=ids["bronze.flights"])).commit(14)
    silver.plan(15, delta_offset(2, table_id=ids["bronze.flights"]))
    gold.plan(14, delta_offset(1, table_id=ids["silver.flights"])).commit(14)
    refusal = {
        "batch_id": 15,
        "suite_fingerprint": fingerprints.suite_fingerprint(PROJECT / "expectations/flights/silver.json"),
        "code_fingerprint": fingerprints.code_fingerprint(PROJECT / "spark_jobs/flights.py"),
    }
    Path(REFUSAL.path(Place(lake.layout, "flights", "silver", 1, 0))).write_text(json.dumps(refusal))
