"""Runs the real DAGs, one after another, in one child process that has Airflow loaded.

`DagRuns` is the parent's side. The child (``python -m demo.runs``) reads the name of a DAG per line, brings a run of it
to its end with ``dag.test``, and answers with a line of JSON. All that Airflow and Spark say goes to the log. When
its input ends (the parent closed it, or is gone), the child interrupts itself, and Airflow's operator ends Spark.
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

from tidegate.embedded.processes import Process
from tidegate.errors import SetupError, TidegateError

SECONDS_TO_STOP = 20.0
"""For Airflow and Spark to end in order after an interrupt."""
SECONDS_FOR_SPARK = 5.0
"""More than the operator gives Spark between SIGTERM and SIGKILL."""


class RunCrashedError(TidegateError):
    """The process that runs the DAGs ended, or Airflow did not bring a run to its end."""


@dataclass(frozen=True, kw_only=True)
class DagRun:
    """How one run of a DAG ended."""

    dag_id: str
    run_id: str
    state: str
    """Airflow's: ``success`` or ``failed``."""
    tasks: Mapping[str, str]
    """Every task's state: ``success``, ``skipped``, ``failed``, …"""
    seconds: float
    error: str = ""
    """Why there is no end, if there is none."""

    @property
    def succeeded(self) -> bool:
        """Whether Airflow marked the run green."""
        return self.state == "success"


@dataclass
class DagRuns:
    """A child process with Airflow in it. Usable as a context manager, which stops it.

    Args:
        project: The project's folder, which holds ``dags/``.
        variables: The child's whole environment.
        log: Where everything goes that Airflow and Spark say.
    """

    project: Path
    variables: Mapping[str, str]
    log: Path
    _child: subprocess.Popen[str] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Start the child; it loads Airflow in the meantime."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "demo.runs", str(self.project / "dags")],
                cwd=self.project,
                env=dict(self.variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C in the terminal is for the parent, which then stops this one in order.
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the child, and with it whatever it runs."""
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        with contextlib.suppress(OSError):
            child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(SECONDS_TO_STOP)
        if child.poll() is None and (left := Process.of(child.pid)) is not None:
            left.kill_group()
        child.wait()

    def start(self, dag_id: str) -> PendingRun:
        """Begin a run of a DAG.

        Raises:
            RunCrashedError: The child is gone.
        """
        child = self._child
        if child is None or child.poll() is not None:
            raise RunCrashedError(f"The process that runs Airflow has ended; {self.log} says why.")
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(f"{dag_id}\n")
        child.stdin.flush()
        return PendingRun(dag_id, child.stdout, self.log)


class PendingRun:
    """A run that goes on."""

    def __init__(self, dag_id: str, answers: IO[str], log: Path) -> None:
        self.dag_id = dag_id
        self.started = time.time()
        self._log = log
        self._answer = ""
        self._reader = threading.Thread(target=self._read, args=(answers,), daemon=True)
        self._reader.start()

    @property
    def going_on(self) -> bool:
        """Whether it has not ended yet."""
        return self._reader.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long."""
        self._reader.join(seconds)

    def result(self) -> DagRun:
        """How it ended.

        Raises:
            RunCrashedError: It has no end; names the log.
        """
        self._reader.join()
        try:
            run = DagRun(**json.loads(self._answer))
        except ValueError:
            raise RunCrashedError(f"The process that runs Airflow has ended; {self._log} says why.") from None
        if run.error:
            raise RunCrashedError(f"Airflow did not bring {self.dag_id!r} to its end ({run.error}); see {self._log}.")
        return run

    def _read(self, answers: IO[str]) -> None:
        self._answer = answers.readline()


def main(dags: Path) -> int:
    """The child: answer requests until there are no more."""
    # Airflow and spark-submit write to stdout what belongs into the log, so the answers get a copy of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            requests.put(line.strip())
        requests.put(None)
        main_thread = threading.main_thread().ident or 0
        while True:
            # To the main thread by name: it sits in a read of Spark's output, which only its own signal ends. Airflow
            # takes the first one for a failure of the task, ends Spark, and would wait to try again: so once more.
            signal.pthread_kill(main_thread, signal.SIGINT)
            time.sleep(SECONDS_FOR_SPARK)

    threading.Thread(target=listen, daemon=True).start()
    loaded: dict[str, Any] = {}
    try:
        for path in sorted(dags.glob("[a-z]*.py")):
            loaded[path.stem] = runpy.run_path(str(path))["dag"]
        while (dag_id := requests.get()) is not None:
            answers.write(json.dumps(_run(loaded, dag_id)) + "\n")
            answers.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    return 130


def _run(loaded: Mapping[str, Any], dag_id: str) -> dict[str, Any]:
    started = time.monotonic()
    answer: dict[str, Any] = {"dag_id": dag_id, "run_id": "", "state": "", "tasks": {}}
    try:
        ended = loaded[dag_id].test(run_conf={})
        tasks = {instance.task_id: _plain(instance.state) for instance in ended.get_task_instances()}
        answer |= {"run_id": ended.run_id, "state": _plain(ended.state), "tasks": tasks}
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        answer["error"] = type(error).__name__
    return answer | {"seconds": round(time.monotonic() - started, 3)}


def _plain(state: object) -> str:
    """A state without the name of its enumeration."""
    return str(state).rpartition(".")[2].lower()


def check_installed(project: Path) -> None:
    """Whether the DAGs are there.

    Raises:
        SetupError: They are not.
    """
    if not (project / "dags" / "flights.py").is_file():
        raise SetupError(f"There are no DAGs in {project / 'dags'}: run the demo in a clone of the project.")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
