"""A deployment in a folder of its own, whose runs use the Spark session of this process or a separate driver."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lakes_in_buckets import lake_folder, lakes_in_buckets, of_drivers
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.environment import Environment
from tidegate.processes import end_group
from tidegate.project import registry
from tidegate.quarantine.selection import Selection
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.store import Address
from tidegate.testing.lake import Lake, read

if TYPE_CHECKING:
    import pyarrow

DRIVER = Path(__file__).parent / "chaos" / "driver.py"


@dataclass(frozen=True)
class Deployment(Lake):
    """Lake, landing zone and project folder of one test of the pipeline `flights`, or of others by name."""

    pipeline: str = "flights"
    source: Path = Path()
    """The folder of the project under test."""

    @classmethod
    def make(cls, folder: Path, source: Path) -> Deployment:  # type: ignore[override]  # it is made of a project
        """Create lake, landing zone and a project folder with copies of the files that a test may edit."""
        project = folder / "project"
        shutil.copytree(source / "expectations", project / "expectations")
        (folder / "landing").mkdir()
        return cls.of(folder, source)

    @classmethod
    def of(cls, folder: Path, source: Path, **variables: str) -> Deployment:
        """An existing deployment.

        Args:
            folder: Its folder.
            source: The folder of the project under test.
            variables: The environment, where lake or landing zone are not in the folder.
        """
        own = {
            "TIDEGATE_PROJECT": str(folder / "project"),
            "TIDEGATE_LAKE": str(folder / "lake"),
            "TIDEGATE_LANDING": str(folder / "landing"),
        }
        if (lakes := lakes_in_buckets()) is not None:
            own |= lakes.variables(folder)
        return cls(Environment.read({**own, **variables}), source=source)

    @property
    def folder(self) -> Path:
        """The folder of the test."""
        return self.environment.project.parent

    @property
    def lake_folder(self) -> Path:
        """The folder of the lake's files."""
        return lake_folder(self.folder)

    def land(self, name: str, content: str | bytes, folder: str = "flights") -> Path:
        return super().land(f"{folder}/{name}", content)

    def replay_request(self, flow: str, name: str = "flights", **parameters: Any) -> RunRequest:
        """The request of a replay, with ``limit``, ``dry_run`` or the parameters of `Selection`."""
        options = {option: parameters.pop(option) for option in ("limit", "dry_run") if option in parameters}
        selection = Selection.check(**parameters)
        pipeline = registry.load(name)
        return RunRequest.of_replay(pipeline, flow, fresh_id("test"), selection, requested_by="ada", **options)

    def replay(self, flow: str, name: str = "flights", **options: Any) -> FlowReport:
        """One replay in the session of this process."""
        from tidegate.spark.application import run_application

        return run_application(self.environment, self.replay_request(flow, name, **options), fresh_id("a")).flow(flow)

    def run_and_abort(
        self,
        at: str,
        name: str = "flights",
        flows: Iterable[str] = (),
        *,
        batch: int = 0,
        request: RunRequest | None = None,
    ) -> None:
        """Like `run_and_kill`, but in the session of this process; leaves the same files. See `tests.fault_points`."""
        from pyspark.sql import SparkSession

        from tests.fault_points import aborted

        spark = SparkSession.getActiveSession()
        assert spark is not None, "the test needs the fixture `spark`"
        request = request or self.request(name, flows)
        request.write(self.layout)
        with aborted(at, self.lake_folder, spark, batch=batch):
            self.try_run(request)

    def run_and_kill(
        self,
        at: str,
        name: str = "flights",
        flows: Iterable[str] = (),
        *,
        batch: int = 0,
        request: RunRequest | None = None,
    ) -> None:
        """One run in a separate driver that is SIGKILLed at a step; fails if the run does not reach the step.

        Args:
            at: ``<before|after>:<step>:<flow>``, a step of `tidegate.spark.batch.micro_batch` or `tidegate.spark.reprocessing.replay`.
            name: The pipeline.
            flows: Only these.
            batch: In which batch, from 0.
            request: The request; an increment of ``flows`` by default.
        """
        driver, marker = self.start_driver(at, request or self.request(name, flows), batch=batch)
        output, _ = driver.communicate(timeout=TIMEOUT_SECONDS)
        assert driver.returncode == -signal.SIGKILL, (
            f"not killed, but ended with {driver.returncode}:\n{output[-6000:]}"
        )
        assert marker.read_text() == at

    @contextmanager
    def driver_that_waits(self, at: str, name: str = "flights", flows: Iterable[str] = ()) -> Iterator[None]:
        """A separate driver that waits at ``hold:<step>:<flow>``; SIGKILLed at the end."""
        driver, marker = self.start_driver(at, self.request(name, flows), batch=0)
        try:
            wait_until(lambda: marker.exists() or driver.poll() is not None, f"the driver waits at {at}")
            assert marker.exists(), "the driver ended before the step"
            yield
        finally:
            end_group(driver.pid, grace=0)
            driver.communicate()

    def environment_of_drivers(self) -> dict[str, str]:
        """The variables of a driver in a process of its own, which imports the transforms of this deployment."""
        return {**os.environ, **self.environment.variables(), **of_drivers(), "PYTHONPATH": str(self.source)}

    def start_driver(self, at: str, request: RunRequest, *, batch: int) -> tuple[subprocess.Popen[str], Path]:
        """A separate driver, and the file that it writes when it reaches ``at``."""
        request_id, marker = request.write(self.layout), self.folder / fresh_id("reached")
        command = [
            sys.executable,
            str(DRIVER),
            at,
            str(batch),
            str(marker),
            request.dag_id,
            request.run_key,
            request_id,
        ]
        driver = subprocess.Popen(
            command,
            env=self.environment_of_drivers(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return driver, marker

    def rows(self, path: Path | Address) -> pyarrow.Table:
        return read(path)

    def rows_of_feed(self, name: str, since: int) -> list[dict[str, Any]]:
        """The change feed of a table from version ``since`` on, without pre-images."""
        import pyarrow
        from deltalake import DeltaTable

        feed = DeltaTable(str(self.layout.table(name))).load_cdf(starting_version=since)
        rows: list[dict[str, Any]] = pyarrow.table(feed.read_all()).to_pylist()
        return [row for row in rows if row["_change_type"] != "update_preimage"]

    def edit_suite(self, suite: str, expectations: Sequence[Mapping[str, Any]]) -> None:
        """Replace the expectations of a suite."""
        path = self.environment.project / "expectations" / f"{suite}.json"
        path.write_text(json.dumps({"name": suite, "expectations": expectations}))
