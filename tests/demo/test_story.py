"""The whole demo: the real DAGs, a real broker, three waves. In full length, as `make demo` runs it, it is told nightly;
per merge one increment takes the first two waves."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow_database import migrated_database
from tidegate.embedded import airflow_home, places

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a demo was told before: its Airflow home is what the next one finds."""
    folder = tmp_path / "demo"
    home = places.airflow_home(folder)
    home.mkdir(parents=True, mode=0o700)
    shutil.copyfile(migrated_database(), home / "airflow.db")
    (home / "migrated.txt").write_text(importlib.metadata.version("apache-airflow-core"))
    assert airflow_home.is_ready(folder)
    return folder


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.airflow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", [("--short",), pytest.param((), marks=pytest.mark.nightly)])
def test_three_waves_end_with_every_record_in_its_place(folder: Path, options: tuple[str, ...]) -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "demo", "--folder", str(folder), *options],
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
    assert (folder / "lake" / "docs" / "flights" / "index.html").is_file()
