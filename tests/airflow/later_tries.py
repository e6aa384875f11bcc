"""A task whose driver runs on a cluster, and what its later tries do: wait for that driver, or replace it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from demo import checks, flights_feed, recompute
from pipelines.flights import pipeline
from tests.airflow.in_process import InProcessRun
from tests.cli.project import COMMAND
from tests.live.project import HOLD
from tests.waiting import wait_until
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import AttemptPlace
from tidegate.reports.report import RunReport


def mistakes(layout: Layout) -> list[Any]:
    """What is wrong in the tables of the pipeline `flights`, by an independent computation."""
    with contextlib.closing(recompute.flights(Path(layout.landing_root))) as answer:
        compared = [checks.balance(layout, pipeline), *checks.exactly_once(layout, pipeline, answer)]
    return [check for check in compared if not check.passed]


class LaterTries:
    """The pipeline `flights`, whose drivers wait in the transform of silver as long as a file is there.

    Args:
        project: The folder of the project.
        drivers: The names of the drivers that the cluster knows.
    """

    def __init__(self, project: Path, drivers: Callable[[], list[str]]) -> None:
        self._project, self._drivers, self._hold = project, drivers, project / "hold"
        self.layout = Layout.local(project / ".data/lake", project / ".data/landing")
        with (project / "spark_jobs/flights.py").open("a") as transforms:
            transforms.write(HOLD)

    def begin(self, day: int) -> InProcessRun:
        """A run whose first try has submitted a driver; nothing of its process is used again."""
        from dags.flights import dag

        flights_feed.land_day(Path(self.layout.landing_root), date(2013, 1, day))
        run = InProcessRun(dag, run_id=f"manual__{day}")
        assert run.execute("plan") == "success"
        self._hold.touch()
        assert run.execute("run") == "deferred"
        return run

    def expect_to_wait_for_the_driver(self) -> None:
        """A later try of a task that was lost finds the driver of the first one."""
        run = self.begin(1)
        attempt, drivers = run.xcom("run", "attempt"), self._drivers()
        assert run.execute("run") == "deferred"
        assert (run.xcom("run", "attempt"), self._drivers()) == (attempt, drivers)
        assert len(drivers) == 1
        self._hold.unlink()
        assert run.resume("run") == "success"
        assert self._drivers() == drivers
        assert [run.execute(flow) for flow in ("bronze", "silver", "gold")] == ["success"] * 3

    def expect_to_replace_a_driver_that_is_cancelled_or_cleared(self) -> None:
        """Its task is cleared twice after it was cancelled: a driver that has ended is replaced, one that is alive is killed."""
        run = self.begin(2)
        # The driver sees it in the step that it is in.
        wait_until(lambda: self._is_held(run), "silver transforms")
        words = [str(COMMAND), "cancel", run.run_id, "--reason", "the wrong day"]
        output = subprocess.run(words, capture_output=True, text=True, check=True, cwd=self._project).stdout
        assert "ends before its next write: cancelled by " in output
        self._hold.unlink()
        assert run.resume("run") == "up for retry"
        ended = self._report(run)
        assert ended is not None and ended.error is not None
        assert (ended.error.kind, ended.error.transient) == ("RunCancelledError", False)
        assert "the wrong day" in run.message and "Airflow tries again" not in run.message
        assert [flow.state for flow in ended.flows] == ["done", "failed", "waiting"]
        refused = subprocess.run(words, capture_output=True, text=True, check=False, cwd=self._project)
        assert refused.returncode == os.EX_USAGE and "there is nothing to cancel" in refused.stderr

        self._hold.touch()
        for clears in (1, 2):
            run.max_tries = 3 + clears
            assert run.execute("run") == "deferred"
            # It has the leases of its flows, which the next one needs.
            wait_until(lambda: self._is_held(run), "silver transforms again")
        self._hold.unlink()
        assert run.resume("run") == "success"

    def expect_the_driver_of_a_marked_task_to_keep_out_others(self) -> None:
        """A task is marked as failed while no triggerer is there: its driver goes on until it is cancelled, and the next run waits."""
        marked = self.begin(3)
        wait_until(lambda: self._is_held(marked), "silver transforms")
        dag, drivers = marked.dag, self._drivers()
        run = InProcessRun(dag, run_id="manual__after")
        assert run.execute("plan") == "success"
        assert run.execute("run") == "deferred"
        assert run.resume("run") == "up for retry"
        # The driver before it has the leases of the flows.
        assert "is held by" in run.message and "Airflow tries again" in run.message
        assert self._is_held(marked) and len(self._drivers()) == len(drivers) + 1

        words = [str(COMMAND), "cancel", marked.run_id, "--reason", "marked as failed"]
        subprocess.run(words, capture_output=True, text=True, check=True, cwd=self._project)
        self._hold.unlink()
        wait_until(lambda: (ended := self._report(marked)) is not None and ended.ended_at is not None, "it has ended")
        assert run.execute("run") == "deferred"
        assert run.resume("run") == "success"

    def _report(self, run: InProcessRun) -> RunReport | None:
        place = AttemptPlace(self.layout, "flights", run_key(run.run_id), run.xcom("run", "attempt"))
        return RunReport.read(place.report)

    def _is_held(self, run: InProcessRun) -> bool:
        known = self._report(run)
        return known is not None and any(flow.state == "running" for flow in known.flows if flow.flow == "silver")
