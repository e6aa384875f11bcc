"""On a full disk a run fails with a transient error; after space is freed, the next run completes the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import TIMEOUT_SECONDS

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]

PROJECT = Path(__file__).parents[2]


@pytest.mark.nightly
def test_a_run_after_a_full_disk_completes_the_work_without_duplicates(tmp_path: Path) -> None:
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    process = subprocess.run(
        [*namespace, sys.executable, str(PROJECT / "tests" / "chaos" / "full_disk.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-5000:]
    result = json.loads(process.stdout.splitlines()[-1])

    assert result["first"] == {"kind": "LakeUnwritableError", "transient": True}
    assert result["second"] == {"kind": None}
    assert result["ids"] == result["distinct"] == result["landed"]
    assert result["silver"] == result["landed"]
