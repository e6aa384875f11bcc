"""Where every flow stands, read side by side and within a deadline."""

from __future__ import annotations

import dataclasses
import socket

import pytest

from tests.patience import PATIENCE
from tests.status.place import BRONZE, Place
from tidegate.errors import SourceError, SourceUnavailableError, SpecError, TidegateError
from tidegate.spec import Flow, KafkaSource, Pipeline, Table
from tidegate.status.standing import Standing, exit_code, gather

FAR = SourceUnavailableError("no broker answers")
NEAR = SourceError("the folder is not there")


def test_a_flow_that_was_never_run_stands_behind_what_landed(place: Place) -> None:
    place.land("a.csv")
    (told,) = gather(place.environment, [("trips", Pipeline(name="trips", flows=(BRONZE,)))], patience=PATIENCE)
    assert (told.place, told.state, told.version, told.refresh) == ("trips/bronze", "behind", 1, 0)
    assert told.told() == "1 new file in trips"
    assert told.quarantine is not None and told.quarantine.open == 0


def test_a_pipeline_that_does_not_load_hides_no_other(place: Place) -> None:
    place.land("a.csv")
    broken = SpecError("two flows have the name silver")
    told = gather(
        place.environment, [("broken", broken), ("trips", Pipeline(name="trips", flows=(BRONZE,)))], patience=PATIENCE
    )
    assert [(standing.place, standing.error) for standing in told] == [("broken", broken), ("trips/bronze", None)]
    assert (told[0].state, told[0].told()) == ("error", "two flows have the name silver")


def test_a_source_that_does_not_answer_in_time_counts_as_away(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = dataclasses.replace(place.environment, kafka=f"127.0.0.1:{silent.getsockname()[1]}")
        clicks = Flow(name="clicks", source=KafkaSource(topic="clicks", schema="a INT"), target=Table("bronze.clicks"))
        # Whoever waited longer would meet the error of the probe instead.
        (told,) = gather(environment, [("clicks", Pipeline(name="clicks", flows=(clicks,)))], patience=0.2)
    assert (told.state, told.place, told.version) == ("error", "clicks/clicks", 1)
    assert isinstance(told.error, SourceUnavailableError)
    assert "did not answer within 0.2 s" in told.told()


@pytest.mark.parametrize(
    ("errors", "code"),
    [((), 0), ((FAR,), FAR.exit_code), ((FAR, NEAR), NEAR.exit_code), ((NEAR, FAR), NEAR.exit_code)],
)
def test_what_needs_a_person_is_told_before_what_heals_by_itself(errors: tuple[TidegateError, ...], code: int) -> None:
    assert FAR.exit_code != NEAR.exit_code
    assert (
        exit_code([Standing(pipeline="trips"), *[Standing(pipeline="trips", error=error) for error in errors]]) == code
    )
