"""One run on a real standalone cluster that loses an executor; the modules beside it have every kind of flow, at night."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.kinds import end_of, kinds_on
from tests.s3_server import S3Process
from tests.standalone import kill_executor, standalone_cluster
from tidegate.runtime.project_archive import FOLDER

pytestmark = [pytest.mark.jvm, pytest.mark.chaos]


def test_a_run_goes_on_without_an_executor_that_is_killed_and_executors_have_its_code(
    s3_server: S3Process, tmp_path: Path, no_settings: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster").mkdir()
    with (
        standalone_cluster(tmp_path / "cluster") as cluster,
        kinds_on(tmp_path, s3_server, None, "none", monkeypatch, **cluster.variables) as kinds,
    ):
        kinds.land()
        with kinds.pausing("events"):
            run = kinds.start("events_files", "events")
            note = kinds.wait_for("events", run)
            kill_executor(cluster.executor_in(note.cwd))
        end_of(run)
        assert kinds.differences(["1"], "bronze.events", "silver.events") == []
        notes = kinds.noted("events")
        assert len({note.cwd for note in notes}) > 1, "a second executor worked"
        assert all(file.is_relative_to(note.cwd / FOLDER) for note in notes for file in note.files), notes
        assert [line for line in kinds.log().splitlines() if "Lost executor" in line], kinds.log()
