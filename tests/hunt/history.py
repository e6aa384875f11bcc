"""Histories: what users do to one pipeline in the course of months, generated from a seed and cut into increments anywhere.

Everything that is done is done by the product and told to the judge. Faults strike any run; it is repeated until it ends without
one, as Airflow would, and then the judge must agree with the lake.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from tests.deployment import Deployment
from tests.hunt.clocks import Clock
from tests.hunt.judge import Change, Judge
from tests.hunt.kills import Kills
from tests.hunt.project import Project
from tests.hunt.rules import Code
from tests.hunt.sources import Files, Source
from tests.hunt.strikes import Kind, Strike
from tidegate.lake.place import FlowPlace

FLOWS = ("bronze", "silver", "gold")
FIRST_GUESS = 40
"""How many crossings a run has, before one was counted."""


@dataclass
class Faults:
    """How often a run is struck, and what strikes did."""

    share: float = 0.0
    """The share of attempts that a fault is planned for."""
    attempts: int = 6
    """So often one run is struck at most."""
    struck: list[str] = field(default_factory=list)
    crossings: dict[str, int] = field(default_factory=dict)
    """By mode: how many crossings the last run had that was not struck."""


@dataclass
class History:
    """One pipeline, the judge of its tables, and what was done so far."""

    seed: int
    deployment: Deployment
    project: Project
    source: Source
    spark: Any
    faults: Faults = field(default_factory=Faults)
    kills: Kills = field(default_factory=Kills)
    clock: Clock | None = field(default_factory=Clock.of_process)
    """Set before each attempt, and in some at any crossing."""
    judge: Judge = field(default_factory=Judge)
    code: Code = field(default_factory=Code)
    version: int = 1
    log: list[str] = field(default_factory=list)
    earlier: list[Code] = field(default_factory=list)
    """What the code was in earlier attempts at the present run."""
    undoable: tuple[str, Change] | None = None
    """The last run that can be undone, with what it changed."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.strikes = random.Random(self.seed + 1)
        self.project.write(self.code, self.version)

    def go_on(self, steps: int) -> None:
        """Do so many random things, and check the tables after each run."""
        for _ in range(steps):
            self.log.append(self.source.add(self.rng))
            names = list(WEIGHTS)
            name = self.rng.choices(names, [WEIGHTS[each] for each in names])[0]
            getattr(self, name)()
        self.increment()

    # What users do.

    def increment(self, flows: Sequence[str] = FLOWS) -> None:
        """Read what is new, in some or all flows."""
        self.log.append(f"increment of {', '.join(flows)}")
        self._run(lambda: self.deployment.request("hunt", flows), edits_suite="silver" in flows)
        self._judge_increment(flows)
        self._check(flows)

    def partial_increment(self) -> None:
        """Bronze gets ahead of silver, or silver of gold."""
        self.increment(self.rng.choice([("bronze",), ("bronze", "silver"), ("silver",), ("silver", "gold")]))

    def edit(self) -> None:
        """Edit the transform or the suite."""
        name, values = self.rng.choice(EDITS)
        self.code = replace(self.code, **{name: self.rng.choice(values)})
        self.log.append(f"edit: {self.code}")
        self.project.write(self.code, self.version)
        if self.rng.random() < 0.6:
            self.increment()

    def new_version(self) -> None:
        """Raise the checkpoint version of silver."""
        self.version += 1
        self.log.append(f"version {self.version} of silver")
        self.project.write(self.code, self.version)
        self._run(lambda: self.deployment.request("hunt", FLOWS))
        self._judge_source()
        self._derive_again((self.version, 0))

    def full_refresh(self) -> None:
        """Derive silver again in the next refresh."""
        if self._is_empty():
            return
        self.log.append("full refresh of silver")
        request = self.deployment.request("hunt", (), mode="full_refresh")
        self._run(lambda: request)
        self._judge_source()
        version, refresh = self.judge.checkpoint
        self._derive_again((version, refresh + 1))

    def backfill(self) -> None:
        """Derive some days of silver and gold again."""
        if self._is_empty():
            return
        first = self.rng.randrange(18, 31)
        last = min(first + self.rng.randrange(6), 31)
        days = {"from_date": f"2026-03-{first}", "to_date": f"2026-03-{last}"}
        self.log.append(f"backfill of {days}")
        request = self.deployment.request("hunt", (), mode="backfill", **days)
        self._run(lambda: request)
        self._judge_increment(FLOWS)
        change = self.judge.backfill(self.code, date(2026, 3, first), date(2026, 3, last))
        self.judge.group()
        self._check(FLOWS)
        self.undoable = (request.run_key, change) if change.rows or change.entries else None

    def replay(self) -> None:
        """Replay the open entries of silver, or those with a rule."""
        if self._is_empty() or not any(entry.state == "open" for entry in self.judge.entries):
            return
        rule = self._some_rule()
        self.log.append(f"replay of {rule or 'all entries'}")
        request = self.deployment.replay_request("silver", "hunt", **({} if rule is None else {"rule": rule}))
        self._run(lambda: request)
        change = self.judge.replay(self.code, rule)
        self._check(())
        self.undoable = (request.run_key, change) if change.rows else None

    def correct_file(self) -> None:
        """Correct a bad file in place, and replay the landing flow."""
        bad = [entry.row_id for entry in self.judge.files if (entry.level, entry.state) == ("file", "open")]
        if not bad or not self.judge.bronze:
            return
        chosen = self.rng.choice(bad)
        assert isinstance(self.source, Files)
        records = self.source.correct(self.rng, chosen)
        self.log.append(f"corrected {chosen}, and replayed bronze")
        request = self.deployment.replay_request("bronze", "hunt")
        self._run(lambda: request)
        self.judge.correct_file(chosen, records)
        self._check(())

    def touch(self) -> None:
        """Touch files that were read. The judge is not told: it changes nothing."""
        if isinstance(self.source, Files):
            self.log.append(self.source.touch(self.rng))

    def reingest(self) -> None:
        """Read the whole source again."""
        if self._is_empty():
            return
        self.log.append("reingest")
        request = self.deployment.request("hunt", (), mode="reingest")
        self._run(lambda: request)
        self.judge.read_again()
        self._judge_increment(FLOWS)
        self._check(FLOWS)

    def waive(self) -> None:
        """Waive the open entries with a rule."""
        from tidegate.quarantine import decision
        from tidegate.quarantine.selection import Selection

        if self._is_empty():
            return
        rule = self._some_rule()
        closed = decision.waive(
            FlowPlace(self.deployment.layout, "hunt", "silver"),
            Selection.check(**({} if rule is None else {"rule": rule})),
            by="ada",
            reason="no",
        )
        self.log.append(f"waived {closed.entries} entries with {rule or 'any rule'}")
        assert closed.entries == self.judge.waive(rule)
        self._check(())

    def undo(self) -> None:
        """Undo the last backfill or replay, or the last undo."""
        from tidegate.runs.undo import plan as undo

        if self.undoable is None:
            return
        run, change = self.undoable
        self.log.append(f"undo of {run}")
        pipeline = self._pipeline()
        request = replace(self.deployment.request("hunt", ("silver", "gold")), mode="undo", undoes=run)
        request, _ = undo.plan(self.deployment.layout, pipeline, request)
        self._run(lambda: request)
        undone = self.judge.undo(change)
        self._check(())
        self.undoable = None if self.rng.random() < 0.5 or not undone.rows else (request.run_key, undone)

    # What the judge reads.

    def _judge_increment(self, flows: Sequence[str]) -> None:
        if "bronze" in flows:
            self._judge_source()
        if "silver" in flows:
            self.judge.read_bronze(self.code, *self.earlier, lake=self.deployment.lake_folder)
        if "gold" in flows:
            self.judge.group()

    def _judge_source(self) -> None:
        self.judge.read_source(*self.source.read())

    def _derive_again(self, checkpoint: tuple[int, int]) -> None:
        self.judge.derive_again(self.code, checkpoint)
        self.judge.group()
        self.undoable = None
        self._check(FLOWS)

    def _check(self, flows: Sequence[str]) -> None:
        differences = self.judge.differences(self.deployment.lake_folder, gold="gold" in flows)
        assert not differences, self.describe(differences)

    def describe(self, differences: Sequence[str]) -> str:
        """What is wrong, and how it came to it."""
        return "\n".join([f"seed {self.seed}", *differences, "after:", *self.log])

    # How it is run.

    def _run(self, request: Callable[[], Any], *, edits_suite: bool = False) -> None:
        """Run a request, again after each fault, until an attempt ends without one. Between two attempts the suite may be edited."""
        self.earlier = []
        for killed in self.kills.kill_in_a_row(self.strikes, self.deployment, self.project.folder, request):
            self.log.append(f"  {killed}")
            self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        for attempt in range(self.faults.attempts + 1):
            self._step_clock()
            planned = request()
            strike = self._planned_strike(planned.mode, strikes=attempt < self.faults.attempts)
            report = None
            with strike.struck(self.spark, self.deployment.lake_folder):
                report = self.deployment.try_run(planned)
            if strike.at:
                self.log.append(f"  {strike.kind} at crossing {strike.crossing}, {strike.at}")
                self.faults.struck.append(f"{strike.kind} {strike.at}")
            if strike.at and strike.kind != "step":
                if edits_suite and self.strikes.random() < 0.3:
                    self._edit_suite()
                continue
            self.faults.crossings[planned.mode] = strike.crossed
            assert report is not None
            errors = [flow.error for flow in report.flows if flow.error is not None]
            assert not errors, self.describe([str(errors)])
            return
        raise AssertionError("not reached")

    def _edit_suite(self) -> None:
        self.earlier.append(self.code)
        self.code = replace(self.code, highest=self.strikes.choice([100, 300, 500, 900]))
        self.log.append(f"  edit before the next attempt: {self.code}")
        self.project.write(self.code, self.version)

    def _planned_strike(self, mode: str, *, strikes: bool) -> Strike:
        """A fault at any crossing that a run of this mode has, or none, which only counts them."""
        if not strikes or self.strikes.random() >= self.faults.share:
            return Strike(0, "error")
        last = max(self.faults.crossings.get(mode, 0), FIRST_GUESS)
        kinds: list[Kind] = ["error", "abort"] if self.clock is None else ["error", "abort", "step", "step"]
        return Strike(self.strikes.randrange(1, last + 1), self.strikes.choice(kinds), step=self._step_clock)

    def _step_clock(self) -> None:
        if self.clock is not None:
            self.log.append(f"  the clock is wrong by {self.clock.step(self.strikes)} s")

    def _some_rule(self) -> str | None:
        rules = sorted({rule for entry in self.judge.entries if entry.state == "open" for rule in entry.rules})
        return self.rng.choice([None, *rules]) if rules else None

    def _is_empty(self) -> bool:
        """Whether silver does not exist yet, or a new checkpoint would be opened by something else."""
        return not self.judge.silver

    def _pipeline(self) -> Any:
        from tidegate.project import registry

        return registry.load("hunt")


WEIGHTS = {
    "increment": 5,
    "partial_increment": 4,
    "edit": 3,
    "new_version": 1,
    "full_refresh": 1,
    "backfill": 3,
    "replay": 3,
    "correct_file": 2,
    "touch": 2,
    "reingest": 1,
    "waive": 1,
    "undo": 3,
}
EDITS: list[tuple[str, list[int]]] = [
    ("factor", [1, 2, 3, 7]),
    ("filtered", [0, 3, 6]),
    ("highest", [100, 300, 500, 900]),
    ("trap", [1000, 1000, 50]),
]
