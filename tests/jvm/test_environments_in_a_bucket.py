"""An environment that reads production's tables, with both lakes in one bucket and production's keys."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.sample import landed
from tests.deployment import Deployment
from tests.s3_server import S3Process
from tests.store.buckets import upload
from tests.store.proxy import S3Proxy
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.store.s3 import S3Server

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

PROJECT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "tidegate"
SETTINGS = """project = "shop"
default = "dev"

[environments.prod]
lake = "s3://BUCKET/prod/lake"
landing = "s3://BUCKET/prod/landing"

[environments.dev]
lake = "s3://BUCKET/dev/lake"
landing = "s3://BUCKET/dev/landing"
source = "prod"
"""


def objects(server: S3Process, bucket: str) -> dict[str, tuple[str | None, datetime]]:
    """Tag and time of each object of production."""
    client, _ = S3Server(server.variables).client(bucket)
    return {each["path"]: (each["e_tag"], each["last_modified"]) for page in client.list("prod", 1000) for each in page}


def test_runs_in_a_bucket_write_beside_production_which_they_read(
    s3_server: S3Process, spark: Any, tmp_path: Path, no_settings: None
) -> None:
    local = Deployment.make(tmp_path, PROJECT)
    landed(local)
    assert {flow.state for flow in local.run(flows=["bronze"]).flows} == {"done"}
    project, bucket = tmp_path / "project", s3_server.new_bucket()
    for name in ("pipelines", "spark_jobs"):
        shutil.copytree(PROJECT / name, project / name)
    (project / ".cache").symlink_to(PROJECT / ".cache")
    (project / "tidegate.toml").write_text(SETTINGS.replace("BUCKET", bucket))
    variables = {**s3_server.variables, "TIDEGATE_PROJECT": str(project)}
    prod = Layout.of(Environment.read({**variables, "TIDEGATE_ENV": "prod"}))
    upload(local.environment.lake, prod.root)
    upload(local.environment.landing, prod.landing_root)
    before = objects(s3_server, bucket)
    assert before
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        variables["AWS_ENDPOINT_URL_S3"] = proxy.endpoint

        def tidegate(*arguments: str) -> str:
            result = subprocess.run(
                [COMMAND, *arguments],
                env={**os.environ, **variables},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == 0, result.stdout + result.stderr
            return result.stdout

        assert "silver -> silver.flights: done" in tidegate("run", "flights", "--flow", "silver")
        suite = project / "expectations/flights/silver.json"
        suite.write_text(suite.read_text().replace('"max_value": 2000.0', '"max_value": 1000000.0'))
        assert "1 replayed = 1 written" in tidegate(
            "quarantine", "replay", "flights", "silver", "--rule", "between(dep_delay)"
        )
        sql = "SELECT count(*), (SELECT count(*) FROM silver.flights) FROM bronze.flights"
        [[read, made]] = json.loads(tidegate("query", sql, "--json"))["rows"]
        assert read == local.table("bronze.flights").num_rows > made > 0

        of_prod = {method for method, path in proxy.requests if path.startswith(f"/{bucket}/prod/")}
        assert of_prod == {"GET", "HEAD"}, of_prod
        assert {"PUT"} <= {method for method, path in proxy.requests if path.startswith(f"/{bucket}/dev/")}
        assert objects(s3_server, bucket) == before

        # The keys have the right to write there; what an environment reads refuses to.
        count = len(proxy.requests)
        dev = Layout.of(Environment.read(variables))
        file = dev.read_table("bronze.flights") / "file"
        with pytest.raises(OSError) as refused:
            file.put(b"")
        assert refused.value.errno == errno.EROFS
        assert {method for method, _ in proxy.requests[count:]} <= {"GET", "HEAD"}
        (prod.table("bronze.flights") / "file").put(b"")
        assert objects(s3_server, bucket) != before
