"""The lag of a flow with several sources: each is read from its own line of the checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests import places
from tests.resolved import resolved
from tests.spark_files import DeltaLog, add, change, delta_offset
from tests.status.sample_project import BRONZE, GOLD, SILVER, TRIPS, SampleProject
from tests.waiting import TIMEOUT_SECONDS
from tests.with_fields import with_fields
from tidegate.checkpoints import vector
from tidegate.errors import OffsetsExpiredError
from tidegate.sources.tables import measure as tables
from tidegate.spec import ChangeFeed, Flow
from tidegate.states import status_of
from tidegate.status.flow_status import gather
from tidegate.status.reading import Reading

WEATHER = replace(SILVER, name="weather", gate=None, target=with_fields(SILVER.target, name="silver.weather"))
JOINED = replace(GOLD, sources=(ChangeFeed("silver.trips"), ChangeFeed("silver.weather", on={"at": "hour"})))
PIPELINE = replace(TRIPS, flows=(BRONZE, SILVER, WEATHER, JOINED))


class Joined:
    """The flow, and the logs of its sources."""

    def __init__(self, project: SampleProject) -> None:
        self.project = project
        self.trips, self.weather = project.table("silver.trips"), project.table("silver.weather")

    def begin(self, **versions: int) -> None:
        """Note the versions at which the checkpoint begins."""
        place = places.current(self.project.layout, PIPELINE, JOINED)
        vector.note_starts(place, {f"silver.{name}": number for name, number in versions.items()})

    def lag(self) -> Reading:
        return self.project.measure(JOINED, PIPELINE)


@pytest.fixture
def joined(project: SampleProject) -> Joined:
    return Joined(project)


def merge(log: DeltaLog, rows: int = 1) -> None:
    counts = {f"numTargetRows{kind}": 0 for kind in ("Inserted", "Updated", "Deleted")}
    log.commit(change(70), operation="MERGE", metrics={**counts, "numTargetRowsInserted": rows})


def test_an_unused_checkpoint_reads_all_of_the_first_source_only(joined: Joined) -> None:
    joined.trips.commit(add("a", 3, 10))
    joined.weather.commit(add("a", 50, 999))

    measured = joined.lag()

    backlog = measured.backlog
    assert (measured.has_work, backlog.rows, backlog.size, backlog.behind) == (
        True,
        3,
        10,
        1,
    )
    assert measured.reason == "all of silver.trips, version 0"


def test_a_source_that_does_not_exist_yet_is_waited_for(project: SampleProject) -> None:
    project.table("silver.trips").commit(add("a", 3))
    measured = project.measure(JOINED, PIPELINE)
    assert (measured.has_work, measured.reason) == (False, "waits: silver.weather does not exist yet")


def test_a_change_of_any_source_is_work(joined: Joined) -> None:
    joined.trips.commit(add("a", 3))
    joined.weather.commit(add("a", 3))
    joined.begin(trips=0, weather=0)
    joined.project.checkpoint("gold").run(0, delta_offset(1), delta_offset(1))
    assert (joined.lag().has_work, joined.lag().backlog.position) == (
        False,
        "silver.trips version 0; silver.weather version 0",
    )
    assert joined.lag().reason == "nothing new in silver.trips; nothing new in silver.weather"

    merge(joined.weather)
    assert (joined.lag().reason, joined.lag().backlog.ahead) == (
        "1 new version of silver.weather",
        "silver.weather version 1",
    )
    merge(joined.trips, 2)
    merge(joined.trips, 3)

    measured = joined.lag()
    backlog = measured.backlog
    assert (backlog.behind, backlog.rows, backlog.size) == (3, 6, 210)
    assert measured.reason == "2 new versions of silver.trips; 1 new version of silver.weather"
    assert measured.backlog.ahead == "silver.trips versions 1 to 2; silver.weather version 1"


def test_a_source_of_which_nothing_was_read_begins_where_the_checkpoint_began(joined: Joined) -> None:
    joined.trips.commit(add("a", 3))
    for _ in range(3):
        merge(joined.weather)
    joined.begin(trips=0, weather=1)
    joined.project.checkpoint("gold").run(0, delta_offset(0, 0, snapshot=True), None)

    assert joined.lag().reason == "1 new version of silver.weather", "what it had then is read with the first source"


def test_a_table_that_is_joined_twice_is_counted_and_named_once(joined: Joined) -> None:
    feeds = (
        ChangeFeed("silver.trips"),
        ChangeFeed("silver.weather", on={"at": "start_hour"}),
        ChangeFeed("silver.weather", on={"at": "end_hour"}),
    )
    joined.trips.commit(add("a", 3, 10))
    joined.weather.commit(add("a", 50, 999))
    joined.weather.commit(add("b", 7, 70))
    starts = {"silver.trips": 0, "silver.weather": 0}

    backlog = tables.of_tables(joined.project.layout, feeds, None, starts)

    assert (backlog.rows, backlog.behind, backlog.size) == (10, 2, 80)
    assert backlog.what == "all of silver.trips, version 0; 1 new version of silver.weather"
    assert backlog.ahead == "silver.weather version 1"


def test_removed_changes_of_any_source_are_an_error_that_names_it(joined: Joined) -> None:
    joined.trips.commit(add("a", 3))
    joined.weather.commit(add("a", 3))
    joined.begin(trips=0, weather=0)
    joined.project.checkpoint("gold").run(0, delta_offset(1), delta_offset(1))
    merge(joined.weather)
    for file in Path(joined.weather.path / "_change_data").iterdir():
        file.unlink()
    with pytest.raises(OffsetsExpiredError, match=r"table silver\.weather no longer has the changes"):
        joined.lag()


def test_a_flow_has_work_or_waits_with_any_flow_above_it(project: SampleProject) -> None:
    joined = Joined(project)
    joined.trips.commit(add("a", 3))
    joined.weather.commit(add("a", 3))
    joined.begin(trips=0, weather=0)
    project.checkpoint("gold").run(0, delta_offset(1), delta_offset(1))
    project.table("bronze.trips").commit(add("a", 3))

    def plan(*flows: Flow) -> Reading:
        return project.plan(*flows, pipeline=PIPELINE).readings[-1]

    assert plan(WEATHER, JOINED).reason == "reads what flow weather writes"
    assert plan(SILVER, WEATHER, JOINED).reason == "reads what flows silver and weather write"
    project.checkpoint("silver").plan(0, delta_offset(1))
    project.refuse(0)
    assert (plan(SILVER, WEATHER, JOINED).has_work, plan(SILVER, WEATHER, JOINED).reason) == (
        False,
        "waits for silver: refused",
    )


def test_a_flow_waits_for_whichever_flow_above_it_is_stopped(project: SampleProject) -> None:
    swapped = (ChangeFeed("silver.weather"), ChangeFeed("silver.trips", on={"at": "hour"}))
    joined = replace(JOINED, source=swapped[0], sources=swapped)
    for name in ("bronze.trips", "silver.weather", "silver.trips"):
        project.table(name).commit(add("a", 3))
    project.checkpoint("silver").plan(0, delta_offset(1))
    project.refuse(0)
    pipeline = resolved(replace(PIPELINE, flows=(BRONZE, SILVER, WEATHER, joined)), project.environment.project)

    statuses = gather(project.environment, [("trips", pipeline)], patience=TIMEOUT_SECONDS)

    status = {each.flow: each for each in statuses}["gold"]
    assert status.upstream is not None and status.upstream.cause.flow == "silver"
    assert (status_of(status).name, status_of(status).sentence) == ("waits", "waits for silver: refused")
