"""The whole demo with its lake in a bucket of an S3 server, on whose tables people act."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from demo import services
from tests.airflow_database import migrated_home

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow]

PROJECT = Path(__file__).parents[2]


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("s3_server")
def test_all_checks_pass_after_people_have_acted(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    for name in services.PIPELINES:
        migrated_home(folder / name)
    command = [sys.executable, "-m", "demo", "--folder", str(folder), "--lake", "s3", "--acts"]
    demo = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    output = demo.stdout + demo.stderr
    assert demo.returncode == 0, output + (folder / "demo.log").read_text()[-6000:]
    assert output.count("no JVM was started") == 4, "in wave 4 all pipelines end in `plan`"
    assert output.count("✔") >= 25 and "✘" not in output, output
    assert not (folder / "lake").exists()
