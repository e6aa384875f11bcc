"""Deployments with lake or landing zone in a bucket whose policy refuses unsafe writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.sample import landed
from tests.deployment import Deployment
from tests.s3_server import S3Process
from tests.store.buckets import upload
from tests.store.proxy import S3Proxy

PROJECT = Path(__file__).parents[2]
Deploy = Callable[..., Deployment]


@pytest.fixture
def guarded_proxy(s3_server: S3Process) -> Iterator[S3Proxy]:
    """Before the server; no unsafe write reached it."""
    with S3Proxy(s3_server.endpoint).serving() as serving:
        yield serving
    assert serving.refused == []


@pytest.fixture
def deploy(
    guarded_proxy: S3Proxy, s3_server: S3Process, tmp_path: Path, no_settings: None, monkeypatch: pytest.MonkeyPatch
) -> Deploy:
    """Makes deployments with the sample of flights, each in a bucket of its own or in a folder."""
    # The environment of all processes that are started.
    variables = {**s3_server.variables, "AWS_ENDPOINT_URL_S3": guarded_proxy.endpoint}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    def make(lake: str = "bucket", landing: str = "bucket") -> Deployment:
        folder = tmp_path / f"{lake}-{landing}"
        local = Deployment.make(folder, PROJECT)
        landed(local)
        for name in ("pipelines", "spark_jobs"):
            shutil.copytree(PROJECT / name, folder / "project" / name, dirs_exist_ok=True)
        (folder / "project" / ".cache").symlink_to(PROJECT / ".cache")
        bucket = f"s3://{s3_server.new_bucket()}"
        roots = {"TIDEGATE_LAKE": lake, "TIDEGATE_LANDING": landing}
        uris = {name: f"{bucket}/{name.lower()}" for name, where in roots.items() if where == "bucket"}
        deployment = Deployment.of(folder, PROJECT, **variables, **uris)
        if landing == "bucket":
            upload(folder / "landing", deployment.layout.landing_root)
        return deployment

    return make
