"""The servers of clusters that ``make cluster-servers`` puts into the user's cache."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "cluster_servers.sh"


def folder_of(cluster: str) -> Path:
    """The folder with the servers of a cluster. Skips the test where there are none: it was not run then, and has not passed."""
    result = subprocess.run([SCRIPT, cluster], capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"not run: {result.stderr.strip()}")
    return Path(result.stdout.strip())
