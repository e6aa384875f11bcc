"""Which days and hours of a file source are complete."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests import places
from tests.cli.project import append, quarantined
from tests.status.sample_project import BRONZE, SILVER, SampleProject
from tidegate import json_codec
from tidegate.checkpoints.pending_jobs import WINDOWS
from tidegate.errors import SpecError
from tidegate.lake.place import FlowPlace
from tidegate.probes import files
from tidegate.project.resolution import resolve
from tidegate.spec import AfterTables, FileSource, Flow, Intervals, KafkaSource, Pipeline, TopicIntervals
from tidegate.status import intervals
from tidegate.status.completeness import Completeness
from tidegate.status.lag import to_json
from tidegate.store import Address
from tidegate.times.window import Window

NOW = datetime(2026, 1, 4, 12, tzinfo=UTC)
DAYS = "dt=%Y-%m-%d"
MARKED = Intervals(DAYS, marker=f"{DAYS}/_SUCCESS")


def bronze(declared: Intervals) -> Flow:
    assert isinstance(BRONZE.source, FileSource)
    return replace(BRONZE, source=replace(BRONZE.source, intervals=declared))


def land(project: SampleProject, *names: str, at: datetime = NOW) -> None:
    for name in names:
        path = project.landing / name
        path.parent.make_folder()
        path.put(b"a\n1\n")
        os.utime(path, (at.timestamp(), at.timestamp()))


def read_all(project: SampleProject) -> None:
    """As a run of bronze does."""
    files = {str(path): path.stat().st_mtime_ns // 1_000_000 for path in Path(project.landing).rglob("*.csv")}
    checkpoint = project.checkpoint("bronze")
    checkpoint.list_files(0, files)
    checkpoint.run(0, {"logOffset": 0})


def completeness(project: SampleProject, declared: Intervals, now: datetime = NOW, zone: str = "UTC") -> Completeness:
    flow = bronze(declared)
    pipeline = Pipeline(name="trips", flows=(flow, SILVER), timezone=zone)
    result = intervals.read(places.of(project.layout, pipeline, flow), flow, zone, now)
    assert result is not None
    return result


def states(result: Completeness) -> dict[str, str]:
    return {each.name: each.state + (f": {each.why}" if each.why else "") for each in result.intervals}


def test_a_day_is_complete_when_its_marker_is_there_and_bronze_has_all_of_its_files(project: SampleProject) -> None:
    land(project, "dt=2026-01-01/a.csv", "dt=2026-01-01/b.csv", "dt=2026-01-01/_SUCCESS", "dt=2026-01-02/a.csv")
    read_all(project)
    land(project, "dt=2026-01-04/a.csv", "dt=2026-01-04/_SUCCESS", "dt=2026-13-01/a.csv", "other.csv")

    result = completeness(project, MARKED)

    assert states(result) == {
        "2026-01-01": "complete",
        "2026-01-02": "incomplete: no _SUCCESS",
        "2026-01-03": "missing",
        "2026-01-04": "not read: 1 file to read",
    }
    assert result.complete == ("2026-01-01",)
    assert result.summary() == (
        "1 of 4 days complete, missing: 2026-01-03, incomplete: 2026-01-02 (no _SUCCESS), not read: 2026-01-04 (1 file to read), "
        "2 files of no day"
    )
    assert result.to_json()["intervals"][2] == {"interval": "2026-01-03", "state": "missing", "files": 0, "why": None}


def test_a_day_with_a_late_a_changed_or_a_quarantined_file_is_not_complete(project: SampleProject) -> None:
    for day in (1, 2, 3):
        land(project, f"dt=2026-01-0{day}/a.csv", f"dt=2026-01-0{day}/_SUCCESS")
    read_all(project)
    assert completeness(project, MARKED).complete == ("2026-01-01", "2026-01-02", "2026-01-03")

    land(project, "dt=2026-01-01/late.csv")
    land(project, "dt=2026-01-02/a.csv", at=datetime(2026, 1, 5, tzinfo=UTC))
    refused = f"{project.landing}/dt=2026-01-03/a.csv@1"
    append(
        FlowPlace(project.layout, "trips", "bronze").quarantine,
        [{**quarantined(refused, ["unreadable"], {"size": 2, "sha256": ""}, ""), "level": "file"}],
    )

    assert states(completeness(project, MARKED)) == {
        "2026-01-01": "not read: 1 file to read",
        "2026-01-02": "not read: 1 file changed after being read",
        "2026-01-03": "not read: 1 file in quarantine",
    }


def test_a_day_is_complete_when_its_corrected_file_was_replayed_and_not_when_it_changes_again(
    project: SampleProject,
) -> None:
    land(project, "dt=2026-01-01/a.csv", "dt=2026-01-01/_SUCCESS")
    read_all(project)
    entry = quarantined(
        f"{project.landing}/dt=2026-01-01/a.csv@1", ["unreadable"], {"size": 2, "sha256": ""}, "", state="replayed"
    )
    append(
        FlowPlace(project.layout, "trips", "bronze").quarantine,
        [{**entry, "level": "file", "changed_at": datetime(2026, 1, 5, 10, tzinfo=UTC)}],
    )
    corrected = datetime(2026, 1, 5, 9, tzinfo=UTC)
    path = f"file://{project.landing}/dt=2026-01-01/a.csv"
    append(project.layout.table("bronze.trips"), [{"_path": path, "_modified_at": corrected}])

    land(project, "dt=2026-01-01/a.csv", at=corrected)
    assert completeness(project, MARKED).complete == ("2026-01-01",)

    # Also if the clock that wrote the file is behind the one that recorded the replay.
    for hour in (8, 11):
        land(project, "dt=2026-01-01/a.csv", at=datetime(2026, 1, 5, hour, tzinfo=UTC))
        assert states(completeness(project, MARKED)) == {"2026-01-01": "not read: 1 file changed after being read"}


PIECE = {"number": 0, "window": {}, "planned_at_ms": 0, "requested_by": "ada"}


def test_a_day_is_complete_again_when_a_reingest_has_read_its_changed_file(project: SampleProject) -> None:
    land(project, "dt=2026-01-01/a.csv", "dt=2026-01-01/_SUCCESS")
    read_all(project)
    later = datetime(2026, 1, 5, tzinfo=UTC)
    land(project, "dt=2026-01-01/a.csv", at=later)
    piece = PIECE | {"files": {f"{project.landing}/dt=2026-01-01/a.csv": int(later.timestamp() * 1000)}, "done": True}

    assert completeness(project, MARKED).complete == ()
    json_codec.write(WINDOWS.folder(FlowPlace(project.layout, "trips", "bronze")) / "0.json", piece)
    assert completeness(project, MARKED).complete == ("2026-01-01",)


def test_gaps_are_the_days_that_are_not_complete_with_the_files_that_bronze_lacks(project: SampleProject) -> None:
    land(project, *(f"dt=2026-01-0{day}/a.csv" for day in (1, 2, 4)), "dt=2026-01-01/_SUCCESS")
    read_all(project)
    land(project, "dt=2026-01-02/a.csv", at=datetime(2026, 1, 5, tzinfo=UTC))
    land(project, "dt=2026-01-04/b.csv", "dt=2026-01-04/_SUCCESS", "dt=2026-01-05/refused.csv")
    refused = f"{project.landing}/dt=2026-01-05/refused.csv@1"
    append(
        FlowPlace(project.layout, "trips", "bronze").quarantine,
        [{**quarantined(refused, ["unreadable"], {"size": 2, "sha256": ""}, ""), "level": "file"}],
    )

    result = completeness(project, MARKED)

    def gaps(window: Window | None) -> dict[str, list[str]]:
        return {
            gap.name: [file.path.removeprefix(f"{project.landing}/") for file in gap.to_read]
            for gap in result.gaps(window)
        }

    assert gaps(None) == {
        "2026-01-02": ["dt=2026-01-02/a.csv"],
        "2026-01-03": [],
        "2026-01-04": ["dt=2026-01-04/b.csv"],
        "2026-01-05": [],
    }
    assert list(gaps(Window.of_dates("2026-01-01", "2026-01-03", "UTC"))) == ["2026-01-02", "2026-01-03"]


def test_an_empty_day_with_its_marker_is_complete(project: SampleProject) -> None:
    land(project, "dt=2026-01-01/a.csv", "dt=2026-01-03/a.csv", *(f"dt=2026-01-0{day}/_SUCCESS" for day in (1, 2, 3)))
    read_all(project)

    assert states(completeness(project, MARKED))["2026-01-02"] == "complete"


def test_a_manifest_names_the_files_of_a_day(project: SampleProject) -> None:
    for day, names in (("01", "a.csv\nb.csv\n"), ("02", "a.csv\n\nc.csv"), ("04", "\ufeffa.csv\r\n")):
        land(project, f"2026/01/{day}/a.csv", f"2026/01/{day}/b.csv")
        (project.landing / f"2026/01/{day}/_manifest").put(names.encode())
    land(project, "2026/01/05/a.csv")
    (project.landing / "2026/01/03").make_folder()
    (project.landing / "2026/01/03/_manifest").put(b"a.csv")
    read_all(project)

    result = completeness(project, Intervals("%Y/%m/%d", manifest="%Y/%m/%d/_manifest"))

    assert states(result) == {
        "2026-01-01": "complete",
        "2026-01-02": "incomplete: 1 of 2 files of _manifest missing",
        "2026-01-03": "incomplete: 1 of 1 file of _manifest missing",
        "2026-01-04": "complete",
        "2026-01-05": "incomplete: no _manifest",
    }


def test_an_hour_is_complete_with_its_number_of_files(project: SampleProject) -> None:
    land(project, "2026010123_a.csv", "2026010123_b.csv", "2026010200_a.csv")
    read_all(project)

    result = completeness(project, Intervals("%Y%m%d%H", files=2))

    assert states(result) == {"2026-01-01T23": "complete", "2026-01-02T00": "incomplete: 1 of 2 files"}
    assert result.unit == "hour"


@pytest.mark.parametrize(
    ("zone", "hour", "state"),
    [
        ("UTC", 1, "incomplete: quiet from 2026-01-02 02:00 UTC on"),
        ("UTC", 2, "complete"),
        ("America/New_York", 6, "incomplete: quiet from 2026-01-02 07:00 UTC on"),
        ("America/New_York", 7, "complete"),
    ],
)
def test_a_day_is_complete_when_nothing_has_arrived_for_some_hours_after_its_end(
    project: SampleProject, zone: str, hour: int, state: str
) -> None:
    land(project, "dt=2026-01-01/a.csv", at=datetime(2026, 1, 1, 20, tzinfo=UTC))
    read_all(project)
    now = datetime(2026, 1, 2, hour, tzinfo=UTC)

    assert states(completeness(project, Intervals(DAYS, quiet_hours=2), now, zone)) == {"2026-01-01": state}


def test_a_late_file_begins_the_quiet_hours_again(project: SampleProject) -> None:
    land(project, "dt=2026-01-01/a.csv", at=datetime(2026, 1, 4, 11, tzinfo=UTC))
    read_all(project)

    assert states(completeness(project, Intervals(DAYS, quiet_hours=2))) == {
        "2026-01-01": "incomplete: quiet from 2026-01-04 13:00 UTC on"
    }


def test_a_plan_says_which_days_are_complete(project: SampleProject) -> None:
    land(project, "dt=2026-01-01/a.csv", "dt=2026-01-01/_SUCCESS")
    flow = bronze(MARKED)
    pipeline = Pipeline(name="trips", flows=(flow,))

    (reason,) = project.plan(pipeline=pipeline).reasons

    assert reason == "bronze: 1 new file in trips; 0 of 1 day complete, not read: 2026-01-01 (1 file to read)"
    measured = project.measure(flow, pipeline)
    assert measured.completeness is not None
    assert "completeness" not in to_json(measured), "run reports would grow with each day"


def test_one_file_of_a_wrong_year_does_not_add_millions_of_missing_days(
    project: SampleProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "_MOST", 30)
    land(project, "dt=0206-01-01/a.csv", "dt=2026-01-01/a.csv")

    assert len(completeness(project, MARKED).intervals) == 31


def test_a_file_of_the_end_of_time_hides_no_day(project: SampleProject) -> None:
    land(project, "dt=2026-01-01/a.csv", "dt=2026-01-03/a.csv", "dt=9998-12-31/a.csv", "dt=9999-12-31/a.csv")
    read_all(project)

    result = completeness(project, Intervals(DAYS, files=1))

    assert [each.name for each in result.intervals] == ["2026-01-01", "2026-01-02", "2026-01-03", "9998-12-31"]
    assert result.other_files == 1


@pytest.mark.parametrize(
    ("zone", "path", "first", "last", "names"),
    [
        (
            "America/Sao_Paulo",  # No midnight on 2018-11-04.
            DAYS,
            "dt=2018-11-03",
            "dt=2018-11-06",
            ["2018-11-03", "2018-11-04", "2018-11-05", "2018-11-06"],
        ),
        (
            "Europe/Berlin",  # Two hours from 2 to 3.
            "%Y%m%d%H",
            "2025102601",
            "2025102603",
            ["2025-10-26T01", "2025-10-26T02", "2025-10-26T03"],
        ),
        ("Europe/Berlin", "%Y%m%d%H", "2025033001", "2025033003", ["2025-03-30T01", "2025-03-30T03"]),
    ],
)
def test_intervals_are_those_of_paths_when_clocks_change(
    project: SampleProject, zone: str, path: str, first: str, last: str, names: list[str]
) -> None:
    land(project, f"{first}/a.csv", f"{last}/a.csv")
    read_all(project)

    result = completeness(project, Intervals(path, files=1), zone=zone)

    assert [each.name for each in result.intervals] == names
    assert result.complete == (names[0], names[-1])


def test_a_marker_that_lands_during_the_listing_completes_nothing_yet(
    project: SampleProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(project, "dt=2026-01-01/a.csv", "dt=2026-01-03/a.csv")
    read_all(project)
    list_files = files.list_files

    def list_and_land(folder: Address, glob: str) -> files.Listing:
        listed = list_files(folder, glob)
        land(
            project, "dt=2026-01-01/last.csv", "dt=2026-01-01/_SUCCESS", "dt=2026-01-02/a.csv", "dt=2026-01-02/_SUCCESS"
        )
        return listed

    monkeypatch.setattr(files, "list_files", list_and_land)

    assert completeness(project, MARKED).complete == ()


@pytest.mark.parametrize("source", [BRONZE.source, KafkaSource(topic="trips", schema="a INT")])
@pytest.mark.parametrize("refused", [True, False])
def test_a_schedule_waits_only_for_intervals_that_are_declared(source: Any, refused: bool) -> None:
    declared = MARKED if isinstance(source, FileSource) else TopicIntervals(quiet_hours=6)
    own = replace(source, intervals=None if refused else declared)
    trips = Pipeline(name="trips", flows=(replace(BRONZE, source=own),))
    waiting = Pipeline(
        name="report",
        flows=(replace(SILVER, gate=None, transform=None),),
        schedule=AfterTables("bronze.trips", intervals=True),
    )
    try:
        resolve(waiting, Path(), declared={"trips": trips})
    except SpecError as error:
        assert refused and "its schedule waits for intervals of 'bronze.trips'" in error.message
    else:
        assert not refused
