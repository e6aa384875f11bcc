"""The whole demo, on whose tables people act, with its lake in a bucket that refuses unsafe writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo import services
from tests.airflow_database import migrated_home
from tests.s3_server import S3Process
from tests.store.proxy import PROTOCOL_FILE, S3Proxy

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow]

PROJECT = Path(__file__).parents[2]


@pytest.mark.timeout(3600)
def test_all_checks_pass_after_people_have_acted(s3_server: S3Process, proxy: S3Proxy, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    for name in services.PIPELINES:
        migrated_home(folder / name)
    lake = f"s3://{s3_server.new_bucket()}/lake"
    command = [sys.executable, "-m", "demo", "--folder", str(folder), "--lake", lake, "--acts"]
    bucket = {**s3_server.variables, "AWS_ENDPOINT_URL_S3": proxy.endpoint}
    demo = subprocess.run(
        command, cwd=PROJECT, env={**os.environ, **bucket}, capture_output=True, text=True, check=False
    )
    output = demo.stdout + demo.stderr
    assert demo.returncode == 0, output + (folder / "demo.log").read_text()[-6000:]
    assert output.count("no JVM was started") == 4, "in wave 4 all pipelines end in `plan`"
    assert output.count("✔") >= 25 and "✘" not in output, output
    assert not (folder / "lake").exists()
    assert proxy.refused == []
    assert sum(PROTOCOL_FILE.search(path) is not None for method, path in proxy.requests if method == "PUT") > 100
