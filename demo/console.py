"""The whole platform on one machine, for as long as somebody wants to look at it: ``make up``, ``status``, ``down``.

Airflow with the project's pipelines, a Kafka broker, and a feeder that keeps landing data. Each runs on by itself
when `up` has ended, and `up` starts whichever does not run. All of it listens on loopback only, and what it writes is
its owner's alone to read.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from demo import clicks_feed, flights_feed
from demo.stage import check_set_up
from tidegate.embedded import jars, places
from tidegate.embedded.airflow_server import PORT, USER, AirflowServer
from tidegate.embedded.broker import Broker
from tidegate.embedded.ports import is_free
from tidegate.embedded.service import Service, stop
from tidegate.ending import leave
from tidegate.environment import Environment
from tidegate.errors import NoAnswerError, SetupError, TidegateError

EXIT_INTERRUPTED = 130
KAFKA_PORT = 9092
"""Where the project's commands look for a broker that nobody named; taken when it is free."""
_READY_SECONDS = 240.0
_QUIET_SECONDS = 30.0
_LANDED_SECONDS = 60.0
_ANSWER_SECONDS = 60.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Parts:
    """What `up` starts, in a project's own folders ``.airflow`` and ``.data``."""

    project: Path
    console: Console

    @property
    def data(self) -> Path:
        """The folder of broker, feeder, and by default of lake and landing zone."""
        return self.project / ".data"

    @property
    def dag_files(self) -> set[str]:
        """The files that Airflow is to read, relative to ``dags``."""
        folder = self.project / "dags"
        return {str(path.relative_to(folder)) for path in folder.rglob("*.py")}

    @property
    def airflow(self) -> AirflowServer:
        """The project's Airflow."""
        return AirflowServer(self.project)

    @property
    def feeder(self) -> Service:
        """The process that keeps landing data."""
        return Service(name="feeder", command=(sys.executable, "-m", "demo.feeder"), folder=self.data / "feeder")

    def broker(self) -> Broker:
        """The project's Kafka broker: on the port it had before, or on the usual one if that is free."""
        folder = self.data / "broker"
        port = None if (folder / "port").exists() or not is_free(KAFKA_PORT) else KAFKA_PORT
        return Broker(folder, class_path=jars.class_path(self.project, "broker"), port=port)

    def environment(self, kafka: str) -> Environment:
        """Places and limits: what this shell says, but for the broker."""
        return Environment.read({**os.environ, "TIDEGATE_PROJECT": str(self.project), "TIDEGATE_KAFKA": kafka})


def up(parts: Parts) -> None:
    """Start what does not run, wait until Airflow lists the pipelines, and say where everything is.

    Raises:
        SetupError: Something is missing, or a part does not come up; what was started here is stopped again.
    """
    check_set_up(parts.project)
    with _alone(parts.data), contextlib.ExitStack() as undo:
        broker = parts.broker()
        if not broker.take_over():
            parts.console.print("Kafka broker …", end=" ")
            undo.callback(broker.stop)
            broker.start()
            parts.console.print(broker.bootstrap)
        broker.create_topic(clicks_feed.TOPIC, clicks_feed.PARTITIONS)
        environment = parts.environment(broker.bootstrap)
        _start_feeder(parts, environment, undo)
        _start_airflow(parts, environment, undo)
        broker.leave_running()
        undo.pop_all()
    status(parts)


def _start_feeder(parts: Parts, environment: Environment, undo: contextlib.ExitStack) -> None:
    folder = environment.landing / flights_feed.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if parts.feeder.leader is None:
        parts.console.print("Feeder …", end=" ")
        undo.callback(stop, [parts.feeder], grace=5.0)
        # The code is this one's, wherever the project lies that is fed.
        here = Path(__file__).resolve().parents[1]
        parts.feeder.start({**os.environ, **environment.variables()}, cwd=here)
        # Airflow runs each pipeline once when it first sees it: the files are to be there by then.
        until = time.monotonic() + _LANDED_SECONDS
        while not any(folder.glob("*.csv")):
            if parts.feeder.leader is None or time.monotonic() > until:
                raise SetupError(f"The feeder did not land anything. The end of its log:\n{parts.feeder.log_tail()}")
            time.sleep(_LOOK_SECONDS)
        parts.console.print(f"lands files in {folder} and messages in topic {clicks_feed.TOPIC}", soft_wrap=True)


def _start_airflow(parts: Parts, environment: Environment, undo: contextlib.ExitStack) -> None:
    airflow = parts.airflow
    changed = airflow.changed(environment.variables())
    if changed:
        # Their names only: a connection's value is a secret.
        parts.console.print(f"Airflow is started anew: this shell gives it another {', '.join(changed)}.")
    asleep = [service for service in airflow.services.values() if changed or service.leader is None]
    # Before the start, which may be interrupted between two of them.
    undo.callback(stop, asleep, grace=8.0)
    started = airflow.start(environment.variables())
    if not started:
        return
    if not airflow.url.endswith(f":{PORT}"):
        parts.console.print(f"Port {PORT} is taken by another program: Airflow gets another one.")
    begun = time.monotonic()
    _wait_until_ready(parts, airflow, started)
    parts.console.print(f"Airflow … ready after {time.monotonic() - begun:.0f} s")


def _wait_until_ready(parts: Parts, airflow: AirflowServer, started: list[Service]) -> None:
    files, read = parts.dag_files, set[str]()
    begun = news = time.monotonic()
    with parts.console.status("Airflow …") as shown:
        # A file without a DAG is one that Airflow never speaks of: after some quiet, nothing more will come.
        while not (healthy := airflow.healthy()) or (
            not files <= read and not (read and time.monotonic() - news > _QUIET_SECONDS)
        ):
            what = "reads the pipelines" if healthy else "starts"
            shown.update(f"Airflow {what} … {time.monotonic() - begun:.0f} s")
            if gone := [service for service in started if service.leader is None]:
                told = "\n".join(f"{service.name}: {service.log_tail()}" for service in gone)
                raise SetupError(f"Airflow did not come up. The end of the logs of what ended:\n{told}")
            if time.monotonic() - begun > _READY_SECONDS:
                logs = airflow.services["api-server"].folder
                raise SetupError(f"Airflow did not become ready in {_READY_SECONDS:.0f} s; its logs are in {logs}")
            time.sleep(_LOOK_SECONDS)
            # The first answer may take longer than the client waits.
            with contextlib.suppress(NoAnswerError):
                if not read >= (now := set(airflow.files())):
                    read, news = read | now, time.monotonic()


def down(parts: Parts) -> None:
    """Stop all that `up` started, with the tasks and Spark applications that Airflow runs just now; nothing else."""
    with _alone(parts.data):
        airflow = parts.airflow.stop()
        fed = stop([parts.feeder], grace=5.0)
        # Last: Spark may be in the middle of reading from it.
        broker = parts.broker()
        ran = broker.take_over() or broker.pid is not None
        broker.stop()
    stopped = [name for name, count in (("Airflow", airflow), ("feeder", fed), ("Kafka broker", ran)) if count]
    parts.console.print(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing ran.")


def status(parts: Parts) -> None:
    """Say what runs, where, and how to log in."""
    airflow, broker = parts.airflow, parts.broker()
    running = airflow.running()
    asleep = [name for name in airflow.services if name not in running]
    say = parts.console.print
    if running:
        say(f"Airflow       {airflow.url}  (log in as {USER}, password {airflow.password})", soft_wrap=True)
        if asleep:
            say(f"              does not run: {', '.join(asleep)}; `make up` starts it again", style="yellow")
        _list_pipelines(parts)
        say(f"Commands      source {_from_here(places.airflow_home(parts.project) / 'env')}")
        say("              makes `airflow` and `tidegate` in a shell those of this project")
    else:
        say("Airflow       does not run")
    runs = broker.take_over()
    say(f"Kafka broker  {broker.bootstrap}" if runs else "Kafka broker  does not run")
    say(
        f"Feeder        {'lands data' if parts.feeder.leader else 'does not run'}; its log is {parts.feeder.log}",
        soft_wrap=True,
    )


def _list_pipelines(parts: Parts) -> None:
    say = parts.console.print
    try:
        with parts.console.status("Airflow lists its pipelines …"):
            dags, files = _listed(parts.airflow)
    except NoAnswerError as error:
        say(f"Pipelines     not known: {error.message}", style="yellow", markup=False, soft_wrap=True)
        return
    say(f"Pipelines     {', '.join(f'{name} (paused)' if paused else name for name, paused in sorted(dags.items()))}")
    for file, problem in sorted(files.items()):
        if problem:
            say(f"              dags/{file} does not load: {problem}", style="red", markup=False, soft_wrap=True)


def _listed(airflow: AirflowServer) -> tuple[dict[str, bool], dict[str, str]]:
    """DAGs and files, once the API answers. It answers 500 while another component has its SQLite locked."""
    until = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            return airflow.dags(), airflow.files()
        except NoAnswerError:
            if time.monotonic() > until:
                raise
            time.sleep(_LOOK_SECONDS)


def _from_here(path: Path) -> Path:
    """As short as a person in this folder would type it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "console.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SetupError("Another `make up` or `make down` works in this project: wait for its end.") from None
        yield


def main() -> int:
    """Run one of the three commands; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.console", description="Tidegate in Airflow, on this machine.")
    parser.add_argument("command", choices=("up", "down", "status"))
    parser.add_argument("--project", type=Path, default=Path(__file__).resolve().parents[1], help="where dags/ lies")
    asked = parser.parse_args()
    # All that is written here and by what is started here: nobody else's to read.
    os.umask(0o077)
    # A polite kill takes back what was started, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    parts = Parts(asked.project.absolute(), console)
    try:
        {"up": up, "down": down, "status": status}[asked.command](parts)
    except KeyboardInterrupt:
        console.print("\nStopped; what was started here is stopped too.")
        return EXIT_INTERRUPTED
    except TidegateError as error:
        console.print(f"\n{error.message}", style="red")
        return error.exit_code
    return 0


if __name__ == "__main__":
    leave(main())
