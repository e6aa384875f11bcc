"""Programs of servers that only tests need."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "server_programs.sh"


def folder_of(program: str, package: str) -> Path:
    """The folder of a program, which Debian's package has. Skips the test where the script can find or install none."""
    result = subprocess.run([SCRIPT, program, package], capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(result.stderr.strip())
    return Path(result.stdout.strip())
