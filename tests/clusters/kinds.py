"""A pipeline with every kind of flow for drivers on clusters. `tests.clusters.oracle` has what its tables must have.

A function of the project marks rows in the transforms. Executors call it: it notes which process ran which code, and waits
while a test holds its flow, so that the test can end that very process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.clusters.kinds_project import DECLARATION, JOB
from tests.clusters.oracle import (
    AT_ONCE,
    CLICKS,
    COLUMNS,
    START,
    Rows,
    event,
    expected,
    lacking_rows,
    newest_events,
)
from tests.deployment import Deployment
from tests.s3_server import REGION
from tests.standalone import executor_python
from tests.store.buckets import upload
from tests.store.proxy import S3Proxy
from tests.topics import send, values
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.errors import EX_SOFTWARE
from tidegate.processes import end_group
from tidegate.requests.request import RunRequest, fresh_id

if TYPE_CHECKING:
    import pytest

    from devstack.broker import Broker
    from tests.s3_server import S3Process

PROJECT = Path(__file__).parents[2]
_COMMAND = Path(sys.executable).parent / "tidegate"


@dataclass(frozen=True)
class Note:
    """A process of an executor that worked for a flow."""

    flow: str
    pid: int
    cwd: Path
    version: str
    files: tuple[Path, ...]
    """From which it has imported the transforms and the platform."""


@dataclass
class Kinds:
    """The pipeline in the project of a deployment, whose landing zone and lake are in a bucket."""

    deployment: Deployment
    notes: Path
    """A folder for what executors note."""
    broker: Broker | None
    """None for a test that runs no flow with a topic."""
    topic: str
    """From which it reads messages, and beside which is the one to which it sends changes."""
    endpoint: str
    """At which drivers and executors find the server of the bucket: a proxy, which refuses unsafe writes."""
    landed: int = 0
    """How many increments."""
    _runs: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def _declaration(self) -> str:
        return DECLARATION.replace("<topic>", self.topic)

    def write(self, version: str) -> None:
        """Write declaration and transforms, or edit the transforms."""
        self.notes.mkdir(exist_ok=True)
        project = self.deployment.environment.project
        job = JOB.replace("<version>", version).replace("<folder>", str(self.notes))
        for package, text in (("pipelines", self._declaration), ("spark_jobs", job)):
            (project / package).mkdir(parents=True, exist_ok=True)
            (project / package / "__init__.py").touch()
            (project / package / "kinds.py").write_text(text)

    def land(self, parts: int = 2) -> None:
        """Land the files of one more increment, and send its messages.

        Args:
            parts: Files of events, of which each is a task of its own.
        """
        number, folder = self.landed, self.deployment.folder / f"landing-{self.landed}"
        records, length = [event(each) for each in range(number * AT_ONCE, (number + 1) * AT_ONCE)], AT_ONCE // parts
        names = [{"day": day, "version": number, "name": f"name {day} {number}"} for day in range(3)]
        prices = [{"id": key, "price": key * 10 + number} for key in range(number, 10)]
        day = f"prices/dt=2026-01-0{number + 1}"
        files = {
            **{f"events/{number}{part}.json": _lines(records[part * length :][:length]) for part in range(parts)},
            f"names/{number}.json": _lines(names),
            f"{day}/all.json": _lines(prices),
            f"{day}/_manifest": "all.json\n",
        }
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        upload(folder, self.deployment.layout.landing_root)
        if self.broker is not None:
            messages = range(number * CLICKS, (number + 1) * CLICKS)
            send(self.broker, self.topic, messages, sent_ms=int(START.timestamp() * 1000))
        self.landed += 1

    @contextmanager
    def pausing(self, flow: str) -> Iterator[None]:
        """Until the end of the context, processes of executors wait in a flow."""
        file = self.notes / f"hold-{flow}"
        file.touch()
        try:
            yield
        finally:
            file.unlink(missing_ok=True)

    def noted(self, flow: str = "*") -> list[Note]:
        """What processes of executors have noted."""
        notes = []
        for path in sorted(self.notes.glob(f"{flow}-*.json")):
            content = json.loads(path.read_text())
            name = path.name.rpartition("-")[0]
            notes.append(
                Note(name, content["pid"], Path(content["cwd"]), content["version"], tuple(map(Path, content["files"])))
            )
        return notes

    def forget(self) -> None:
        """Remove all notes."""
        for path in self.notes.glob("*.json"):
            path.unlink()

    @property
    def variables(self) -> dict[str, str]:
        """The environment of drivers. This process asks the server itself: its threads would wait for delta-rs."""
        return {**self.deployment.environment.variables(), "AWS_ENDPOINT_URL_S3": self.endpoint}

    def request(self) -> RunRequest:
        """The request of an increment of all flows."""
        names: dict[str, Any] = {}
        exec(self._declaration, names)
        return RunRequest.check(names["pipeline"], fresh_id("test"), {})

    def start(self, *flows: str, **variables: str) -> subprocess.Popen[str]:
        """Start a run of the pipeline, as a user does: of some flows, or of all, with more variables of the environment."""
        run = subprocess.Popen(
            [_COMMAND, "run", "kinds", *(word for flow in flows for word in ("--flow", flow))],
            env={**os.environ, **self.variables, **variables},
            cwd=self.deployment.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._runs.append(run)
        return run

    def close(self) -> None:
        """End all runs."""
        for run in self._runs:
            end_group(run.pid, grace=TIMEOUT_SECONDS)
            run.wait()

    def run(self) -> str:
        """Run the pipeline to its end, and return what it printed."""
        return end_of(self.start())

    def kill_driver_in(self, flow: str) -> None:
        """Run the pipeline, and kill its driver while an executor works for a flow."""
        with self.pausing(flow):
            run = self.start()
            self.wait_for(flow, run)
            driver_of(run).kill()
            assert "the job crashed" in end_of(run, exit_code=EX_SOFTWARE)

    def wait_for(self, flow: str, run: subprocess.Popen[str] | Callable[[], bool], but: Collection[int] = ()) -> Note:
        """Wait until a process of an executor works for a flow, other than some.

        Args:
            flow: The flow.
            run: A run of `start`, or what says whether another one goes on.
            but: Processes.
        """
        is_alive = run if callable(run) else lambda: run.poll() is None
        others: list[Note] = []

        def works() -> bool:
            others[:] = [note for note in self.noted(flow) if note.pid not in but]
            return bool(others) or not is_alive()

        wait_until(works, f"an executor works for the flow {flow}")
        assert others, "the run has ended" if callable(run) else end_of(run)
        return others[0]

    def log(self) -> str:
        """What the driver of the last run has logged."""
        root = self.deployment.layout.root
        logs = [entry for entry in root.walk() if entry.name == "driver.log"]
        return root.store.read(max(logs, key=lambda entry: entry.modified_ns).key).data.decode()

    def differences(self, versions: Sequence[str], *tables: str) -> list[str]:
        """How tables and the topic of changes, or some tables, differ from what they must have.

        Args:
            versions: That of the transforms in each increment.
            tables: Names; all by default.
        """
        wanted = expected(versions)
        differences = [
            f"{name}: lacks {lacking_rows(wanted[name], present)}, has besides {lacking_rows(present, wanted[name])}"
            for name in tables or wanted
            if (present := self._rows(name)) != wanted[name]
        ]
        if not tables:
            assert self.broker is not None
            sent = {row["id"]: row["version"] for row in values(self.broker, f"{self.topic}-sent").values()}
            newest = {key: record["version"] for key, record in newest_events(AT_ONCE * len(versions)).items()}
            differences += [] if sent == newest else [f"the topic says {sent} instead of {newest}"]
        return differences

    def _rows(self, name: str) -> Rows:
        rows = self.deployment.table(name).to_pylist()
        if name.startswith("bronze."):
            # It has raw records.
            return [(len(rows), len({row["_row_id"] for row in rows}))]
        columns = COLUMNS[name]
        return sorted((tuple(row[each] for each in columns) for row in rows if not row.get("_deleted")), key=repr)


def end_of(run: subprocess.Popen[str], exit_code: int = 0) -> str:
    """What a run has printed, when it has ended."""
    output, _ = run.communicate()
    assert run.returncode == exit_code, output
    return output


def driver_of(run: subprocess.Popen[str]) -> psutil.Process:
    """The JVM of the driver of a run."""
    (driver,) = (
        each
        for each in psutil.Process(run.pid).children(recursive=True)
        if "org.apache.spark.deploy.SparkSubmit" in _command(each)
    )
    return driver


def _command(process: psutil.Process) -> list[str]:
    """The arguments of a process; none if it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


@contextmanager
def kinds_on(
    folder: Path,
    server: S3Process,
    broker: Broker | None,
    topic: str,
    patch: pytest.MonkeyPatch,
    **variables: str,
) -> Iterator[Kinds]:
    """The pipeline in a project of its own, in a bucket of its own; all runs end with the context, which expects no unsafe write.

    Args:
        folder: Of the test.
        server: Has the bucket. Driver and executors find its keys in a profile, as on machines of a cluster.
        broker: Has the topics; None for a test that runs no flow with a topic.
        topic: The name of one, which does not exist yet.
        patch: Sets the environment of drivers, for this process too.
        variables: The settings of the cluster.
    """
    profile = folder / "credentials"
    profile.write_text(
        f"[lake]\naws_access_key_id = {server.access_key}\naws_secret_access_key = {server.secret_key}\n"
    )
    profile.chmod(0o600)
    own = {
        "AWS_ENDPOINT_URL_S3": server.endpoint,
        "AWS_REGION": REGION,
        "AWS_PROFILE": "lake",
        "AWS_SHARED_CREDENTIALS_FILE": str(profile),
        "TIDEGATE_S3_CREDENTIALS": "profile",
        **variables,
    }
    for name, value in own.items():
        patch.setenv(name, value)
    bucket = f"s3://{server.new_bucket()}"
    deployment = Deployment.of(
        folder,
        PROJECT,
        **own,
        TIDEGATE_LAKE=f"{bucket}/lake",
        TIDEGATE_LANDING=f"{bucket}/landing",
        **({} if broker is None else {"TIDEGATE_KAFKA": broker.bootstrap}),
        TIDEGATE_DRIVER_MEMORY="1g",
        TIDEGATE_EXECUTORS="2",
        TIDEGATE_EXECUTOR_MEMORY="700m",
        TIDEGATE_EXECUTOR_PYTHON=str(executor_python(folder / "executors", "confluent-kafka", "protobuf")),
    )
    if broker is not None:
        for name in (topic, f"{topic}-sent"):
            broker.create_topic(name, partitions=1)
    with S3Proxy(server.endpoint).serving() as proxy:
        made = Kinds(deployment, folder / "notes", broker, topic, proxy.endpoint)
        made.write(version="1")
        try:
            yield made
        finally:
            made.close()
    assert proxy.refused == []


def _lines(records: Sequence[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)
