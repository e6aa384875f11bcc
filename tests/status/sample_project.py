"""A temporary lake, landing folder and project for tests without Spark."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from tests.resolved import resolved, resolved_flow
from tests.spark_files import Checkpoint, DeltaLog, add, delta_offset
from tidegate.checkpoints.refusal import REFUSAL
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import Place
from tidegate.project import fingerprints
from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, KafkaSource, Pipeline, Table
from tidegate.status import lag, plan
from tidegate.status.reading import Reading
from tidegate.store.location import Stores

PROJECT = Path(__file__).parents[2]
BRONZE = Flow(
    name="bronze", source=FileSource(path="trips", format="csv", schema="a INT"), target=Table("bronze.trips")
)
SILVER = Flow(
    name="silver",
    source=ChangeFeed("bronze.trips"),
    transform="flights:clean",
    target=Table("silver.trips", keys=("id",), sequence_by=("at",)),
    gate=Gate("trips/silver"),
)
GOLD = Flow(
    name="gold",
    source=ChangeFeed("silver.trips"),
    transform="flights:daily_delay",
    target=Table("gold.trips", keys=("day",)),
)
TRIPS = Pipeline(name="trips", flows=(BRONZE, SILVER, GOLD))
CLICKS = Pipeline(
    name="clicks",
    flows=(Flow(name="bronze", source=KafkaSource(topic="clicks", schema="a INT"), target=Table("bronze.clicks")),),
)


class SampleProject:
    """A temporary lake, landing folder and project with a suite."""

    stores: Stores | None = None
    """Those of lake and landing zone, if they are not those of the environment."""

    def __init__(self, folder: Path, **variables: str) -> None:
        environment = Environment.read(
            {
                "TIDEGATE_PROJECT": str(folder / "project"),
                "TIDEGATE_LAKE": str(folder / "lake"),
                "TIDEGATE_LANDING": str(folder / "landing"),
                **variables,
            }
        )
        self.environment = (
            environment if self.stores is None else dataclasses.replace(environment, store_of=self.stores)
        )
        self.layout = Layout.of(self.environment)
        self.landing = self.layout.landing("trips")
        self.landing.make_folder()
        self.suite = folder / "project" / "expectations" / "trips" / "silver.json"
        self.suite.parent.mkdir(parents=True)
        self.suite.write_text(json.dumps({"name": "trips/silver", "expectations": []}))

    def land(self, name: str, content: str = "a\n1\n2\n") -> Path:
        path = self.landing / name
        path.put(content.encode())
        return Path(path)

    def checkpoint(self, flow: str, *, dag: str = "trips", version: int = 1, refresh: int = 0) -> Checkpoint:
        return Checkpoint(Place(self.layout, dag, flow, version, refresh).checkpoint)

    def table(self, name: str) -> DeltaLog:
        return DeltaLog(self.layout.table(name))

    def read_everything(self, checkpoint: Checkpoint, batch_id: int = 0) -> None:
        """List, plan and commit all landed files, as a job would."""
        files = {self.landing.at(entry).uri: entry.modified_ns // 1_000_000 for entry in self.landing.list()}
        checkpoint.list_files(batch_id, files)
        checkpoint.run(batch_id, {"logOffset": batch_id})

    def measure(self, flow: Flow, pipeline: Pipeline = TRIPS) -> Reading:
        return lag.measure(self.environment, resolved_flow(flow, pipeline, self.environment.project))

    def plan(self, *flows: Flow, pipeline: Pipeline = TRIPS) -> plan.Plan:
        return plan.decide(self.environment, resolved(pipeline, self.environment.project), flows or pipeline.flows)

    def refuse(self, batch_id: int, **waits_for: Any) -> None:
        """Record a refusal of silver, as the job does; by its gate unless ``waits_for`` says otherwise."""
        path = REFUSAL.path(Place(self.layout, "trips", "silver", 1, 0))
        note = {
            "batch_id": batch_id,
            "code_fingerprint": fingerprints.code_fingerprint(PROJECT / "spark_jobs" / "flights.py"),
            **(waits_for or {"suite_fingerprint": fingerprints.suite_fingerprint(self.suite)}),
        }
        path.put(json.dumps(note).encode())

    def refuse_silver(self) -> None:
        """Silver's first batch was written; the gate refused the second."""
        log = self.table("bronze.trips")
        log.commit(add("a", 3))
        log.commit(add("b", 3))
        checkpoint = self.checkpoint("silver")
        checkpoint.run(0, delta_offset(1))
        checkpoint.plan(1, delta_offset(2))
        self.refuse(1)
