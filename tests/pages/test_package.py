"""The wheel has the templates and the style sheet, which a job on another machine needs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_has_the_templates_and_the_style_sheet(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packaged = set(zipfile.ZipFile(wheel).namelist())
    required = {path.relative_to(ROOT) for path in (ROOT / "tidegate" / "pages").rglob("*.*") if path.suffix != ".pyc"}
    assert {path.suffix for path in required} == {".py", ".html", ".css"}
    assert {str(path) for path in required} - packaged == set()
