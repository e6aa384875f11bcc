"""What a job off the project's machine needs for its pages is in the wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_templates_and_style_sheet(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {path.relative_to(ROOT) for path in (ROOT / "tidegate" / "pages").rglob("*.*") if path.suffix != ".pyc"}
    assert {path.suffix for path in wanted} == {".py", ".html", ".css"}
    assert {str(path) for path in wanted} - held == set()
