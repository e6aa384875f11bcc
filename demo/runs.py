"""Runs the real DAGs, one after another, in a child process with Airflow.

`DagRuns` is the parent's side. The child (``python -m demo.runs``) reads one DAG id per line, runs the DAG with ``dag.test``,
and responds with a line of JSON. The output of Airflow and Spark goes to the log. When the child's input ends (the parent has
closed it or has ended), the child interrupts itself, and Airflow's operator stops Spark.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from tidegate.advice import Edit
from tidegate.errors import SetupError, TidegateError
from tidegate.processes import end_group

SECONDS_TO_STOP = 20.0
"""Time for Airflow and Spark to end after an interrupt."""
SECONDS_FOR_SPARK = 5.0
"""More than the operator waits between SIGTERM and SIGKILL."""


class RunCrashedError(TidegateError):
    """The process that runs the DAGs ended, or a run failed with an exception."""


@dataclass(frozen=True, kw_only=True)
class DagRun:
    """The result of one run of a DAG."""

    dag_id: str
    run_id: str
    state: str
    """Airflow's: ``success`` or ``failed``."""
    tasks: Mapping[str, str]
    """Every task's state: ``success``, ``skipped``, ``failed``, …"""
    seconds: float
    error: str = ""
    """The exception that ended the run, if any."""

    @property
    def succeeded(self) -> bool:
        """Whether the run's state is ``success``."""
        return self.state == "success"


@dataclass
class DagRuns:
    """A child process with Airflow, as a context manager that stops it at the end.

    Args:
        project: The project's folder, which contains ``dags/``.
        variables: The child's complete environment.
        log: The file for the output of Airflow and Spark.
    """

    project: Path
    variables: Mapping[str, str]
    log: Path
    _child: subprocess.Popen[str] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Start the child, without waiting until it has imported Airflow."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "demo.runs", str(self.project / "dags")],
                cwd=self.project,
                env=dict(self.variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # So that Ctrl-C in the terminal signals only the parent, which then stops the child.
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the child, with the run in progress."""
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        with contextlib.suppress(OSError):
            child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(SECONDS_TO_STOP)
        if child.poll() is None:
            end_group(child.pid, grace=0)
        child.wait()

    def start(self, dag_id: str) -> PendingRun:
        """Start a run of a DAG.

        Raises:
            RunCrashedError: The child has ended.
        """
        child = self._child
        if child is None or child.poll() is not None:
            raise RunCrashedError(f"The process that runs Airflow has ended; see {self.log}.")
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(f"{dag_id}\n")
        child.stdin.flush()
        return PendingRun(dag_id, child.stdout, self.log)


class PendingRun:
    """A run that may still be in progress."""

    def __init__(self, dag_id: str, answers: IO[str], log: Path) -> None:
        self.dag_id = dag_id
        self.started = time.time()
        self._log = log
        self._answer = ""
        self._reader = threading.Thread(target=self._read, args=(answers,), daemon=True)
        self._reader.start()

    @property
    def running(self) -> bool:
        """Whether the run is in progress."""
        return self._reader.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait for its end, for at most this time."""
        self._reader.join(seconds)

    def result(self) -> DagRun:
        """Wait for its end and return the result.

        Raises:
            RunCrashedError: The child ended, or the run failed with an exception.
        """
        self._reader.join()
        try:
            run = DagRun(**json.loads(self._answer))
        except ValueError:
            raise RunCrashedError(f"The process that runs Airflow has ended; see {self._log}.") from None
        if run.error:
            raise RunCrashedError(f"The run of DAG {self.dag_id!r} failed with {run.error}; see {self._log}.")
        return run

    def _read(self, answers: IO[str]) -> None:
        self._answer = answers.readline()


def main(dags: Path) -> int:
    """The child: run the requested DAGs until the input ends."""
    # Airflow and spark-submit write log messages to stdout, so the answers use a duplicate of it.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            requests.put(line.strip())
        requests.put(None)
        main_thread = threading.main_thread().ident or 0
        while True:
            # The main thread blocks in a read of Spark's output, which only a signal to this thread interrupts. Airflow
            # treats the first signal as a failure of the task, stops Spark, and waits for the retry: hence the loop.
            signal.pthread_kill(main_thread, signal.SIGINT)
            time.sleep(SECONDS_FOR_SPARK)

    threading.Thread(target=listen, daemon=True).start()
    dags_by_id: dict[str, Any] = {}
    try:
        for path in sorted(dags.glob("[a-z]*.py")):
            dags_by_id[path.stem] = runpy.run_path(str(path))["dag"]
        while (dag_id := requests.get()) is not None:
            answers.write(json.dumps(_run(dags_by_id, dag_id)) + "\n")
            answers.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    return 130


def _run(dags: Mapping[str, Any], dag_id: str) -> dict[str, Any]:
    started = time.monotonic()
    answer: dict[str, Any] = {"dag_id": dag_id, "run_id": "", "state": "", "tasks": {}}
    try:
        run = dags[dag_id].test(run_conf={})
        tasks = {instance.task_id: _plain(instance.state) for instance in run.get_task_instances()}
        answer |= {"run_id": run.run_id, "state": _plain(run.state), "tasks": tasks}
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        answer["error"] = type(error).__name__
    return answer | {"seconds": round(time.monotonic() - started, 3)}


def _plain(state: object) -> str:
    """A state without the name of its enum class."""
    return str(state).rpartition(".")[2].lower()


def check_installed(project: Path) -> None:
    """Check that the DAGs exist.

    Raises:
        SetupError: They do not.
    """
    if not (project / "dags" / "flights.py").is_file():
        raise SetupError(
            f"There are no DAGs in {project / 'dags'}",
            Edit("run the demo in a clone of the project", "request"),
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
