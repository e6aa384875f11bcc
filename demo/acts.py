"""What people do to the tables of flights, by the command line: a refused backfill, its acceptance, an undo, a waiver, a replay.

Afterwards the tables are as the input alone says, so all checks of the demo hold: a backfill with a suite that is too strict is undone,
and a replay brings the records of a file that was corrected.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo import checks, flights_feed
from demo.checks import Check
from demo.services import DemoServices
from tidegate.formatting import count
from tidegate.lake.place import FlowPlace, PipelinePlace

COMMAND = Path(sys.executable).with_name("tidegate")
REFUSED = 65
"""The exit code of a run that was refused."""
DAY = flights_feed.STORM_DAY
WAIVED = "wrong_type(dep_delay)"
"""A rule that entries of wave 2 break."""
_EDITED = ("pipelines", "spark_jobs", "expectations")


@dataclass(frozen=True)
class Person:
    """Somebody with a clone of the project, whose suites they edit."""

    services: DemoServices
    clone: Path

    @classmethod
    def make(cls, services: DemoServices) -> Person:
        """Copy the project's files that are edited to the folder of the demo."""
        clone = services.folder / "project"
        for name in _EDITED:
            shutil.copytree(services.project / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        (clone / ".cache").symlink_to(services.project / ".cache")
        return cls(services, clone)

    def act(self) -> list[Check]:
        """Do everything, in this order."""
        acts = [*self._backfill_and_undo(), self._waive(), self._correct_and_replay(), self._follow()]
        return [*acts, self._query(), self._trace()]

    def _backfill_and_undo(self) -> list[Check]:
        """A suite that refuses all rows of a day: its backfill is refused, then accepted, then undone."""
        backfill = ("run", "flights", "--mode", "backfill", "--from", str(DAY), "--to", str(DAY))
        suite = self.clone / "expectations" / "flights" / "silver.json"
        before, text = self._silver(), suite.read_text()
        kwargs = {"column": "carrier", "value_set": ["none"]}
        edited = json.loads(text)
        edited["expectations"].append(
            {"type": "expect_column_values_to_be_in_set", "kwargs": kwargs, "severity": "warning"}
        )
        suite.write_text(json.dumps(edited))
        refused = self._tidegate(*backfill)
        unchanged = self._silver() == before
        numbers = _following("--accept", refused.stdout + refused.stderr)
        accepted = self._tidegate(*backfill, *(word for number in numbers for word in ("--accept", number)))
        lost = before - self._silver()
        suite.write_text(text)
        undone = self._tidegate("undo", self._last_run("backfill"))
        return [
            Check(
                "flights: a backfill beyond the limits is refused, and changes no row",
                f"exit code {refused.returncode}, {', '.join(numbers) or 'no number to accept'}",
                refused.returncode == REFUSED and bool(numbers) and unchanged,
            ),
            Check(
                "flights: what is accepted by its numbers is done",
                f"exit code {accepted.returncode}, {count(lost.total(), 'row')} left silver",
                accepted.returncode == 0 and lost.total() > 0,
            ),
            Check(
                "flights: an undo puts the rows back",
                f"exit code {undone.returncode}",
                undone.returncode == 0 and self._silver() == before,
            ),
        ]

    def _waive(self) -> Check:
        """Close the entries with one rule."""
        waived = self._tidegate("quarantine", "waive", "flights", "silver", "--rule", WAIVED, "--reason", "The demo.")
        states = self._states("silver")
        details = f"exit code {waived.returncode}, {states['waived']:,} waived"
        return Check("flights: entries are waived", details, waived.returncode == 0 and states["waived"] > 0)

    def _correct_and_replay(self) -> Check:
        """Correct a file in place, replay it, and let the next run bring its records to all tables."""
        records = flights_feed.days()[flights_feed.TRUNCATED_DAY]
        flights_feed.land(
            self.services.landing / flights_feed.FOLDER,
            flights_feed.TRUNCATED,
            gzip.compress(flights_feed.as_csv(records)),
            len(records),
        )
        before = self._silver().total()
        replayed = self._tidegate("quarantine", "replay", "flights", "bronze")
        run = self._tidegate("run", "flights")
        states, added = self._states("bronze"), self._silver().total() - before
        details = f"exit codes {replayed.returncode} and {run.returncode}, {states['replayed']:,} replayed, {count(added, 'row')} in silver"
        passed = (replayed.returncode, run.returncode, states["replayed"]) == (0, 0, 1) and 0 < added <= len(records)
        return Check("flights: a corrected file is replayed", details, passed)

    def _follow(self) -> Check:
        """Run the pipeline that joins flights, as Airflow does after them."""
        run = self._tidegate("run", "delays")
        return Check(
            "delays: what people did to flights is followed", f"exit code {run.returncode}", run.returncode == 0
        )

    def _query(self) -> Check:
        """Count a table by SQL, without a JVM."""
        answer = self._tidegate("query", "SELECT count(*) AS flights FROM silver.flights WHERE NOT _deleted", "--json")
        rows = self._silver().total()
        return Check("flights: a query counts silver", count(rows, "row"), f"{rows}" in answer.stdout)

    def _trace(self) -> Check:
        """Where the rows of one group come from."""
        trace = self._tidegate("trace", "gold.daily_delay", "--key", f"day={DAY}", "--key", "carrier=B6")
        passed = f"flights_{DAY}_corrected.csv" in trace.stdout
        return Check("flights: a trace names the file of a group", f"exit code {trace.returncode}", passed)

    def _tidegate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command in the clone. What it prints is in the log of the demo."""
        variables = {**self.services.variables, "TIDEGATE_PROJECT": str(self.clone)}
        result = subprocess.run(
            [COMMAND, *arguments],
            env={**os.environ, **variables, "PYTHONPATH": str(self.services.project)},
            cwd=self.clone,
            capture_output=True,
            text=True,
            check=False,
        )
        with self.services.log.open("a") as log:
            print("$ tidegate", *arguments, file=log)
            print(result.stdout, result.stderr, f"exit code {result.returncode}", file=log)
        return result

    def _silver(self) -> Counter[Any]:
        """The flights of silver, as often as they are there."""
        rows = checks.table(self.services.layout.table("silver.flights"))
        return Counter(checks.query("SELECT flight_id, dep_delay FROM silver WHERE NOT _deleted", silver=rows))

    def _states(self, flow: str) -> Counter[str]:
        """How many entries of a flow's quarantine have each state."""
        rows = checks.table(FlowPlace(self.services.layout, "flights", flow).quarantine)
        return Counter() if rows is None else Counter(rows["state"].to_pylist())

    def _last_run(self, kind: str) -> str:
        """The run of the last line of this kind in the ledger."""
        lines = checks.table(PipelinePlace(self.services.layout, "flights").ops("ledger"))
        (line,) = checks.query(f"SELECT arg_max(run_key, recorded_at) FROM ledger WHERE kind = '{kind}'", ledger=lines)
        return str(line[0])


def _following(option: str, text: str) -> list[str]:
    """The words that follow an option in a message."""
    words = text.split()
    return sorted({after for word, after in itertools.pairwise(words) if word == option and ":" in after})
