"""Judges what a plan and a run make of a lake after foreign acts: right, or refused by name; never green and wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pendulum

from tests.acts.acts import Act, Acts
from tests.acts.lake import Lake
from tests.acts.oracle import differences
from tests.acts.project import ABOVE, FLOWS, TARGETS
from tidegate.project import resolution
from tidegate.reports.report import RunReport
from tidegate.status import flow_status, plan
from tidegate.status.reading import Reading


class WrongError(AssertionError):
    """Green and wrong, refused without reason, or an error without a name."""


@dataclass
class Example:
    """One lake, the acts that are done to it, and what follows."""

    lake: Lake
    acts: Acts = field(default_factory=Acts)
    notes: list[str] = field(default_factory=list)
    """What happened, for people."""
    outcomes: Counter[str] = field(default_factory=Counter)

    def do(self, *acts: Act) -> None:
        """Do acts."""
        for act in acts:
            self.acts.do(self.lake, act)
        self.notes.append(f"from snapshot {self.lake.base}: " + ", ".join(map(str, self.acts.done)))

    def plan(self) -> set[str]:
        """Plan, and judge what the plan says; returns the flows that it refuses."""
        environment = self.lake.prepared.deployment.environment
        resolved = resolution.load("acts", environment.project)
        made = plan.decide(environment, resolved, resolved.pipeline.flows)
        statuses = flow_status.gather(environment, [("acts", resolved)], 60.0, pendulum.now("UTC"))
        self.notes.append("plan: " + "; ".join(f"{planned.flow}: {planned.reason[:260]}" for planned in made.readings))
        refused: dict[str, str] = {}
        idle: list[str] = []
        for planned, status in zip(made.readings, statuses, strict=True):
            if planned.failed:
                assert planned.error is not None
                refused[planned.flow] = f"{type(planned.error).__name__}"
                if planned.error.exit_code == 70:
                    raise self.wrong(f"plan: {planned.flow} has an error without a name: {planned.error!r}")
            if planned.error is not None and type(status.error) is not type(planned.error):
                raise self.wrong(f"the status of {planned.flow} is {status.error!r}, the plan says {planned.error!r}")
            if not planned.has_work and not self._is_below(planned.flow, refused) and planned.flow not in refused:
                idle.append(planned.flow)
        self._judge_refused(refused)
        self._judge_tables(idle)
        self._judge_names(
            {
                planned.flow: f"{planned.reason}; {planned.known(Reading.remarks)}"
                for planned in made.readings
                if planned.flow not in refused and not self._is_below(planned.flow, refused)
            }
        )
        self.outcomes.update(f"plan: {name}" for name in refused.values())
        self.outcomes["plan: goes on"] += len(FLOWS) - len(refused)
        return set(refused)

    def run(self, planned: set[str] | None = None) -> set[str]:
        """Run, and judge the tables; returns the flows that refuse."""
        before = self.lake.all_contents()
        clear_cache(self.lake)
        report = self.lake.prepared.deployment.run("acts")
        return self.judge_run(report, before, planned)

    def judge_run(
        self, report: RunReport, before: Mapping[str, Counter[Any] | None] | None, planned: set[str] | None = None
    ) -> set[str]:
        """Judge the report of a run and the tables after it.

        Args:
            before: The tables before it, which a flow that refuses has not changed. None if something was done in the middle of the run:
                then the tables are judged after the next one.
            planned: The flows that the plan refused.
        """
        errors = {flow.flow: flow.error for flow in report.flows if flow.error is not None}
        self.notes.append(
            "run: " + "; ".join(f"{flow.flow} {flow.state}" for flow in report.flows) + f" {errors or ''}"
        )
        for flow, error in errors.items():
            if error.exit_code == 70 or error.kind == "UnexpectedError":
                raise self.wrong(f"run: {flow} has an error without a name: {error.kind} {error.message}")
        done = [flow.flow for flow in report.flows if flow.state in ("done", "idle")]
        self.lake.ran(done)
        self._judge_refused({flow: error.kind for flow, error in errors.items()})
        if before is None:
            return set(errors)
        self._judge_tables(done)
        after = self.lake.all_contents()
        for flow in errors:
            if before[flow] != after[flow]:
                raise self.wrong(f"run: {flow} refused and wrote: {differences(before, after, [flow])}")  # type: ignore[arg-type]
        in_doubt = {flow for flow, error in errors.items() if error.kind == "TableInDoubtError"}
        if planned is not None and in_doubt - planned:
            raise self.wrong(f"run: {sorted(in_doubt - planned)} refuse, but the plan says that they go on")
        self.outcomes.update(f"run: {error.kind}" for error in errors.values())
        self.outcomes["run: right"] += len(done)
        return set(errors)

    def wrong(self, what: str) -> WrongError:
        """The failure of this example."""
        return WrongError("\n".join([what, *self.notes]))

    def _judge_refused(self, refused: Mapping[str, str]) -> None:
        extra = set(refused) - self.acts.may_refuse
        if extra:
            raise self.wrong(f"{sorted(extra)} refuse without reason: {refused}")

    def _judge_tables(self, flows: list[str]) -> None:
        actual = {flow: self.lake.contents(flow) for flow in flows}
        for flow in flows:
            if actual[flow] is None:
                raise self.wrong(f"{flow} goes on, but its table cannot be read")
        readable = {flow: rows for flow, rows in actual.items() if rows is not None}
        unlike: list[list[str]] = []
        for world in self.lake.worlds(is_followed=not self.acts.tainted):
            world.run(flows)
            unlike.append(differences(world.contents(), readable, flows))
            if not unlike[-1]:
                return
        raise self.wrong("green and wrong: " + "; ".join(unlike[0]))

    def _judge_names(self, reasons: Mapping[str, str]) -> None:
        """A change of rows by another writer is named by the flow that writes the table."""
        writers = {table: flow for flow, table in TARGETS.items()}
        for table in self.acts.names:
            text = None if writers[table] in self.acts.may_refuse else reasons.get(writers[table])
            if text is not None and f"of {table} by another writer" not in text:
                raise self.wrong(f"the plan does not name what another writer did to {table}: {text}")

    def _is_below(self, flow: str, refused: Mapping[str, str]) -> bool:
        above = ABOVE.get(flow)
        return above is not None and (above in refused or self._is_below(above, refused))


def clear_cache(lake: Lake) -> None:
    """Let the session of this process read the logs again, as that of another process would."""
    from pyspark.sql import SparkSession

    session: Any = SparkSession.getActiveSession()
    session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
