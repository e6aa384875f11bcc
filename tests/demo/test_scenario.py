"""The demo as `make demo` runs it: the real DAGs, a real broker, four waves."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from demo import services
from tests.airflow_database import migrated_home
from tests.canaries import contains_any, files_containing, tables_containing
from tests.docs.guides import missing_line, readme_block
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.testing.lake import read

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a demo, with the Airflow homes of an earlier one."""
    folder = tmp_path / "demo"
    for name in services.PIPELINES:
        migrated_home(folder / name)
    return folder


@pytest.mark.live
@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.airflow
@pytest.mark.timeout(1800)
def test_after_four_waves_all_checks_pass(folder: Path) -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "demo", "--folder", str(folder)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    output = demo.stdout + demo.stderr
    assert demo.returncode == 0, output
    assert output.count("no JVM was started") == 4, "in wave 4 all pipelines end in `plan`"
    assert output.count("✔") >= 16
    before, _, after = output.partition("Wave 3")
    assert "1048.4" in before, "the wrong weather is joined"
    assert "JetBlue Airways" in after and "1048.4" not in after, "the correction has reached the joined table"
    assert "Traceback" not in output
    assert missing_line(readme_block("Wave 2: "), output) is None
    assert (folder / "lake" / "docs" / "flights" / "index.html").is_file()
    check_no_value_leaves_the_tables(folder)


def check_no_value_leaves_the_tables(folder: Path) -> None:
    """The numbers of planes are in no log, no page, no database of Airflow, and none of the platform's own files and tables."""
    layout = Layout.local(folder / "lake", folder / "landing")
    entries = read(FlowPlace(layout, "flights", "silver").quarantine).column("record").to_pylist()
    refused = {name for record in entries if record for name in re.findall(r"\bN\d\w{3,4}\b", record)}
    passed = sorted(set(read(layout.table("silver.flights")).column("tailnum").drop_null().to_pylist()))
    values = [*sorted(refused)[:50], *passed[::50]]
    assert refused and len(passed) > 50
    assert contains_any((folder / "landing/flights/flights_2013-02-08.csv").read_bytes(), values), (
        "the search finds them"
    )
    contents = [folder / "landing", *(Path(layout.root) / name for name in ("tables", "quarantine"))]
    assert files_containing(folder, values, excluding=contents) == set()
    assert tables_containing(layout, "flights", values) == set()
