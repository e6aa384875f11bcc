"""The tutorial, command by command, with the built wheel in an environment of its own: nothing of this repository is imported."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.guides import ROOT, GuideRunner
from tests.docs.test_guides import TUTORIAL, check_every_batch_balances, check_no_value_leaves_the_tables
from tests.wheel import PROJECT
from tidegate.lake.layout import Layout

pytestmark = [pytest.mark.packages, pytest.mark.jvm, pytest.mark.timeout(2700)]


def test_the_tutorial_prints_what_it_shows_where_the_wheel_is_installed(wheel: Path, tmp_path: Path) -> None:
    uv, python = Path(sys.executable).with_name("uv"), tmp_path / "venv/bin/python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    lock = PROJECT / "requirements.txt"
    wanted = f"tidegate[job,java] @ {wheel.as_uri()}"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, "--constraint", lock, wanted], check=True)
    runner = GuideRunner(tmp_path, [TUTORIAL], python.parent, project=False, PYTHONPATH="", SPARK_SUBMIT_OPTS="")
    began = time.monotonic()
    results = runner.run(TUTORIAL)
    print(f"{len(results)} commands of the tutorial: {time.monotonic() - began:.0f} s")
    logs = [path.read_text() for path in runner.project.rglob("driver.log")]
    assert logs and not [log for log in logs if str(ROOT) in log]
    data = runner.project / "shop" / ".data"
    layout = Layout.local(data / "lake", data / "landing")
    check_no_value_leaves_the_tables(layout, results)
    check_every_batch_balances(layout)
