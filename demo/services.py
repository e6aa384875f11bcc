"""The demo's own folder, broker and Airflow, which are started for each demo and always stopped at its end.

All files are in one folder. Only files of an earlier demo are deleted; the project's own lake, landing zone and Airflow home
are not used. With the services of the environment the demo starts only the processes that run the DAGs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from demo import flights_feed
from demo.runs import DagRuns, check_installed
from demo.topics import create_topics, create_topics_of
from devstack import airflow_home, s3_server
from devstack.broker import Broker
from devstack.s3_server import S3Process
from tidegate.advice import Command, OutsideAct
from tidegate.environment import Environment
from tidegate.environment.clusters import DEFAULT, Cluster
from tidegate.errors import SetupError
from tidegate.lake.layout import Layout
from tidegate.processes import Process
from tidegate.runtime import jars, java
from tidegate.store import Address

IN_FOLDER, IN_BUCKET = "folder", "s3"
"""Where the lake is: below the folder of the demo, or in a bucket of an S3 server that runs as long as the demo."""
OWN, OF_ENVIRONMENT = "own", "environment"
"""Whose services the demo uses: a broker, a landing zone and a local Spark of its own, or those that the environment names."""
_DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_REPLACED = ("lake", "landing", "project", "broker", "s3", "demo.log")
"""Entries of the folder that each demo deletes and creates again. The Airflow home and the marker are kept."""
PIPELINES = ("flights", "clickstream")
_MARKER = "made-by-the-demo"
_RUNNING = "Another demo is running in this project: wait until it ends, or stop it with Ctrl-C."


@dataclass(frozen=True)
class DemoServices:
    """The running services of a demo, and its folders."""

    project: Path
    folder: Path
    environment: Environment
    variables: Mapping[str, str]
    """The environment as programs read it, with the keys of the bucket."""
    layout: Layout
    runs: Mapping[str, DagRuns]
    """A process with Airflow for each pipeline, by name: runs of different pipelines do not wait for each other. Only delays
    shares that of flights, because it runs after it, and payments that of clickstream."""

    @property
    def cluster(self) -> Cluster:
        """The brokers with the topics of the examples."""
        return self.environment.cluster(DEFAULT)

    @property
    def landing(self) -> Path | Address:
        """The landing zone: a folder, or in a bucket."""
        at = self.layout.landing_root
        return Path(at) if at.store.is_local else at

    @property
    def log(self) -> Path:
        """The output of Airflow and Spark."""
        return self.folder / "demo.log"

    def short_address(self, address: Address) -> str:
        """An address for the output: a path as `short_path`, or a URI."""
        return self.short_path(Path(address)) if address.store.is_local else str(address)

    def short_path(self, path: Path) -> str:
        """A path for the output: relative to the working directory, if it is below it."""
        with contextlib.suppress(ValueError):
            return str(path.relative_to(Path.cwd()))
        return str(path)


def check_set_up(project: Path) -> None:
    """Check the prerequisites of the demo.

    Raises:
        SetupError: A prerequisite is missing.
    """
    java.find()
    check_installed(project)
    if jars.missing(jars.of_set(project, *jars.pinned(project))):
        raise SetupError(
            "The Spark jars are missing",
            Command.make("setup", says="run `{}`"),
        )
    flights_feed.data_file()


@contextlib.contextmanager
def set_up(project: Path, folder: Path, *, lake: str = IN_FOLDER, services: str = OWN) -> Iterator[DemoServices]:
    """Start the broker and the processes that run the DAGs, and stop them at the end.

    Args:
        folder: The folder for all files of the demo.
        lake: `IN_FOLDER`, `IN_BUCKET`, or the URI of an empty lake in a bucket that the environment has the keys of.
        services: `OWN`: the broker and the landing zone are in the folder, and Spark is that of the connection in Airflow.
            `OF_ENVIRONMENT`: no broker is started; brokers, landing zone and Airflow's database are those of the environment.

    Raises:
        SetupError: Another demo is running, the folder contains files that no demo created, the lake, or a landing zone or topic of
            the environment, is not empty, or a service does not start.
        SourceUnavailableError: The brokers of the environment do not answer.
    """
    with exclusive(folder / "running", _RUNNING):
        _clean(folder)
        with ThreadPoolExecutor(2) as threads, contextlib.ExitStack() as exit_stack:
            airflow_variables = list(threads.map(lambda name: _airflow(project, folder / name, services), PIPELINES))
            flights = threads.submit(flights_feed.days)
            own_services = exit_stack.enter_context(_own(project, folder)) if services == OWN else {}
            bucket = exit_stack.enter_context(_bucket(folder / "s3", lake)) if lake != IN_FOLDER else {}
            environment = Environment.read(
                {
                    **os.environ,
                    "TIDEGATE_PROJECT": str(project),
                    "TIDEGATE_LAKE": str(folder / "lake"),
                    **bucket,
                    **own_services,
                }
            )
            if services == OF_ENVIRONMENT:
                _check_empty("landing zone", Layout.of(environment).landing_root)
                create_topics_of(environment.cluster(DEFAULT))
            own = {**environment.variables(), **bucket}
            runs = {
                name: exit_stack.enter_context(DagRuns(project, variables | own, folder / "demo.log"))
                for name, variables in zip(PIPELINES, airflow_variables, strict=True)
            }
            runs |= {"delays": runs["flights"], "payments": runs["clickstream"]}
            flights.result()
            yield DemoServices(project, folder, environment, own, Layout.of(environment), runs)


@contextlib.contextmanager
def _own(project: Path, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the variables of a landing zone in the folder, and of a broker with the topics, which is stopped at the end."""
    broker = Broker(folder / "broker", class_path=jars.class_path(project, "broker"))
    try:
        broker.start()
        create_topics(broker)
        yield {"TIDEGATE_LANDING": str(folder / "landing"), "TIDEGATE_KAFKA": broker.bootstrap}
    finally:
        broker.stop()


def _check_empty(what: str, address: Address) -> None:
    try:
        is_empty = not any(address.walk())
    except OSError as error:
        raise SetupError(f"The {what} {address} cannot be used: {error}", OutsideAct("remove the cause")) from error
    if not is_empty:
        raise SetupError(f"The {what} {address} is not empty", OutsideAct("give the demo an address where nothing is"))


@contextlib.contextmanager
def _bucket(folder: Path, lake: str) -> Iterator[dict[str, str]]:
    """Yield the variables of a lake in a bucket: of the URI, or of an S3 server that is started, and stopped at the end."""
    if lake != IN_BUCKET:
        _check_empty("lake", Layout.of(Environment.read({**os.environ, "TIDEGATE_LAKE": lake})).root)
        yield {"TIDEGATE_LAKE": lake}
        return
    server = S3Process(s3_server.built(), folder)
    folder.mkdir()
    server.start()
    try:
        uri = f"s3://{server.new_bucket()}/lake"
        yield {**server.variables, "TIDEGATE_LAKE": uri, "TIDEGATE_S3_CREDENTIALS": "environment"}
    finally:
        server.kill()


def _airflow(project: Path, folder: Path, services: str) -> dict[str, str]:
    """Create an Airflow home, so that the project's Airflow has no assets of the demo's tables.

    Each pipeline has its own: two runs of ``dag.test`` at the same time fail on one SQLite database. A database that the environment
    names is one for all, and already knows the DAGs: two processes that write their assets for the first time fail, too.
    """
    folder.mkdir(exist_ok=True)
    named = os.environ.get(_DATABASE, "") if services == OF_ENVIRONMENT else ""
    if not named:
        airflow_home.ensure(folder)
    return (
        airflow_home.environment(folder)
        | ({_DATABASE: named} if named else {})
        | {
            "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(project / "plugins"),
        }
    )


@contextlib.contextmanager
def exclusive(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file, so that no other process works in its folder.

    Raises:
        SetupError: Another process holds it; the message is ``refusal``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SetupError(refusal, OutsideAct("wait until it ends, or stop it")) from None
        yield


def _clean(folder: Path) -> None:
    """Delete the files of an earlier demo, and stop its broker if it still runs."""
    marker = folder / _MARKER
    existing = [folder / name for name in _REPLACED if (folder / name).exists()]
    if existing and not marker.exists():
        raise SetupError(
            f"{existing[0]} was not created by the demo, which would replace it",
            OutsideAct("move it to another folder"),
        )
    marker.touch()
    orphan = Process.read(folder / "broker" / "broker.pid")
    if orphan is not None and orphan.alive:
        orphan.stop_group(20)
    for path in existing:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
