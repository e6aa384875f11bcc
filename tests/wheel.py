"""Builds the wheel, without a network: the build backend is in the lock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def build(folder: Path) -> Path:
    """The wheel of this tree, in a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built
