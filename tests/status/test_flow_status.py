"""The status of every flow, read in parallel within a deadline."""

from __future__ import annotations

import dataclasses
import socket

import pytest

from tests.readings import reading_of
from tests.resolved import resolved
from tests.status.sample_project import BRONZE, TRIPS, SampleProject
from tests.waiting import TIMEOUT_SECONDS
from tidegate.errors import SourceError, SourceUnavailableError, SpecError, TidegateError
from tidegate.spec import Flow, KafkaSource, Pipeline, Table
from tidegate.states import status_of
from tidegate.status.flow_status import exit_code, gather

TRANSIENT = SourceUnavailableError("no broker answers")
PERMANENT = SourceError("the folder is not there")


def test_a_flow_that_never_ran_is_behind(project: SampleProject) -> None:
    project.land("a.csv")
    (status,) = gather(
        project.environment, [("trips", resolved(Pipeline(name="trips", flows=(BRONZE,))))], patience=TIMEOUT_SECONDS
    )
    assert (status.label, status_of(status).name, status.version, status.place.refresh) == (
        "trips/bronze",
        "behind",
        1,
        0,
    )
    assert status_of(status).sentence == "1 new file in trips"
    assert status.quarantine.open == 0


def test_a_pipeline_that_does_not_load_hides_no_other(project: SampleProject) -> None:
    project.land("a.csv")
    broken = SpecError("two flows have the name silver")
    statuses = gather(
        project.environment,
        [("broken", broken), ("trips", resolved(Pipeline(name="trips", flows=(BRONZE,))))],
        patience=TIMEOUT_SECONDS,
    )
    assert [(status.label, status.error) for status in statuses] == [("broken", broken), ("trips/bronze", None)]
    assert (status_of(statuses[0]).name, status_of(statuses[0]).sentence) == ("error", "two flows have the name silver")


def test_a_source_that_does_not_answer_in_time_counts_as_unavailable(project: SampleProject) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = dataclasses.replace(project.environment, kafka=f"127.0.0.1:{silent.getsockname()[1]}")
        clicks = Flow(name="clicks", source=KafkaSource(topic="clicks", schema="a INT"), target=Table("bronze.clicks"))
        # With a longer wait, the probe's own timeout would be the error instead.
        (status,) = gather(environment, [("clicks", resolved(Pipeline(name="clicks", flows=(clicks,))))], patience=0.2)
    assert (status_of(status).name, status.label, status.version) == ("unreachable", "clicks/clicks", 1)
    assert isinstance(status.error, SourceUnavailableError)
    assert "did not answer within 0.2 s" in status_of(status).sentence


def test_many_flows_take_longer_than_the_wait_for_one_and_only_a_source_that_is_silent_is_late(
    project: SampleProject,
) -> None:
    project.land("a.csv")
    flows = [
        dataclasses.replace(BRONZE, name=f"bronze_{number}", target=Table(f"bronze.t{number}")) for number in range(100)
    ]
    clicks = Flow(name="clicks", source=KafkaSource(topic="clicks", schema="a INT"), target=Table("bronze.clicks"))
    pipelines = [(each.name, resolved(Pipeline(name=each.name, flows=(each,)))) for each in (clicks, *flows)]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = dataclasses.replace(project.environment, kafka=f"127.0.0.1:{silent.getsockname()[1]}")
        readings = gather(environment, pipelines, patience=0.15)
    assert [reading.label for reading in readings if reading.error is not None] == ["clicks/clicks"]
    assert {status_of(reading).name for reading in readings[1:]} == {"behind"}


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ((), 0),
        ((TRANSIENT,), TRANSIENT.exit_code),
        ((TRANSIENT, PERMANENT), PERMANENT.exit_code),
        ((PERMANENT, TRANSIENT), PERMANENT.exit_code),
    ],
)
def test_the_exit_code_of_a_permanent_error_comes_before_a_transient_one(
    errors: tuple[TidegateError, ...], code: int
) -> None:
    assert TRANSIENT.exit_code != PERMANENT.exit_code
    readings = [reading_of(TRIPS, BRONZE, error=each) for each in (None, *errors)]
    assert exit_code(readings) == code
