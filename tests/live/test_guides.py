"""The guide to schedules is followed line by line, with a real Airflow, broker, feeder and Spark."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import guides

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.timeout(400)]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """Where the copy is made; whatever was started in it is stopped."""
    folder = tmp_path / "project"
    yield folder
    subprocess.run([*console(folder), "down"], cwd=folder, capture_output=True, timeout=60, check=False)


def console(folder: Path) -> list[str]:
    """What `make` calls when all is set up."""
    return [sys.executable, "-m", "demo.console", "--project", str(folder)]


def test_the_guide_to_schedules_can_be_followed_line_by_line(project: Path, tmp_path: Path) -> None:
    # The copy has no environment of its own that `make setup` could look after.
    make = tmp_path / "bin/make"
    make.parent.mkdir()
    make.write_text(f'#!/bin/sh\nexec {shlex.join(console(project))} "$@"\n')
    make.chmod(0o755)
    path = os.pathsep.join([str(make.parent), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    guides.run(guides.GUIDES / "scheduling.md", project, PATH=path, PYTHONPATH=str(project))
