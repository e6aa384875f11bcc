"""Executors of a standalone cluster that are killed before and after the steps of each flow."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.clusters.kinds import PROJECT, Kinds
from tests.clusters.kinds_project import MARKED
from tests.slices import of_week
from tests.standalone import Cluster
from tidegate.environment import Environment
from tidegate.requests import launch
from tidegate.requests.request import fresh_id

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]

DRIVER = Path(__file__).with_name("struck_driver.py")
FLOWS = (
    *MARKED,
    *("events_files", "names_files", "names", "prices_files", "prices", "price_history", "messages", "sent"),
)
STEPS = tuple(
    f"{when}:{step}"
    for step in ("split_batch", "write_quarantine", "write_target", "record_batch")
    for when in ("before", "after")
)


def strikes_of(shift: int) -> list[str]:
    """A step of each flow. Each step is that of two flows, and with each shift that of two others."""
    return [f"{STEPS[(number + shift) % len(STEPS)]}:{flow}" for number, flow in enumerate(FLOWS)]


def test_an_executor_is_killed_at_a_step_of_every_flow(kinds: Kinds, cluster: Cluster, tmp_path: Path) -> None:
    """Every step in each run; two of the shifts a night, and so every step of every flow within a month."""
    struck = tmp_path / "struck"
    for number, shift in enumerate(of_week(range(len(STEPS)), 2), start=1):
        kinds.land()
        output = run_struck(kinds, strikes_of(shift), struck)
        assert kinds.differences(["1"] * number) == [], output
        lines = [line.split() for line in struck.read_text().splitlines()]
        assert Counter(at for at, _ in lines) == Counter(strikes_of(shift)), lines
        assert len({pid for _, pid in lines}) == len(FLOWS), lines
        struck.unlink()
    kinds.deployment.expect_a_balanced_ledger("kinds")


def run_struck(kinds: Kinds, strikes: list[str], struck: Path) -> str:
    """Run the pipeline with a kill at each of some steps, and return the log of the driver."""
    environment = Environment.read({**os.environ, **kinds.variables})
    request = kinds.request()
    command = launch.command(environment, request, request.write(kinds.deployment.layout), fresh_id("a"))
    command[command.index(str(launch.application()))] = str(DRIVER)
    variables = {**os.environ, **launch.submit_environment(environment)}
    variables["PYTHONPATH"] += f"{os.pathsep}{PROJECT}"
    result = subprocess.run(
        command,
        env={**variables, "STRIKES": " ".join(strikes), "STRUCK": str(struck)},
        cwd=kinds.deployment.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-8000:]
    return result.stdout
