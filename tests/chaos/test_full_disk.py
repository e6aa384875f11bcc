"""A disk that is full ends a run with a transient error; with more space the next run finishes the work, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]

PROJECT = Path(__file__).parents[2]


@pytest.mark.nightly
def test_a_full_disk_leaves_nothing_half_done(tmp_path: Path) -> None:
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    done = subprocess.run(
        [*namespace, sys.executable, str(PROJECT / "tests" / "chaos" / "full_disk.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    told = json.loads(done.stdout.splitlines()[-1])

    assert told["first"] == {"kind": "LakeUnwritableError", "transient": True}
    assert told["second"] == {"kind": None}
    assert told["ids"] == told["distinct"] == told["landed"]
    assert told["silver"] == told["landed"]
