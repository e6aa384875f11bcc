"""Runs in an environment that reads the tables of another one. This process may write both lakes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acts import project
from tests.deployment import Deployment
from tidegate.environment.settings import SourceLake, SourceLakes
from tidegate.project import resolution
from tidegate.status import plan

pytestmark = pytest.mark.jvm

PROJECT = Path(__file__).parents[2]


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Each file of a folder with the time of its last change and a hash of its content; a folder has no content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        if path.is_file()
        else (0, "")
        for path in folder.rglob("*")
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

    def expect_untouched(self, before: dict[str, tuple[int, str]]) -> None:
        """Check that each byte of production is where it was."""
        assert tree(self.prod.folder) == before


@pytest.fixture
def environments(tmp_path: Path, no_settings: None) -> Iterator[Environments]:
    with project.loaded(tmp_path / "code"):
        yield Environments(tmp_path)


def rows(deployment: Deployment, table: str) -> list[tuple[int, int]]:
    return sorted((row["id"], row["amount"]) for row in deployment.table(table).to_pylist())


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
