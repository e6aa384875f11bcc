"""Runs in an environment that reads the tables of another one. This process may write both lakes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import flights_feed
from tests.acts import project
from tests.deployment import Deployment
from tests.spark import test_snapshots
from tests.spark.test_versions import declare
from tidegate.environment.settings import SourceLake, SourceLakes
from tidegate.project import registry, resolution
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.requests.runs import RUNS
from tidegate.runs.recover import plan as recovery
from tidegate.runs.undo import plan as undoing
from tidegate.status import plan

pytestmark = pytest.mark.jvm

PROJECT = Path(__file__).parents[2]


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Each file and folder with the time of its last change, and a hash of a file's content.

    The time of a folder changes also when a file is made in it and deleted again.
    """
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in (folder, *folder.rglob("*"))
    }


class Environments:
    """A lake in production, and one that reads its tables."""

    def __init__(self, folder: Path) -> None:
        (folder / "prod").mkdir()
        (folder / "dev").mkdir()
        self.prod, own = Deployment.make(folder / "prod", PROJECT), Deployment.make(folder / "dev", PROJECT)
        source = SourceLake("prod", self.prod.environment.lake, self.prod.environment.landing)
        environment = dataclasses.replace(own.environment, name="dev", source_lakes=SourceLakes([source]))
        self.dev = dataclasses.replace(own, environment=environment)
        self.number = 0
        self.modes = set[str]()
        """The kinds of run that were tried in the environment that reads."""

    def land(self, *records: dict[str, Any]) -> None:
        """A file in production."""
        self.number += 1
        at = f"2024-01-01T00:00:{self.number:02}Z"
        lines = [json.dumps({"at": at, "day": 1, **record}) for record in records]
        self.prod.land(f"{self.number}.json", "\n".join(lines) + "\n", "acts")

    def run(self, *flows: str, **options: Any) -> dict[str, str]:
        """Run flows in the environment that reads; the state of each."""
        report = self.dev.run("acts", flows, **options)
        return {each.flow: each.state for each in report.flows}

    def request(self, pipeline: str, *flows: str, **options: Any) -> RunRequest:
        """The request of a run in the environment that reads, as its plan makes it."""
        request = self.dev.request(pipeline, flows, **options)
        resolved = resolution.load(pipeline, self.dev.environment.project)
        planned = {"undo": undoing.plan_run, "recover": recovery.plan_run}.get(request.mode)
        return request if planned is None else planned(self.dev.environment, resolved, request)[0]

    def expect(self, state: str, request: RunRequest, before: dict[str, tuple[int, str]]) -> FlowReport:
        """Check how a run of the environment that reads ends, and that it changes nothing of production; its last flow."""
        report = self.dev.try_run(request)
        states = {each.flow: each.state for each in report.flows}
        assert states == dict.fromkeys(request.flows, state), report.flows
        self.expect_untouched(before)
        self.modes.add(request.mode)
        return report.flows[-1]

    def expect_untouched(self, before: dict[str, tuple[int, str]]) -> None:
        """Check that each byte of production is where it was."""
        assert tree(self.prod.folder) == before


ONLY_NEWARK = {
    "type": "expect_column_values_to_be_in_set",
    "kwargs": {"column": "origin", "value_set": ["EWR"], "mostly": 0.1},
    "severity": "warning",
}


def daily(deployment: Deployment) -> list[tuple[Any, ...]]:
    """The groups of the flights, which are made of both tables above them."""
    groups = deployment.table("gold.daily_delay").to_pylist()
    return sorted(tuple(group[name] for name in ("day", "carrier", "flights", "cancelled", "late")) for group in groups)


@pytest.fixture
def environments(tmp_path: Path, no_settings: None) -> Iterator[Environments]:
    with project.loaded(tmp_path / "code"):
        yield Environments(tmp_path)


def rows(deployment: Deployment, table: str) -> list[tuple[int, int]]:
    return sorted((row["id"], row["amount"]) for row in deployment.table(table).to_pylist())


@pytest.mark.nightly
def test_a_flow_reads_the_table_of_production_and_writes_its_own(environments: Environments) -> None:
    prod, dev = environments.prod, environments.dev
    environments.land({"id": 1, "amount": 5}, {"id": 2, "amount": 7})
    prod.run("acts", ["bronze"])
    before = tree(prod.folder)
    resolved = resolution.load("acts", dev.environment.project)
    decided = plan.check_and_decide(dev.environment, resolved, (resolved.pipeline.flow("silver"),))
    assert decided.reason == "silver: all of bronze.acts, version 0 (in prod)"

    assert environments.run("silver") == {"silver": "done"}
    assert rows(dev, "silver.acts") == [(1, 5), (2, 7)]
    dev.expect_a_balanced_ledger("acts")
    environments.expect_untouched(before)

    environments.land({"id": 2, "amount": 8})
    prod.run("acts", ["bronze"])
    before = tree(prod.folder)
    assert environments.run("silver") == {"silver": "done"}
    assert rows(dev, "silver.acts") == [(1, 5), (2, 8)]
    environments.expect_untouched(before)


@pytest.mark.nightly
def test_no_kind_of_run_in_an_environment_that_reads_changes_a_byte_of_production(
    environments: Environments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prod, dev = environments.prod, environments.dev
    day = date(2013, 1, 1)
    flights = flights_feed.name_of(day), flights_feed.as_csv(flights_feed.days()[day][:80])
    prod.land(*flights)
    environments.land({"id": 1, "amount": 5}, {"id": 2, "amount": 7})
    snapshots = project.loaded(
        tmp_path / "snapshots", "prices", test_snapshots.DECLARATION.replace("SHARE", "1"), test_snapshots.JOB
    )
    with snapshots:
        test_snapshots.Prices(prod).land_whole(1, {1: 10, 2: 20})
        made = [*prod.run().flows, *prod.run("acts", ["bronze", "silver", "rows"]).flows]
        made += prod.run("prices", ["bronze"]).flows
        assert {flow.state for flow in made} == {"done"}
        before = tree(prod.folder)

        def expect(state: str, request: RunRequest) -> FlowReport:
            return environments.expect(state, request, before)

        _expect_runs_of_flights(environments, expect, monkeypatch, day, flights)

        # A stateful flow, groups and a sink; rows of whole snapshots.
        expect("done", environments.request("acts", "firsts"))
        shown = RunRequest.of_state(registry.load("acts"), "firsts", fresh_id("test"), requested_by="ada", limit=5)
        expect("idle", shown)
        expect("done", environments.request("acts", "gold", "sink", "rows"))
        expect("done", environments.request("prices", "silver"))
        assert test_snapshots.Prices(dev).rows() == {1: 10, 2: 20}
    for pipeline in ("flights", "acts", "prices"):
        dev.expect_a_balanced_ledger(pipeline)
    assert environments.modes == set(RUNS)

    # This process has the right to write there, and a write would be noticed.
    file = prod.layout.table("bronze.flights") / "file"
    file.put(b"")
    file.delete()
    assert tree(prod.folder) != before


def _expect_runs_of_flights(
    environments: Environments,
    expect: Callable[[str, RunRequest], FlowReport],
    monkeypatch: pytest.MonkeyPatch,
    day: date,
    flights: tuple[str, bytes],
) -> None:
    """Each kind of run that changes a keyed table, with the table of production above it, then with an own one."""
    prod, dev = environments.prod, environments.dev
    expect("done", environments.request("flights", "silver", "gold"))
    assert daily(dev) == daily(prod)

    suite = dev.environment.project / "expectations/flights/silver.json"
    passing = suite.read_text()
    dev.edit_suite("flights/silver", [ONLY_NEWARK])
    window = {"mode": "backfill", "from_date": str(day), "to_date": str(day)}
    impact = expect("done", environments.request("flights", "silver", dry_run=True, **window)).impact
    assert impact is not None and impact.quarantined
    accept = [f"silver:{what}={getattr(impact, what)}" for what in ("deleted", "quarantined")]
    backfill = environments.request("flights", "silver", accept=accept, **window)
    expect("done", backfill)
    expect("done", environments.request("flights", "silver", mode="undo", undo_run=backfill.run_id))
    expect("done", environments.request("flights", "silver", accept=accept, **window))
    suite.write_text(passing)
    replayed = expect("done", dev.replay_request("silver"))
    assert replayed.total("written") == impact.quarantined
    verification = RunRequest.of_verification(
        registry.load("flights"), "silver", fresh_id("test"), requested_by="ada", limit=5
    )
    verified = expect("done", verification).verification
    assert verified is not None and not (verified.missing or verified.unexpected or verified.different)
    expect("done", environments.request("flights", "silver", "gold", mode="full_refresh"))
    assert daily(dev) == daily(prod)
    declare(monkeypatch, silver={"checkpoint_version": 2})
    swapped = expect("done", environments.request("flights", "silver"))
    assert swapped.batches[-1].kind == "swap"

    # The own table takes the place of production's, which those that have read that one do not follow.
    dev.land(*flights)
    expect("done", environments.request("flights", "bronze"))
    expect("done", environments.request("flights", "bronze", mode="reingest"))
    refused = expect("failed", environments.request("flights", "silver"))
    assert refused.error is not None and refused.error.kind == "TableInDoubtError"
    expect("done", environments.request("flights", "silver", mode="recover"))
    expect("done", environments.request("flights", "gold"))
    assert daily(dev) == daily(prod)
