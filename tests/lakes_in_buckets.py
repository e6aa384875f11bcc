"""``pytest --lake=s3``: the lakes of all deployments of this process are in buckets, for tests that are the same there.

The session of the process, which is started with the settings of a bucket, sends its requests through a proxy that refuses unsafe
writes. All other clients go to the server: delta-rs would keep the proxy, a thread of this process, from answering. Landing zones
stay folders. A bucket is a folder of the server, so `tests.fault_points` and `tests.start_state` copy and restore it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.s3_server import S3Process
from tests.store.proxy import S3Proxy

LAKE = "lake"


@dataclass(frozen=True)
class LakesInBuckets:
    """Where the lakes of this process are."""

    server: S3Process
    proxy: S3Proxy
    """Before the server, for the session of this process alone."""

    def of(self, folder: Path) -> Path:
        """The folder of the files of a deployment's lake."""
        bucket = f"bucket-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
        return self.server.folder / "buckets" / bucket / LAKE

    def variables(self, folder: Path) -> Mapping[str, str]:
        """The environment of a deployment."""
        lake = self.of(folder)
        lake.parent.mkdir(exist_ok=True)
        return {**self.server.variables, "TIDEGATE_LAKE": f"s3://{lake.parent.name}/{LAKE}"}

    def landing(self, folder: Path) -> str:
        """For a landing zone of a deployment in the bucket of its lake."""
        return f"s3://{self.of(folder).parent.name}/landing"


_of_this_process: list[LakesInBuckets] = []


def lakes_in_buckets() -> LakesInBuckets | None:
    """None where lakes are in folders."""
    return _of_this_process[0] if _of_this_process else None


def of_drivers() -> Mapping[str, str]:
    """The environment of drivers that a test starts: those of lakes in buckets send their requests through the proxy, too."""
    lakes = lakes_in_buckets()
    return {} if lakes is None else {"AWS_ENDPOINT_URL_S3": lakes.proxy.endpoint}


def expect_passed_in_buckets(tests: Sequence[str], folder: Path, **variables: str) -> None:
    """Run tests with lakes in buckets, in a process of their own, and check that all have passed.

    Args:
        tests: As pytest takes them.
        folder: For their files.
        variables: Of their environment.
    """
    options = ["-q", "-n", "0", "--lake=s3", f"--basetemp={folder / 'own'}"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    result = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert " passed" in result.stdout and " skipped" not in result.stdout, result.stdout[-1000:]


def lake_folder(folder: Path) -> Path:
    """The folder of the files of a test's lake; that of the server where it is in a bucket."""
    lakes = lakes_in_buckets()
    return folder / LAKE if lakes is None else lakes.of(folder)


@contextmanager
def serving(server: S3Process, patch: pytest.MonkeyPatch) -> Iterator[LakesInBuckets]:
    """Until the end of the context, lakes are in buckets of a server, whose keys are in the environment."""
    with S3Proxy(server.endpoint).serving() as proxy:
        lakes = LakesInBuckets(server, proxy)
        # Tests give delta-rs no options: it reads the last two, too.
        delta_rs = {"AWS_ENDPOINT_URL": server.endpoint, "AWS_ALLOW_HTTP": "true"}
        for name, value in {**server.variables, **delta_rs}.items():
            patch.setenv(name, value)
        _of_this_process.append(lakes)
        try:
            yield lakes
        finally:
            _of_this_process.clear()
