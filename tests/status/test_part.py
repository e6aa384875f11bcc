"""A reading knows its parts when they are asked for: each once, and after an error only those that it has."""

from __future__ import annotations

import pytest

from tests.memory import MemoryLayout
from tests.readings import reading_of, waiting
from tests.status.sample_project import BRONZE, SILVER, TRIPS
from tidegate.alerting.facts import UnknownFactError
from tidegate.errors import SourceError
from tidegate.status.reading import MEASURED, Reading

GONE = SourceError("the folder is not there")


def test_a_part_is_read_when_it_is_first_asked_for_and_kept() -> None:
    reading = reading_of(TRIPS, SILVER)
    assert isinstance(reading.layout, MemoryLayout)
    requests = reading.layout.store.requests
    assert (reading.known(Reading.progress), requests.total()) == (None, 0)
    progress = reading.progress
    first = requests.total()
    assert first and reading.progress is progress is reading.known(Reading.progress)
    assert requests.total() == first


def test_what_is_given_is_not_read_and_changes_no_other_reading() -> None:
    reading = reading_of(TRIPS, BRONZE)
    given = reading.given(backlog=waiting(behind=7), alerts=("lag",))
    assert (given.backlog.behind, given.alerts) == (7, ("lag",))
    assert (reading.lag, reading.alerts) == (None, ())
    with pytest.raises(AssertionError, match="backlogs"):
        reading.given(backlogs=waiting())


def test_after_an_error_what_waits_is_unknown_as_a_whole_and_is_not_read_any_more() -> None:
    known = {each.name: None for each in MEASURED} | {"backlog": waiting(), "holder": "a job"}
    reading = reading_of(TRIPS, BRONZE).given(**known).ended(GONE)
    assert (reading.holder, reading.lag, reading.failed) == ("a job", None, True)
    for part in MEASURED:
        with pytest.raises(UnknownFactError):
            part.of(reading)
