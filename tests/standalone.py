"""A real standalone cluster of Spark on loopback, whose executors have what docs/guides/cluster.md lists, and nothing of this project."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import psutil

from devstack.ports import LOOPBACK, free_port, listens
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import end_group
from tidegate.runtime import java, job_environment

PACKAGES = (
    *("msgspec", "numpy", "obstore", "pandas", "pendulum", "pyarrow"),
    *("python-dateutil", "pytz", "six", "typing_extensions", "tzdata"),
)
"""Those of docs/guides/cluster.md, with what they need."""
HOSTS = (LOOPBACK, "localhost")
"""Two names of this machine."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for the JVMs of servers and executors, of which none in a test lives long enough to gain by more compilation."""


@dataclass
class Cluster:
    """A master and its workers."""

    folder: Path
    environment: Mapping[str, str]
    """Of workers; executors inherit it."""
    master: str = field(default_factory=lambda: f"spark://{LOOPBACK}:{free_port()}")
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of drivers."""
        return {"TIDEGATE_MASTER": self.master}

    @property
    def log(self) -> str:
        """What master and workers say."""
        return (self.folder / "cluster.log").read_text()

    def start(self, *workers: str) -> None:
        """Start the master, and workers with one core each, whose folders are below ``work``; wait until they are registered.

        For Spark they are on two machines: it gives none a second attempt at a task that it already attempts.
        """
        self._start_master()
        for name, host in zip(workers, itertools.cycle(HOSTS)):
            folder = str(self.folder / "work" / name)
            self._start("worker.Worker", self.master, "--cores", "1", "--memory", "1g", "--work-dir", folder, host=host)
        wait_until(lambda: self.log.count("Registering worker") == len(workers), "the workers are registered")

    def _start_master(self) -> None:
        port = self.master.rpartition(":")[2]
        self._start("master.Master", "--port", port)
        wait_until(lambda: listens(int(port)), "the master listens")

    def _start(self, role: str, *arguments: str, host: str = LOOPBACK) -> None:
        command = [str(job_environment.spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        with (self.folder / "cluster.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments, "--host", host, "--webui-port", "0"],
                    env=dict(self.environment),
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def executors(self) -> list[psutil.Process]:
        """Those that its workers have started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            started = [each for worker in self._processes[1:] for each in psutil.Process(worker.pid).children()]
            return [each for each in started if not ended(each)]
        return []

    def executor_in(self, folder: Path) -> psutil.Process:
        """The executor that works in a folder."""
        (executor,) = (each for each in self.executors() if each.cwd() == str(folder))
        return executor

    def kill(self, pid: int) -> None:
        """End a process of the cluster at once, and for good."""
        (process,) = (each for each in self._processes if each.pid == pid)
        process.kill()
        process.wait()

    def lose_worker_of(self, executor: psutil.Process) -> None:
        """End a worker and its executor at once, and for good, as a machine that is switched off."""
        worker = executor.parent()
        assert worker is not None
        self.kill(worker.pid)
        kill_executor(executor)

    def restart_master(self) -> None:
        """End the master at once, start it again, and wait until it knows its workers, and what it remembers of applications."""
        known = self.log.count("Recovery complete"), self.log.count("Registering worker")
        master = self._processes.pop(0)
        master.kill()
        master.wait()
        self._start_master()
        self._processes.insert(0, self._processes.pop())
        wait_until(
            lambda: (
                self.log.count("Recovery complete") > known[0]
                or self.log.count("Registering worker") >= known[1] + len(self._processes) - 1
            ),
            "the master knows its workers",
        )

    def stop(self) -> None:
        """End all processes."""
        for process in self._processes:
            end_group(process.pid, grace=TIMEOUT_SECONDS)
            process.wait()


def ended(process: psutil.Process) -> bool:
    """Whether a process has ended. A worker may leave it a zombie as long as something has its output open."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def kill_executor(executor: psutil.Process) -> None:
    """End an executor at once."""
    with contextlib.suppress(psutil.NoSuchProcess):
        executor.kill()
    wait_until(lambda: ended(executor), "the executor has ended")


@contextmanager
def standalone_cluster(folder: Path, workers: Sequence[str] = ("one", "two"), **variables: str) -> Iterator[Cluster]:
    """A master and workers. On the path of their executors is an old version of the project, which they must not import.

    Args:
        folder: Of the cluster. Its link ``java`` is the Java of the workers.
        workers: Their names.
        variables: More of their environment.
    """
    old = folder / "old"
    for name in ("tidegate", "spark_jobs"):
        (old / name).mkdir(parents=True)
        (old / name / "__init__.py").write_text("raise SystemError('an old version was imported')\n")
    home = java.find()
    # A link, so that a test can remove the workers' Java.
    (folder / "java").symlink_to(home.variables.get("JAVA_HOME") or home.executable.resolve().parents[1])
    own = {
        **home.variables,
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(folder / "java"),
        "HOME": str(folder / "nowhere"),
        "PYTHONPATH": str(old),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": QUICK_JAVA,
    }
    made = Cluster(folder, {**own, **variables})
    try:
        made.start(*workers)
        yield made
    finally:
        made.stop()


def executor_python(folder: Path, *more: str) -> Path:
    """The Python of a new environment with `PACKAGES` alone.

    Args:
        folder: Of the environment.
        more: Packages that need no others: those for topics, stateful flows and Avro.
    """
    venv.create(folder, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    for name in (*PACKAGES, *more):
        installed = metadata.distribution(name)
        for part in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
            (site / part).symlink_to(str(installed.locate_file(part)))
    return folder / "bin" / "python"
