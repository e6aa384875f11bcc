"""A lake of a test: files land, runs of pipelines in this process read them, and their tables are read without Spark."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops.table import line_of
from tidegate.project import registry
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import RunReport
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.spark.application import run_application
from tidegate.testing.session import session

if TYPE_CHECKING:
    import pyarrow

    from tidegate.store import Address


@dataclass(frozen=True)
class Lake:
    """Lake and landing zone of one test, in the project whose ``pipelines`` can be imported."""

    environment: Environment
    """Its folders, and the limits of runs."""
    pipeline: str = ""
    """The pipeline of the methods whose argument ``pipeline`` is empty."""

    @classmethod
    def make(cls, folder: Path, pipeline: str = "") -> Self:
        """An empty lake and an empty landing zone in a folder of the test."""
        (folder / "landing").mkdir(parents=True)
        environment = dataclasses.replace(Environment.read(), lake_at=folder / "lake", landing_at=folder / "landing")
        return cls(environment, pipeline)

    @property
    def layout(self) -> Layout:
        """The paths of the lake."""
        return Layout.of(self.environment)

    def at(self, kafka: str) -> Self:
        """The same lake with a broker."""
        return dataclasses.replace(self, environment=dataclasses.replace(self.environment, kafka=kafka))

    def land(self, path: str, content: str | bytes) -> Path:
        """Write a file to the landing zone atomically: ``land("flights/2013-01-01.csv", "…")``."""
        landed = self.environment.landing / path
        landed.parent.mkdir(parents=True, exist_ok=True)
        draft = landed.parent / f".{os.getpid()}.draft"
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
        draft.rename(landed)
        return landed

    def request(self, pipeline: str = "", flows: Iterable[str] = (), **options: Any) -> RunRequest:
        """A request with the fields of a run's form: ``mode``, ``from``, ``to``, …; without any, an increment."""
        return RunRequest.check(
            registry.load(pipeline or self.pipeline), fresh_id("test"), {"flows": list(flows), **options}
        )

    def run(self, pipeline: str = "", flows: Iterable[str] = (), **options: Any) -> RunReport:
        """Run a pipeline in the session of this process, until its sources are drained.

        Args:
            pipeline: Its name.
            flows: Only these.
            options: As for `request`.

        Returns:
            What each flow did. An error of a flow is in its part of the report, not raised.
        """
        return self.try_run(self.request(pipeline, flows, **options))

    def try_run(self, request: RunRequest) -> RunReport:
        """One more attempt at a run."""
        session()
        return run_application(self.environment, request, fresh_id("a"))

    def table(self, name: str) -> pyarrow.Table:
        """The rows of a table, ``silver.flights``, read with delta-rs and so not by the library that wrote them."""
        return read(self.layout.table(name))

    def quarantined(self, flow: str, pipeline: str = "") -> pyarrow.Table:
        """The quarantine entries of a flow."""
        return read(FlowPlace(self.layout, pipeline or self.pipeline, flow).quarantine)

    def ledger(self, pipeline: str = "") -> list[dict[str, Any]]:
        """The lines of a pipeline's ledger, in the order in which they were recorded."""
        lines = read(PipelinePlace(self.layout, pipeline or self.pipeline).ops("ledger")).to_pylist()
        return sorted(lines, key=lambda line: line["recorded_at"])

    def expect_a_balanced_ledger(self, pipeline: str = "") -> None:
        """Check that every ledger line balances, and that no batch has two.

        Raises:
            AssertionError: The first line that does not.
        """
        lines = self.ledger(pipeline)
        for line in lines:
            if line_of(LedgerLine, line).imbalance():
                raise AssertionError(f"the ledger line does not balance: {line}")
        batches = [(line["app_id"], line["kind"] == "swap", line["batch_id"]) for line in lines]
        if repeated := {batch for batch in batches if batches.count(batch) > 1}:
            raise AssertionError(f"batches with two ledger lines: {sorted(repeated)}")


def read(path: Path | Address) -> pyarrow.Table:
    """A Delta table.

    Raises:
        TableNotFoundError: There is none (an error of deltalake).
    """
    from deltalake import DeltaTable

    options = {} if isinstance(path, Path) else dict(path.options)
    return DeltaTable(str(path), storage_options=options).to_pyarrow_table()
