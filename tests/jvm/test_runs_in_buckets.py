"""Whole runs of `tidegate run`, and drivers that are killed, with lake and landing zone in a bucket whose policy refuses unsafe writes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.sample import expect_everything_once, landed, landed_later
from tests.deployment import Deployment
from tests.s3_server import S3Process
from tests.slices import of_week
from tests.store.buckets import upload
from tests.store.proxy import S3Proxy, received
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.lake.place import AttemptPlace, FlowPlace, PipelinePlace
from tidegate.ops.attempts import ATTEMPTS
from tidegate.processes import end_group
from tidegate.reports.report import RunReport
from tidegate.requests.request import fresh_id
from tidegate.testing.lake import read

pytestmark = pytest.mark.jvm

PROJECT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "tidegate"
MIXTURES = [("bucket", "bucket"), ("bucket", "folder"), ("folder", "bucket")]
STEPS = {
    "bronze": ("before:write_quarantine", "after:write_quarantine", "after:write_target", "after:record_batch"),
    "silver": ("before:write_quarantine", "after:write_quarantine", "after:write_target", "after:record_batch"),
    "gold": ("after:write_target", "after:record_batch"),
}
"""By flow: the steps at which its driver is killed, in the order of a batch."""
STOPPED = Path(__file__).with_name("stopped_driver.py")
EXPLAINED = {"GET log", "GET other", "HEAD other", "PUT other"}
"""Kinds of requests of which an increment sends more than 50, for the reasons in ``docs/guides/buckets.md``."""
EDIT = """

_clean = clean


def clean(rows: DataFrame) -> DataFrame:
    return _clean(rows).withColumn("_filtered", F.when(F.col("carrier") == "UA", F.lit("no_united")))
"""

Deploy = Callable[..., Deployment]


@pytest.fixture
def proxy(s3_server: S3Process) -> Iterator[S3Proxy]:
    """Before the server; no unsafe write reached it."""
    with S3Proxy(s3_server.endpoint).serving() as serving:
        yield serving
    assert serving.refused == []


@pytest.fixture
def deploy(
    proxy: S3Proxy, s3_server: S3Process, tmp_path: Path, no_settings: None, monkeypatch: pytest.MonkeyPatch
) -> Deploy:
    """Makes deployments with the sample of flights, each in a bucket of its own or in a folder."""
    # The environment of all processes that are started.
    variables = {**s3_server.variables, "AWS_ENDPOINT_URL_S3": proxy.endpoint}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    def make(lake: str = "bucket", landing: str = "bucket") -> Deployment:
        folder = tmp_path / f"{lake}-{landing}"
        local = Deployment.make(folder, PROJECT)
        landed(local)
        for name in ("pipelines", "spark_jobs"):
            shutil.copytree(PROJECT / name, folder / "project" / name, dirs_exist_ok=True)
        (folder / "project" / ".cache").symlink_to(PROJECT / ".cache")
        bucket = f"s3://{s3_server.new_bucket()}"
        roots = {"TIDEGATE_LAKE": lake, "TIDEGATE_LANDING": landing}
        uris = {name: f"{bucket}/{name.lower()}" for name, where in roots.items() if where == "bucket"}
        deployment = Deployment.of(folder, PROJECT, **variables, **uris)
        if landing == "bucket":
            upload(folder / "landing", deployment.layout.landing_root)
        return deployment

    return make


def tidegate(deployment: Deployment, *arguments: str) -> str:
    """What a command prints that ends with 0."""
    result = subprocess.run(
        [COMMAND, *arguments],
        env={**os.environ, **deployment.environment.variables()},
        cwd=deployment.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def expect_as_in_a_folder(deployment: Deployment) -> None:
    """Check the tables, the ledger and the plan after a run."""
    expect_everything_once(deployment, deployment.folder / "landing")
    deployment.expect_a_balanced_ledger()
    assert "flights: nothing is new" in tidegate(deployment, "plan", "flights")


def expect_counted(deployment: Deployment, proxy: S3Proxy, start: int) -> None:
    """Check the requests in the report and in the table of attempts of the last run: those of Spark are those that the server got."""
    place = PipelinePlace(deployment.layout, "flights")
    # Not by `OwnTable.read`, which holds up the proxy, a thread of this process.
    line = max(read(ATTEMPTS.address(place)).to_pylist(), key=lambda line: line["recorded_at"])
    report = RunReport.read(AttemptPlace(deployment.layout, "flights", line["run_key"], line["attempt"]).report)
    assert report is not None
    assert report.requests == dict(line["requests"])
    sent = zip(proxy.requests[start:], proxy.agents[start:], strict=True)
    by_spark = received(request for request, agent in sent if "Hadoop" in agent)
    counted = Counter[str]()
    for kind, number in report.requests.items():
        if kind.startswith("spark "):
            # The server gets a copy as a PUT.
            counted[kind.removeprefix("spark ").replace("COPY", "PUT")] += number
    assert counted == by_spark
    assert by_spark["GET log"] > 0


def expect_few(proxy: S3Proxy, start: int) -> None:
    """Check the requests of all programs in an increment of three flows, beside listings, as ``docs/guides/buckets.md`` has them."""
    kinds = received(proxy.requests[start:])
    beside = {kind: number for kind, number in kinds.items() if not kind.startswith("LIST ")}
    assert sum(beside.values()) <= 350, kinds
    assert {kind for kind, number in beside.items() if number > 50} <= EXPLAINED, kinds


@pytest.mark.live
def test_a_run_after_a_killed_driver_leaves_every_row_once(deploy: Deploy, proxy: S3Proxy) -> None:
    deployment = deploy()
    deployment.run_and_kill("after:write_quarantine:silver", flows=["bronze", "silver"])
    assert "gold: done" in tidegate(deployment, "run", "flights")
    expect_as_in_a_folder(deployment)
    name, content = landed_later(deployment)
    (deployment.layout.landing_root / name).put(content)
    start = len(proxy.requests)
    assert "gold: done" in tidegate(deployment, "run", "flights")
    expect_few(proxy, start)
    expect_counted(deployment, proxy, start)
    expect_as_in_a_folder(deployment)
    start = len(proxy.requests)
    tidegate(deployment, "plan", "flights")
    assert len(proxy.requests[start:]) <= 20, proxy.requests[start:]
    logs = [entry for entry in PipelinePlace(deployment.layout, "flights").reports.walk() if entry.name == "driver.log"]
    assert len(logs) == 2 and all(log.size > 0 for log in logs)


@pytest.mark.nightly
@pytest.mark.parametrize("mixture", of_week(MIXTURES, 1))
def test_the_same_run_in_buckets_and_folders_gives_the_same_lake(deploy: Deploy, mixture: tuple[str, str]) -> None:
    deployments = [deploy("folder", "folder"), deploy(*mixture)]
    for deployment in deployments:
        tidegate(deployment, "run", "flights")
        expect_as_in_a_folder(deployment)
    expected, contents = map(_contents, deployments)
    assert contents == expected


@pytest.mark.nightly
@pytest.mark.parametrize("flow", of_week(list(STEPS), 1))
def test_drivers_that_are_killed_at_each_step_leave_every_row_once(deploy: Deploy, flow: str) -> None:
    deployment = deploy()
    names = list(STEPS)[: list(STEPS).index(flow) + 1]
    for step in STEPS[flow]:
        deployment.run_and_kill(f"{step}:{flow}", flows=names)
    assert "gold: done" in tidegate(deployment, "run", "flights")
    expect_as_in_a_folder(deployment)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("at", "decides"),
    of_week(
        [
            ("before:record_split:silver", "second"),
            ("behind:quarantine/flights/silver:silver", "second"),
            ("before:write_target:silver", "first"),
            ("behind:tables/silver/flights:silver", "first"),
            ("before:record_batch:silver", "written"),
            ("behind:tables/bronze/flights:bronze", "written"),
            ("behind:tables/gold/daily_delay:gold", "written"),
        ],
        1,
    ),
)
def test_a_driver_that_was_stopped_while_another_one_took_its_batch_ends_with_75_and_moves_no_row(
    deploy: Deploy, at: str, decides: str
) -> None:
    deployment, flow = deploy(), at.rpartition(":")[2]
    flows = list(STEPS)[: list(STEPS).index(flow) + 1]
    first, marker = started(deployment, at, flows)
    try:
        wait_until(lambda: marker.exists() or first.poll() is not None, f"the driver stops at {at}")
        assert marker.exists(), first.communicate()[0][-3000:]
        refused_by_first = ids_in_quarantine(deployment)
        if flow == "silver":
            edit_suite_and_transform(deployment)
        second, _ = started(deployment, "never", flows)
        output, _ = second.communicate(timeout=TIMEOUT_SECONDS)
        assert second.returncode == 0, output[-3000:]
        os.killpg(first.pid, signal.SIGCONT)
        output, _ = first.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        end_group(first.pid, grace=0)
    assert first.returncode == 75, output[-3000:]

    deployment.expect_a_balanced_ledger()
    if flow != "silver":
        tidegate(deployment, "run", "flights")
        expect_as_in_a_folder(deployment)
        return
    silver, refused = deployment.table("silver.flights").to_pylist(), ids_in_quarantine(deployment)
    assert refused.total() == len(refused) > 0
    assert not {row["_row_id"] for row in silver} & refused.keys()
    (line,) = (line for line in deployment.ledger() if line["flow"] == "silver")
    bronze = deployment.table("bronze.flights")["_row_id"].to_pylist()
    assert (line["read"], line["quarantined"]) == (len(bronze), len(refused)), "each row has one disposition"
    assert set(bronze) >= refused.keys()
    if decides == "written":
        tidegate(deployment, "run", "flights")
        expect_everything_once(deployment, deployment.folder / "landing")
    else:
        assert {row["carrier"] for row in silver} >= {"AA", "B6"} and "UA" not in {row["carrier"] for row in silver}
    delays = [row["dep_delay"] for row in silver if row["dep_delay"] is not None]
    if decides == "second":
        assert max(map(abs, delays)) <= 5 and not refused_by_first
    else:
        assert max(map(abs, delays)) > 5 and refused == refused_by_first


def started(deployment: Deployment, at: str, flows: list[str]) -> tuple[subprocess.Popen[str], Path]:
    """A driver of its own, with the transforms of the project, and the file that it writes where it stops."""
    request, marker = deployment.request(flows=flows), deployment.folder / fresh_id("reached")
    request_id = request.write(deployment.layout)
    driver = subprocess.Popen(
        [sys.executable, str(STOPPED), at, str(marker), request.dag_id, request.run_key, request_id],
        env={
            **os.environ,
            **deployment.environment.variables(),
            "PYTHONPATH": os.pathsep.join(map(str, (deployment.folder / "project", PROJECT))),
        },
        cwd=deployment.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    return driver, marker


def ids_in_quarantine(deployment: Deployment) -> Counter[str]:
    """How often each row is in the quarantine of silver."""
    if not FlowPlace(deployment.layout, "flights", "silver").quarantine.exists():
        return Counter()
    return Counter(deployment.quarantined("silver")["_row_id"].to_pylist())


def edit_suite_and_transform(deployment: Deployment) -> None:
    """Refuse large delays alone, and filter a carrier."""
    few_minutes = {"column": "dep_delay", "min_value": -5, "max_value": 5}
    rule = {"type": "expect_column_values_to_be_between", "kwargs": few_minutes, "severity": "warning"}
    deployment.edit_suite("flights/silver", [rule])
    module = deployment.environment.project / "spark_jobs" / "flights.py"
    module.write_text(module.read_text() + EDIT)


def _contents(deployment: Deployment) -> dict[str, list[str]]:
    """What does not depend on the folder and the time: rows of tables and of quarantines, and the numbers of the ledger."""
    tables = {name: deployment.table(name) for name in ("bronze.flights", "silver.flights", "gold.daily_delay")}
    public = {
        name: rows.select([column for column in rows.column_names if not column.startswith("_")])
        for name, rows in tables.items()
    }
    refused = {
        flow: deployment.quarantined(flow).select(["level", "rules", "record", "state"])
        for flow in ("bronze", "silver")
    }
    contents = {name: sorted(map(repr, rows.to_pylist())) for name, rows in (public | refused).items()}
    changing = ("_at", "seconds", "run_key", "attempt", "fingerprint")
    lines = [
        {name: value for name, value in line.items() if not name.endswith(changing)} for line in deployment.ledger()
    ]
    return contents | {"ledger": [repr(line) for line in lines]}
