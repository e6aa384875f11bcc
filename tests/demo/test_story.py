"""The whole demo, as `make demo` runs it: the real DAGs, a real broker, three waves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.airflow
@pytest.mark.timeout(900)
def test_three_waves_end_with_every_record_in_its_place(tmp_path: Path) -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "demo", "--folder", str(tmp_path / "demo")],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    told = demo.stdout + demo.stderr
    assert demo.returncode == 0, told
    assert told.count("no JVM was started") == 2, "in wave 3 both pipelines end in `plan`"
    assert told.count("✔") >= 12
    assert "Traceback" not in told
    assert (tmp_path / "demo" / "lake" / "docs" / "flights" / "index.html").is_file()
