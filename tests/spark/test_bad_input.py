"""Bad input is a typed error before the JVM starts, and nothing is written."""

from __future__ import annotations

import json
import os
import socket
from datetime import date
from pathlib import Path

import pytest

from demo import flights_feed
from tests.deployment import Deployment
from tidegate.errors import EX_CONFIG, EX_TEMPFAIL, LakeVersionError, RequestError
from tidegate.lake.place import Place
from tidegate.reports.report import RunReport
from tidegate.store import Address


def expect_no_table(deployment: Deployment) -> None:
    assert not (deployment.environment.lake / "tables").exists()
    assert "session" not in deployment_parts(deployment), "no JVM was started"


def deployment_parts(deployment: Deployment) -> dict[str, float]:
    (path,) = deployment.environment.lake.glob("reports/*/*/*/report.json")
    report = RunReport.read(Address.local(path))
    assert report is not None
    return report.parts


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.jvm
def test_an_unreachable_broker_is_a_transient_error(deployment: Deployment) -> None:
    report = deployment.at(f"127.0.0.1:{free_port()}").run("clickstream")

    assert [flow.state for flow in report.flows] == ["failed"] + ["skipped"] * 3
    error = report.flow("bronze").error
    assert error is not None
    assert (error.kind, error.transient, error.exit_code) == ("SourceUnavailableError", True, EX_TEMPFAIL)
    expect_no_table(deployment)


@pytest.mark.jvm
def test_a_landing_folder_that_does_not_exist_yet_is_no_failure(deployment: Deployment) -> None:
    report = deployment.run()

    assert [(flow.state, flow.error) for flow in report.flows] == [("idle", None)] * 3
    (note,) = report.flow("bronze").notes
    assert note.startswith("not delivered yet: landing folder ") and note.endswith("flights does not exist")
    assert not (deployment.environment.lake / "tables").exists()


@pytest.mark.jvm
def test_a_landing_folder_that_is_a_file_is_a_terminal_error(deployment: Deployment) -> None:
    (deployment.environment.landing / "flights").write_text("not a folder")

    report = deployment.run()

    assert [flow.state for flow in report.flows] == ["failed", "skipped", "skipped"]
    error = report.flow("bronze").error
    assert error is not None
    assert (error.kind, error.transient, error.exit_code) == ("SourceError", False, EX_CONFIG)
    assert "flights" in error.message
    expect_no_table(deployment)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.jvm
def test_an_unreadable_landing_folder_is_a_terminal_error(deployment: Deployment) -> None:
    folder = deployment.environment.landing / "flights"
    folder.mkdir()
    folder.chmod(0)
    try:
        error = deployment.run().flow("bronze").error
    finally:
        folder.chmod(0o700)

    assert error is not None
    assert error.kind == "SourceError"


@pytest.mark.jvm
def test_a_lake_of_a_newer_version_is_not_changed(deployment: Deployment) -> None:
    lake = deployment.environment.lake
    lake.mkdir()
    (lake / "lake.json").write_text(json.dumps({"format": 99}))
    flights_feed.land_day(deployment.environment.landing, date(2013, 1, 1))

    with pytest.raises(LakeVersionError, match=r"format 99.*upgrade Tidegate"):
        deployment.run()

    assert not (lake / "tables").exists()
    assert not (lake / "checkpoints").exists()


@pytest.mark.parametrize("content", ["", "v1", "v1\n{", "garbage\n{}\n{}", "v1\n{}\n[]"])
@pytest.mark.jvm
def test_a_truncated_offset_log_is_an_error_that_names_the_file(content: str, deployment: Deployment) -> None:
    checkpoint = Place(deployment.layout, "flights", "bronze", 1, 0).checkpoint
    files = {"offsets/0": content, "metadata": '{"id":"7"}'}
    for name, text in files.items():
        path: Path = Path(checkpoint / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    flights_feed.land_day(deployment.environment.landing, date(2013, 1, 1))

    error = deployment.run().flow("bronze").error

    assert error is not None
    assert (error.kind, error.transient) == ("CheckpointCorruptError", False)
    assert str(checkpoint / "offsets" / "0") in error.message
    assert Path(checkpoint / "offsets" / "0").read_text() == content
    expect_no_table(deployment)


def test_the_error_for_an_unknown_pipeline_suggests_a_similar_name(deployment: Deployment) -> None:
    with pytest.raises(RequestError, match="did you mean 'flights'"):
        deployment.request("flight")


def test_the_error_for_an_unknown_flow_lists_the_flows(deployment: Deployment) -> None:
    with pytest.raises(RequestError, match="it has: bronze, silver, gold"):
        deployment.request("flights", ["platinum"])
