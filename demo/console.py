"""Runs the whole platform on one machine in the background: ``make up``, ``make status``, ``make down``.

Airflow with the project's pipelines, a Kafka broker, and a feeder that continuously lands data. They keep running after
`up` has ended, and `up` starts those that do not run. They listen on loopback only, and their files are readable only by
their owner.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from demo import clicks_feed, flights_feed, payments_feed
from demo.services import check_set_up, exclusive
from demo.topics import create_topics
from devstack import airflow_home
from devstack.airflow_server import PORT, USER, AirflowServer
from devstack.broker import Broker
from devstack.service import Service, stop
from tidegate.advice import OutsideAct
from tidegate.environment import Environment
from tidegate.errors import AirflowUnavailableError, SetupError, TidegateError
from tidegate.processes import exit_now
from tidegate.runtime import jars

EXIT_INTERRUPTED = 130
KAFKA_PORT = 9092
"""The default port of the project's commands, which the broker prefers."""
_READY_SECONDS = 240.0
_QUIET_SECONDS = 30.0
_LANDED_SECONDS = 60.0
_ANSWER_SECONDS = 60.0
_POLL_SECONDS = 0.5
_RUNNING = "Another `make up` or `make down` is running in this project: wait until it ends."


@dataclass(frozen=True)
class Services:
    """The services that `up` starts, in the project's folders ``.airflow`` and ``.data``."""

    project: Path
    console: Console

    @property
    def data(self) -> Path:
        """The folder of the broker and the feeder, and by default of the lake and the landing zone."""
        return self.project / ".data"

    @property
    def dag_files(self) -> set[str]:
        """The DAG files, relative to ``dags``."""
        folder = self.project / "dags"
        return {str(path.relative_to(folder)) for path in folder.rglob("*.py")}

    @property
    def airflow(self) -> AirflowServer:
        """The project's Airflow."""
        return AirflowServer(self.project)

    @property
    def feeder(self) -> Service:
        """The process that continuously lands data."""
        return Service(name="feeder", command=(sys.executable, "-m", "demo.feeder"), folder=self.data / "feeder")

    def broker(self) -> Broker:
        """The project's Kafka broker."""
        return Broker(self.data / "broker", class_path=jars.class_path(self.project, "broker"), port=KAFKA_PORT)

    def environment(self, kafka: str) -> Environment:
        """The environment of this shell, with this project and this broker."""
        return Environment.read({**os.environ, "TIDEGATE_PROJECT": str(self.project), "TIDEGATE_KAFKA": kafka})


def up(services: Services) -> None:
    """Start the services that do not run, wait until Airflow lists the pipelines, and print all addresses.

    Raises:
        SetupError: A prerequisite is missing, or a service does not start; services that this call started are stopped.
    """
    check_set_up(services.project)
    with exclusive(services.data / "console.lock", _RUNNING), contextlib.ExitStack() as undo:
        broker = services.broker()
        if not broker.take_over():
            services.console.print("Kafka broker …", end=" ")
            undo.callback(broker.stop)
            broker.start()
            services.console.print(broker.bootstrap)
        create_topics(broker)
        environment = services.environment(broker.bootstrap)
        _start_feeder(services, environment, undo)
        _start_airflow(services, environment, undo)
        broker.leave_running()
        undo.pop_all()
    status(services)


def _start_feeder(services: Services, environment: Environment, undo: contextlib.ExitStack) -> None:
    folder = environment.landing / flights_feed.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if services.feeder.leader is None:
        services.console.print("Feeder …", end=" ")
        undo.callback(stop, [services.feeder], grace=5.0)
        # The code of this repository, also when `--project` names another folder.
        here = Path(__file__).resolve().parents[1]
        services.feeder.start({**os.environ, **environment.variables()}, cwd=here)
        # Airflow runs each new pipeline once at its start: files must have landed by then.
        until = time.monotonic() + _LANDED_SECONDS
        while not any(folder.glob("*.csv")):
            if services.feeder.leader is None or time.monotonic() > until:
                raise SetupError(
                    f"The feeder has landed no file. The end of its log:\n{services.feeder.log_tail()}",
                    OutsideAct("remove the cause, and start again"),
                )
            time.sleep(_POLL_SECONDS)
        services.console.print(
            f"lands files in {folder} and messages in topics {clicks_feed.TOPIC} and {payments_feed.TOPIC}",
            soft_wrap=True,
        )


def _start_airflow(services: Services, environment: Environment, undo: contextlib.ExitStack) -> None:
    airflow = services.airflow
    changed = airflow.changed(environment.variables())
    if changed:
        # Names only: the value of a connection is a secret.
        services.console.print(f"Airflow is restarted: this shell has another {', '.join(changed)}.")
    to_start = [service for service in airflow.services.values() if changed or service.leader is None]
    # Before the start, which may be interrupted halfway.
    undo.callback(stop, to_start, grace=8.0)
    started = airflow.start(environment.variables())
    # Components that run may be about to end.
    if started or not airflow.healthy():
        _announce(services, environment, started)
    airflow.start_watch(environment.variables())


def _announce(services: Services, environment: Environment, started: list[Service]) -> None:
    airflow = services.airflow
    if not airflow.url.endswith(f":{PORT}"):
        services.console.print(f"Port {PORT} is in use by another program: Airflow uses another one.")
    start = time.monotonic()
    _wait_until_ready(services, environment, started)
    services.console.print(f"Airflow … ready after {time.monotonic() - start:.0f} s")


def _wait_until_ready(services: Services, environment: Environment, started: list[Service]) -> None:
    airflow, files, parsed = services.airflow, services.dag_files, set[str]()
    starts = dict.fromkeys((service.name for service in started), datetime.now(UTC))
    start = last_change = time.monotonic()
    with services.console.status("Airflow …") as line:
        # Airflow never lists a file without a DAG: after a time without new files, all are assumed to be parsed.
        while not (healthy := airflow.healthy(starts)) or (
            not files <= parsed and not (parsed and time.monotonic() - last_change > _QUIET_SECONDS)
        ):
            what = "reads the pipelines" if healthy else "starts"
            line.update(f"Airflow {what} … {time.monotonic() - start:.0f} s")
            if ended := [each for each in airflow.services.values() if each.name in starts and each.leader is None]:
                logs = "\n".join(f"{service.name}: {service.log_tail()}" for service in ended)
                raise SetupError(
                    f"Airflow did not start. The end of the logs of the components that ended:\n{logs}",
                    OutsideAct("remove the cause, and start again"),
                )
            # A component that was about to end counted as running.
            for late in airflow.start_ended(environment.variables()):
                starts[late.name] = datetime.now(UTC)
            if time.monotonic() - start > _READY_SECONDS:
                folder = airflow.services["api-server"].folder
                raise SetupError(
                    f"Airflow did not become ready in {_READY_SECONDS:.0f} s",
                    OutsideAct(f"its logs are in {folder}"),
                )
            time.sleep(_POLL_SECONDS)
            # The first response may take longer than the client waits.
            with contextlib.suppress(AirflowUnavailableError):
                if not parsed >= (now := set(airflow.files())):
                    parsed, last_change = parsed | now, time.monotonic()


def down(services: Services) -> None:
    """Stop all services that `up` started, with the running tasks and Spark applications of Airflow."""
    with exclusive(services.data / "console.lock", _RUNNING):
        airflow = services.airflow.stop()
        feeder = stop([services.feeder], grace=5.0)
        # Last, because Spark may still read from it.
        broker = services.broker()
        running = broker.take_over() or broker.pid is not None
        broker.stop()
    stopped = [name for name, count in (("Airflow", airflow), ("feeder", feeder), ("Kafka broker", running)) if count]
    services.console.print(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing ran.")


def status(services: Services) -> None:
    """Print what runs, the addresses, and how to log in."""
    airflow, broker = services.airflow, services.broker()
    running = airflow.running()
    parts = {**airflow.services, airflow.watch.name: airflow.watch}
    not_running = [name for name, part in parts.items() if part.leader is None]
    print_line = services.console.print
    if running:
        print_line(f"Airflow       {airflow.url}  (log in as {USER}, password {airflow.password})", soft_wrap=True)
        if not_running:
            print_line(
                f"              does not run: {', '.join(not_running)}; `make up` starts what the watch does not start again",
                style="yellow",
            )
        _list_pipelines(services)
        print_line(f"Commands      source {_relative(airflow_home.folder(services.project) / 'env')}")
        print_line("              makes `airflow` and `tidegate` in a shell those of this project")
    else:
        print_line("Airflow       does not run; `make up` starts everything")
    broker_runs = broker.take_over()
    print_line(f"Kafka broker  {broker.bootstrap}" if broker_runs else "Kafka broker  does not run")
    log = f"; its log is {services.feeder.log}" if services.feeder.log.exists() else ""
    print_line(f"Feeder        {'lands data' if services.feeder.leader else 'does not run'}{log}", soft_wrap=True)


def _list_pipelines(services: Services) -> None:
    print_line = services.console.print
    try:
        with services.console.status("Airflow lists its pipelines …"):
            dags, files = _listed(services.airflow)
    except AirflowUnavailableError as error:
        print_line(f"Pipelines     not known: {error.message}", style="yellow", markup=False, soft_wrap=True)
        return
    names = [f"{name} (paused)" if paused else name for name, paused in sorted(dags.items())]
    print_line(f"Pipelines     {', '.join(names)}")
    for file, problem in sorted(files.items()):
        if problem:
            print_line(f"              dags/{file} does not load: {problem}", style="red", markup=False, soft_wrap=True)


def _listed(airflow: AirflowServer) -> tuple[dict[str, bool], dict[str, str]]:
    """DAGs and files. Waits until the API responds: it returns 500 while another component has SQLite locked."""
    until = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            return airflow.dags(), airflow.files()
        except AirflowUnavailableError:
            if time.monotonic() > until:
                raise
            time.sleep(_POLL_SECONDS)


def _relative(path: Path) -> Path:
    """The path relative to the working directory, if it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def main() -> int:
    """Run one of the three commands; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.console", description="Tidegate in Airflow, on this machine.")
    parser.add_argument("command", choices=("up", "down", "status"))
    parser.add_argument(
        "--project", type=Path, default=Path(__file__).resolve().parents[1], help="the folder with dags/"
    )
    arguments = parser.parse_args()
    # Files of this process and of the services are readable only by their owner.
    os.umask(0o077)
    # SIGTERM stops the services that were started, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    services = Services(arguments.project.absolute(), console)
    try:
        {"up": up, "down": down, "status": status}[arguments.command](services)
    except KeyboardInterrupt:
        console.print("\nStopped, with the services that this command had started.")
        return EXIT_INTERRUPTED
    except TidegateError as error:
        console.print(f"\n{error.message}", style="red")
        return error.exit_code
    return 0


if __name__ == "__main__":
    exit_now(main())
