"""The demo's own folder, broker and Airflow: set up afresh each time, taken down whatever happens.

Everything lies in one folder. Only what an earlier demo made there is deleted, and nothing of the
project's own lake, landing zone or Airflow home is touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from demo import clicks_feed, flights_feed
from demo.runs import DagRuns, check_installed
from tidegate.embedded import airflow_home, jars, java
from tidegate.embedded.broker import Broker
from tidegate.embedded.processes import Process
from tidegate.environment import Environment
from tidegate.errors import SetupError
from tidegate.layout import Layout

_MADE = ("lake", "landing", "broker", "demo.log")
"""What the demo makes anew each time. Its Airflow home and the marker stay."""
_MARKER = "made-by-the-demo"


@dataclass(frozen=True)
class Stage:
    """What the story needs, ready to use."""

    project: Path
    folder: Path
    environment: Environment
    layout: Layout
    runs: DagRuns

    @property
    def log(self) -> Path:
        """What Airflow and Spark said."""
        return self.folder / "demo.log"

    def told(self, path: Path) -> str:
        """A path as the reader can use it: relative to where they are, if it is below."""
        with contextlib.suppress(ValueError):
            return str(path.relative_to(Path.cwd()))
        return str(path)


def check_set_up(project: Path) -> None:
    """Whether the demo can run at all; takes no time.

    Raises:
        SetupError: Something is missing; one sentence says what to do.
    """
    java.find()
    check_installed(project)
    if jars.missing(project):
        raise SetupError("The Spark jars are not there yet: run `make setup`.")
    flights_feed.data_file()


@contextlib.contextmanager
def set_up(project: Path, folder: Path) -> Iterator[Stage]:
    """Start the broker and the process that runs the DAGs; stop both in the end.

    Args:
        project: Where the code is.
        folder: Where the demo keeps everything.

    Raises:
        SetupError: Another demo runs, something in the folder is not the demo's, or a part does not come up.
    """
    with _alone(folder):
        _clean(folder)
        environment_of_airflow = _airflow(project, folder)
        broker = Broker(folder / "broker", class_path=jars.class_path(project, "broker"))
        with ThreadPoolExecutor(2) as threads, contextlib.ExitStack() as parts:
            flights = threads.submit(flights_feed.days)
            parts.callback(broker.stop)
            broker.start()
            environment = Environment.read(
                {
                    **os.environ,
                    "TIDEGATE_PROJECT": str(project),
                    "TIDEGATE_LAKE": str(folder / "lake"),
                    "TIDEGATE_LANDING": str(folder / "landing"),
                    "TIDEGATE_KAFKA": broker.bootstrap,
                }
            )
            variables = environment_of_airflow | environment.variables()
            runs = parts.enter_context(DagRuns(project, variables, folder / "demo.log"))
            broker.create_topic(clicks_feed.TOPIC, clicks_feed.PARTITIONS)
            flights.result()
            yield Stage(project, folder, environment, Layout.of(environment), runs)


def _airflow(project: Path, folder: Path) -> dict[str, str]:
    """A home of the demo's own, so that the project's Airflow never hears of tables that only a demo had."""
    airflow_home.ensure(folder)
    return airflow_home.environment(folder) | {
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(project / "plugins"),
    }


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[IO[str]]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "running").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SetupError("Another demo runs in this project: wait for its end, or stop it with Ctrl-C.") from None
        yield lock


def _clean(folder: Path) -> None:
    """Delete what an earlier demo made, and stop the broker that a killed one left."""
    marker = folder / _MARKER
    found = [folder / name for name in _MADE if (folder / name).exists()]
    if found and not marker.exists():
        raise SetupError(f"{found[0]} was not made by the demo: move it away, the demo needs the place.")
    marker.touch()
    left = Process.read(folder / "broker" / "broker.pid")
    if left is not None and left.alive:
        left.stop_group(20)
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
