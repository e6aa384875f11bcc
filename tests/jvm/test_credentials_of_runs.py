"""Runs whose keys end in the middle, or are refused: what goes on, and that nothing of the keys is in anything that a run leaves."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.canaries import files_containing
from tests.chaos.sample import landed
from tests.deployment import Deployment
from tests.s3_server import REGION, S3Process
from tests.store.identities import IdentityProxy
from tests.store.proxy import ServerFault
from tests.store.token_endpoint import TokenEndpoint
from tidegate.runtime.paths import cache_dir

pytestmark = pytest.mark.jvm

PROJECT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "tidegate"


@contextmanager
def watched_command_lines() -> Iterator[set[str]]:
    """The command lines of all processes while the context lasts."""
    lines: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                # The process may have ended.
                with contextlib.suppress(OSError):
                    lines.add(file.read_bytes().decode("utf-8", "replace"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lines
    finally:
        ended.set()
        thread.join()


@pytest.mark.nightly
def test_a_run_goes_on_when_its_keys_end_and_fails_for_the_moment_when_spark_gets_none_and_leaves_nothing_of_them(
    s3_server: S3Process, tmp_path: Path, no_settings: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, conf, folder = (tmp_path / name for name in ("secret", "conf", "deployment"))
    for each in (secret, conf, conf / "events"):
        each.mkdir()
    (conf / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir file:{conf}/events\n"
    )
    local = Deployment.make(folder, PROJECT)
    landed(local)
    for name in ("pipelines", "spark_jobs"):
        shutil.copytree(PROJECT / name, folder / "project" / name, dirs_exist_ok=True)
    (folder / "project" / ".cache").symlink_to(PROJECT / ".cache")
    with TokenEndpoint().serving() as endpoint:
        proxy = IdentityProxy(s3_server, endpoint.keys)
        with proxy.serving():
            # So short that each client fetches new keys for what it does next.
            endpoint.lasts = timedelta(seconds=30)
            variables = {
                "HOME": str(secret),
                # Its jars would be copied to a new home, and have no class data archive there.
                "TIDEGATE_CACHE": str(cache_dir()),
                "AWS_ENDPOINT_URL_S3": proxy.endpoint,
                "AWS_REGION": REGION,
                "SPARK_CONF_DIR": str(conf),
                **endpoint.variables("container", secret),
                # Spark copies these to Hadoop's settings, which its event log and its UI have.
                **endpoint.variables("environment", secret),
                "TIDEGATE_S3_CREDENTIALS": "container",
            }
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            bucket = s3_server.new_bucket()
            deployment = Deployment.of(folder, PROJECT, **variables, TIDEGATE_LAKE=f"s3://{bucket}/lake")
            before: set[str] = set()

            def end() -> None:
                before.update(endpoint.keys)
                endpoint.end_all(after=timedelta(seconds=3))

            fault = proxy.fail(ServerFault("PUT", r"silver/\S*\.parquet", status=503, code="SlowDown", then=end))
            with watched_command_lines() as lines:
                output = run(deployment, 0, "bronze", "silver")
            assert fault.fired
            assert "silver: done" in output
            assert proxy.identities() == {"container"}
            for client in ("aws-sdk-java", "object_store/"):
                last = [each.access_key for each in proxy.signed if client in each.agent and not each.refused][-1]
                assert last not in before, client
            # Then one client is refused whatever it fetches, and the server quotes its token in the answer.
            (folder / "landing" / "flights" / "later.csv").write_bytes(
                (folder / "landing" / "flights" / "a.csv").read_bytes()
            )
            proxy.expired_agent = "aws-sdk-java"
            refused = run(deployment, 75, "bronze")
            assert "credentials have expired" in refused
            texts = {*endpoint.texts(), "canary-authorization"}
    assert any("SparkSubmit" in line and proxy.endpoint in line for line in lines), "the driver's is among them"
    assert [text for text in texts if text in "\n".join([output, refused, *lines])] == []
    shutil.copytree(s3_server.folder / "buckets" / bucket, tmp_path / "bucket")
    assert files_containing(tmp_path, texts) == {"secret/authorization"}
    events = [path for path in (conf / "events").rglob("*") if path.is_file() and "events" in path.name]
    assert len(events) >= 2, "an event log of each run"


def run(deployment: Deployment, exit_code: int, *flows: str) -> str:
    """What a run of some flows prints."""
    result = subprocess.run(
        [COMMAND, "run", "flights", *(word for flow in flows for word in ("--flow", flow))],
        env={**os.environ, **deployment.environment.variables()},
        cwd=deployment.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == exit_code, result.stdout + result.stderr
    return result.stdout + result.stderr
