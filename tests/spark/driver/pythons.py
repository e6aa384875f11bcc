"""Pythons of executors that lack something."""

from __future__ import annotations

import venv
from pathlib import Path

OTHER = """\
import sys
from collections import namedtuple

sys.version_info = namedtuple("version_info", "major minor micro releaselevel serial")(3, 99, 0, "final", 0)
"""


def without_packages(folder: Path) -> Path:
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def of_another_version(folder: Path) -> Path:
    python = without_packages(folder)
    (next((folder / "lib").glob("python*/site-packages")) / "sitecustomize.py").write_text(OTHER)
    return python
