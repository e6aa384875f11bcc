"""Which snapshot a flow compares next, and what its status says while one is not complete or was refused."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests import places
from tests.cli.project import append, quarantined
from tests.status.sample_project import BRONZE, SampleProject
from tidegate import hidden
from tidegate.checkpoints import refusal, rewrite
from tidegate.checkpoints.landing_folder import MOVED_FILES, ComparedContent, MovedFiles
from tidegate.checkpoints.rewrite import JudgedRewrite
from tidegate.errors.refusals import GateRefusal
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.reports.impact import Impact
from tidegate.sources.snapshots import announcements, beside
from tidegate.sources.snapshots.measure import find, find_all
from tidegate.sources.snapshots.waiting import announce_newest
from tidegate.spec import ChangeFeed, FileSource, Flow, Intervals, Pipeline, RewriteLimits, SnapshotFeed, Table
from tidegate.status import intervals
from tidegate.status.reading import Reading
from tidegate.store import Address

DAYS = "dt=%Y-%m-%d"
SILVER = Flow(name="silver", source=SnapshotFeed("bronze.trips"), target=Table("silver.trips", keys=("id",)))
LANDED = datetime(2026, 1, 9, tzinfo=UTC).timestamp()
LISTED = Intervals(DAYS, manifest=f"{DAYS}/_manifest")


def pipeline(declared: Intervals = LISTED, limits: RewriteLimits | None = None) -> Pipeline:
    assert isinstance(BRONZE.source, FileSource)
    bronze = replace(BRONZE, source=replace(BRONZE.source, intervals=declared))
    return Pipeline(name="trips", flows=(bronze, replace(SILVER, rewrite_limits=limits)))


def land(project: SampleProject, *names: str) -> None:
    for name in names:
        path = project.landing / name
        path.parent.make_folder()
        path.put(("a.csv\nb.csv\n" if path.name == "_manifest" else "a\n1\n").encode())
        os.utime(path, (LANDED, LANDED))


def land_day(project: SampleProject, day: int, *names: str) -> None:
    """A day with these files; its manifest has ``a.csv`` and ``b.csv``."""
    land(project, *(f"dt=2026-01-{day:02}/{name}" for name in names))


def read_all(project: SampleProject) -> None:
    """As a run of bronze does."""
    files = {str(path): path.stat().st_mtime_ns // 1_000_000 for path in Path(project.landing).rglob("*.csv")}
    project.checkpoint("bronze").list_files(0, files)
    project.checkpoint("bronze").run(0, {"logOffset": 0})


def measured(project: SampleProject, declared: Pipeline | None = None) -> Reading:
    chosen = declared or pipeline()
    return project.measure(chosen.flow("silver"), chosen)


def compare(project: SampleProject, batch_id: int, name: str, *, commit: bool = True) -> None:
    """As a run of silver does with the snapshot that its lag names."""
    place = places.current(project.layout, pipeline(), SILVER)
    files = {str(path): int(LANDED * 1000) for path in Path(project.landing / f"dt={name}").glob("[ab].csv")}
    announcements.announce(place, name, files)
    newest = announcements.announced(FlowPlace(project.layout, "trips", "silver"))
    assert newest is not None
    project.checkpoint("silver").plan(batch_id, {"logOffset": batch_id})
    announcements.choose(place, batch_id, newest)
    if commit:
        project.checkpoint("silver").commit(batch_id)


def test_only_a_complete_snapshot_is_compared_and_the_newest_of_several(project: SampleProject) -> None:
    land_day(project, 1, "a.csv", "b.csv", "_manifest")
    land_day(project, 2, "a.csv", "b.csv", "_manifest")
    land_day(project, 3, "a.csv", "_manifest")
    read_all(project)

    lag = measured(project)

    assert (lag.source_kind, lag.has_work, lag.reads) == ("snapshots", True, "snapshot 2026-01-02 of bronze.trips")
    assert lag.remarks == "not complete: 2026-01-03 (1 of 2 files of _manifest missing)"
    assert lag.backlog.size == 8, "its files have so many bytes"


def test_a_snapshot_that_bronze_has_not_read_waits(project: SampleProject) -> None:
    land_day(project, 1, "a.csv", "b.csv", "_manifest")

    assert measured(project).reason == (
        "no newer complete snapshot of bronze.trips; not complete: 2026-01-01 (2 files to read)"
    )


@pytest.mark.parametrize(
    "declared", [Intervals(DAYS, marker=f"{DAYS}/_SUCCESS"), Intervals(DAYS, manifest=f"{DAYS}/_SUCCESS")]
)
def test_a_marker_or_an_empty_manifest_alone_is_a_snapshot_without_rows(
    project: SampleProject, declared: Intervals
) -> None:
    chosen = pipeline(declared)
    land(project, "dt=2026-01-05/_SUCCESS")
    (project.landing / "dt=2026-01-05/_SUCCESS").put(b"")
    assert not measured(project, chosen).has_work, "bronze has no table yet"
    write_deltalake(str(project.layout.table("bronze.trips")), pa.table({"a": [1]}))
    assert measured(project, chosen).reads == "snapshot 2026-01-05 of bronze.trips"
    candidates = find(PipelinePlace(project.layout, "trips"), chosen, chosen.flow("silver"))
    assert candidates.newest is not None
    assert (candidates.newest.name, dict(candidates.files)) == ("2026-01-05", {})

    land(project, "dt=2026-01-05/a.txt")
    assert not measured(project, chosen).has_work, "a file that the glob leaves out is there"
    (project.landing / "dt=2026-01-05/a.txt").delete()
    assert measured(project, chosen).has_work


def test_a_snapshot_whose_files_are_gone_is_not_empty(project: SampleProject) -> None:
    """The landing zone was cleaned after bronze had read it."""
    chosen = pipeline(Intervals(DAYS, marker=f"{DAYS}/_SUCCESS"))
    land(project, "dt=2026-01-05/a.csv", "dt=2026-01-05/_SUCCESS")
    read_all(project)
    write_deltalake(str(project.layout.table("bronze.trips")), pa.table({"a": [1]}))
    compare(project, 0, "2026-01-05")
    assert not measured(project, chosen).has_work

    (project.landing / "dt=2026-01-05/a.csv").delete()

    assert not measured(project, chosen).has_work


def test_a_snapshot_before_the_compared_one_is_never_compared(project: SampleProject) -> None:
    land_day(project, 5, "a.csv", "b.csv", "_manifest")
    compare(project, 0, "2026-01-05")
    land_day(project, 4, "a.csv", "b.csv", "_manifest")
    read_all(project)

    lag = measured(project)

    assert (lag.has_work, lag.backlog.position) == (False, "snapshot 2026-01-05 of bronze.trips")
    assert lag.reason == "no newer complete snapshot of bronze.trips"
    (project.landing / "dt=2026-01-05/_manifest").delete()
    assert not measured(project).has_work, "also when the landing zone was cleaned up"


def test_a_snapshot_of_a_wrong_year_hides_no_later_one_even_if_it_was_compared(project: SampleProject) -> None:
    land(project, "dt=2099-01-05/a.csv", "dt=2099-01-05/b.csv", "dt=2099-01-05/_manifest")
    read_all(project)
    ahead = "no newer complete snapshot of bronze.trips; not complete: 2099-01-05 (it is more than 31 days ahead of the clock)"
    assert measured(project).reason == ahead
    compare(project, 0, "2099-01-05")
    assert measured(project).reason == ahead

    land_day(project, 6, "a.csv", "b.csv", "_manifest")
    read_all(project)

    assert measured(project).reads == "snapshot 2026-01-06 of bronze.trips"


def test_a_snapshot_that_lands_again_with_other_files_is_compared_again(project: SampleProject) -> None:
    land_day(project, 5, "a.csv", "b.csv", "_manifest")
    compare(project, 0, "2026-01-05")
    land_day(project, 5, "c.csv")
    read_all(project)
    assert not measured(project).has_work, "the manifest does not list it, so that it is no file of the snapshot"

    (project.landing / "dt=2026-01-05/_manifest").put(b"b.csv\nc.csv\n")

    assert measured(project).reads == "snapshot 2026-01-05 of bronze.trips"


def test_a_snapshot_of_which_a_file_was_waived_is_not_compared(project: SampleProject) -> None:
    land_day(project, 5, "a.csv", "b.csv", "_manifest")
    read_all(project)
    file = project.landing / "dt=2026-01-05/b.csv"
    append(
        FlowPlace(project.layout, "trips", "bronze").quarantine,
        [quarantined(f"{file}@{int(LANDED * 1000)}", ["too_long"], {"path": str(file)}, "", "waived", level="file")],
    )

    lag = measured(project)

    assert not lag.has_work
    assert lag.remarks == "not complete: 2026-01-05 (a file of it was refused, or its files are gone)"


def test_an_announced_snapshot_is_work_until_a_batch_compares_it(project: SampleProject) -> None:
    land_day(project, 5, "a.csv", "b.csv", "_manifest")
    read_all(project)
    place = places.current(project.layout, pipeline(), SILVER)
    files = {str(project.landing / f"dt=2026-01-05/{name}"): int(LANDED * 1000) for name in ("a.csv", "b.csv")}
    announcements.announce(place, "2026-01-05", files)

    assert measured(project).has_work

    compare(project, 0, "2026-01-05")
    assert not measured(project).has_work


def test_a_refused_snapshot_waits_until_its_limits_are_raised_or_a_newer_one_is_complete(
    project: SampleProject,
) -> None:
    land_day(project, 5, "a.csv", "b.csv", "_manifest")
    compare(project, 0, "2026-01-05")
    land_day(project, 6, "a.csv", "b.csv", "_manifest")
    compare(project, 1, "2026-01-06", commit=False)
    read_all(project)
    loss = Impact(before=90, after=10, deleted=80, changed=0, added=0, read=10, quarantined=0)
    place = places.current(project.layout, pipeline(), SILVER)
    what = "snapshot 2026-01-06 of bronze.trips"
    rewrite.record(
        place,
        JudgedRewrite(what=what, app_id=place.app_id, impact=loss, reasons=(loss.phrase("deleted"),)),
    )

    waiting = measured(project)

    assert (waiting.refused_by, waiting.has_work) == ("limits", False)
    assert waiting.reason.startswith(f"waits: {what} was refused on")
    assert "it would delete 80 of 90 rows (88.9%); accept the numbers, or land a newer snapshot" in waiting.reason
    assert waiting.backlog.position == "snapshot 2026-01-05 of bronze.trips", "the table has the snapshot before it"
    assert measured(project, pipeline(limits=RewriteLimits(deleted_share=0.95))).has_work

    land_day(project, 7, "a.csv", "b.csv", "_manifest")
    read_all(project)

    newer = measured(project)
    assert (newer.refused_by, newer.has_work, newer.reads) == (None, True, "snapshot 2026-01-07 of bronze.trips")


def test_a_crash_after_a_newer_snapshot_took_the_place_of_a_refused_one_leaves_work(project: SampleProject) -> None:
    land_day(project, 5, "a.csv", "b.csv", "_manifest")
    compare(project, 0, "2026-01-05")
    land_day(project, 6, "a.csv", "b.csv", "_manifest")
    compare(project, 1, "2026-01-06", commit=False)
    loss = Impact(before=90, after=10, deleted=80, changed=0, added=0, read=10, quarantined=0)
    place = places.current(project.layout, pipeline(), SILVER)
    judged = JudgedRewrite(
        what="snapshot 2026-01-06", app_id=place.app_id, impact=loss, reasons=(loss.phrase("deleted"),)
    )
    rewrite.record(place, judged)
    refusal.record(place, GateRefusal(batch_id=1, suite_fingerprint="s"))
    refused = announcements.compared(place)
    assert refused is not None
    announcements.choose(place, 1, refused.snapshot)
    assert rewrite.recorded(FlowPlace(project.layout, "trips", "silver")) == judged, (
        "the same snapshot is still refused"
    )

    land_day(project, 7, "a.csv", "b.csv", "_manifest")
    read_all(project)
    compare(project, 1, "2026-01-07", commit=False)

    crashed = measured(project)
    assert (crashed.refused_by, crashed.has_work, crashed.progress.pending_batch) == (None, True, 1)
    assert rewrite.recorded(FlowPlace(project.layout, "trips", "silver")) is None, (
        "nor is a number accepted for the newer one"
    )
    assert refusal.REFUSAL.read(place) is None


def test_a_manifest_that_is_replaced_while_it_is_read_makes_no_smaller_snapshot(
    project: SampleProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    land_day(project, 5, "a.csv", "b.csv", "_manifest")
    read_all(project)
    read_names = intervals._names

    def replaced_afterwards(manifest: Address) -> set[str]:
        names = read_names(manifest)
        manifest.put(b"a.csv\nc.csv\n")
        return names

    with monkeypatch.context() as patched:
        patched.setattr(intervals, "_names", replaced_afterwards)
        assert not measured(project).has_work
    assert measured(project).remarks == "not complete: 2026-01-05 (1 of 2 files of _manifest missing)"


@pytest.mark.parametrize("declared", [Intervals(DAYS, marker=f"{DAYS}/_SUCCESS"), Intervals(DAYS, files=2)])
def test_a_marker_and_a_number_of_files_complete_a_snapshot_too(project: SampleProject, declared: Intervals) -> None:
    land_day(project, 5, "a.csv")
    read_all(project)
    assert not measured(project, pipeline(declared)).has_work

    land_day(project, 5, "b.csv", "_SUCCESS")
    read_all(project)

    assert measured(project, pipeline(declared)).reads == "snapshot 2026-01-05 of bronze.trips"


def test_a_touched_file_makes_no_new_snapshot_and_one_that_is_not_compared_yet_waits(project: SampleProject) -> None:
    land_day(project, 1, "a.csv", "b.csv", "_manifest")
    read_all(project)
    landed = {day: project.landing / f"dt=2026-01-{day:02}/a.csv" for day in (1, 2)}
    later, bronze = LANDED + 60, project.layout.table("bronze.trips")
    write_bronze(bronze, *Path(project.landing).rglob("*.csv"))
    compare(project, 0, "2026-01-01")
    os.utime(landed[1], (later, later))
    assert not measured(project).has_work, "no file is opened: it is taken as read"
    backlog = project.measure(pipeline().flow("bronze"), pipeline()).backlog
    assert (backlog.touched, backlog.has_data) == (1, True), "a run of bronze compares it, although nothing is new"

    land_day(project, 2, "a.csv", "b.csv", "_manifest")
    files = [*Path(project.landing / "dt=2026-01-02").glob("*.csv")]
    project.checkpoint("bronze").list_files(1, {str(path): int(LANDED * 1000) for path in files})
    project.checkpoint("bronze").run(1, {"logOffset": 1})
    write_bronze(bronze, *files)
    os.utime(landed[2], (later, later))
    waiting = measured(project)
    assert not waiting.has_work, "its rows could not be found by the time that the file has now"
    why = "2026-01-02 (1 file has another time and the same size: the next run compares them)"
    assert waiting.remarks == f"not complete: {why}"

    times = [int(LANDED * 1000), int(later * 1000)]
    same = ComparedContent(checksum=hashlib.sha256(b"a\n1\n").hexdigest(), times=times)
    note = MovedFiles(contents={f"dt=2026-01-{day:02}/a.csv": [same] for day in (1, 2)})
    MOVED_FILES.write(FlowPlace(project.layout, "trips", "bronze"), note)
    assert measured(project).reads == "snapshot 2026-01-02 of bronze.trips"
    compare(project, 1, "2026-01-02")
    assert not measured(project).has_work


def write_bronze(table: Address, *paths: Path) -> None:
    """The records of these files, as a run of bronze writes them."""
    rows = [
        {
            hidden.PATH: f"file://{path}",
            hidden.MODIFIED_AT: datetime.fromtimestamp(path.stat().st_mtime, UTC),
            hidden.SIZE: path.stat().st_size,
            hidden.INGESTED_AT: datetime.fromtimestamp(LANDED, UTC),
            hidden.CHECKSUM: hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in paths
    ]
    write_deltalake(str(table), pa.Table.from_pylist(rows), mode="append")


KEPT = replace(SILVER, target=Table("silver.trips", keys=("id",), sequence_by=("snapshot_at",), history="scd2"))


def test_a_history_compares_every_complete_snapshot_also_one_that_is_late(project: SampleProject) -> None:
    of_days = pipeline()
    kept = replace(of_days, flows=(of_days.flow("bronze"), KEPT))
    for day in (1, 3):
        land_day(project, day, "a.csv", "b.csv", "_manifest")
    land_day(project, 4, "a.csv", "_manifest")
    read_all(project)

    lag = measured(project, kept)
    assert (lag.has_work, lag.reads) == (True, "snapshots 2026-01-01, 2026-01-03 of bronze.trips")
    assert lag.remarks == "not complete: 2026-01-04 (1 of 2 files of _manifest missing)"
    assert (lag.backlog.behind, lag.backlog.size) == (2, 16)

    place = places.current(project.layout, kept, KEPT)
    ready, _ = find_all(place.of_pipeline, kept, KEPT)
    for batch_id, interval in enumerate(ready):
        announcements.announce(place, interval.name, {file.path: file.modified_ms for file in interval.landed})
        assert measured(project, kept).has_work, "announced and not compared"
        snapshot = announcements.SNAPSHOTS.read(place, batch_id)
        assert snapshot is not None
        project.checkpoint("silver").plan(batch_id, {"logOffset": batch_id})
        announcements.choose(place, batch_id, snapshot, keeps=True)
        project.checkpoint("silver").commit(batch_id)
    assert not measured(project, kept).has_work
    assert measured(project, kept).backlog.position == "snapshot 2026-01-03 of bronze.trips"

    land_day(project, 2, "a.csv", "b.csv", "_manifest")
    read_all(project)
    assert measured(project, kept).reads == "snapshot 2026-01-02 of bronze.trips"
    Path(project.landing / "dt=2026-01-03/b.csv").unlink()
    (project.landing / "dt=2026-01-03/_manifest").put(b"a.csv\n")
    assert measured(project, kept).reads == "snapshot 2026-01-02 of bronze.trips", "a file of it was cleaned up"
    land(project, "dt=2026-01-03/c.csv")
    (project.landing / "dt=2026-01-03/_manifest").put(b"a.csv\nc.csv\n")
    read_all(project)
    assert measured(project, kept).backlog.behind == 2, "it has a file that it had not"


def test_a_snapshot_beside_changes_waits_for_the_first_of_them_and_is_compared_once(project: SampleProject) -> None:
    of_days = pipeline()
    assert isinstance(BRONZE.source, FileSource)
    changes = replace(BRONZE, name="changes", source=replace(BRONZE.source, path="c"), target=Table("bronze.changes"))
    beside_changes = Flow(
        name="silver",
        source=ChangeFeed("bronze.changes"),
        snapshots=SnapshotFeed("bronze.trips"),
        target=Table("silver.trips", keys=("id",), sequence_by=("at",)),
    )
    both = replace(of_days, flows=(of_days.flow("bronze"), changes, beside_changes))
    assert [flow.name for flow in both.upstream_of(beside_changes)] == ["changes", "bronze"]
    place = places.current(project.layout, both, beside_changes)
    land_day(project, 1, "a.csv", "b.csv", "_manifest")
    assert measured(project, both).reason == "waits: bronze.changes does not exist yet", "bronze has nothing of it"
    read_all(project)
    write_deltalake(str(project.layout.table("bronze.trips")), pa.table({"a": [1]}))
    lag = measured(project, both)
    assert (lag.has_work, lag.remarks) == (False, "snapshot 2026-01-01 of bronze.trips waits for the first change")

    write_deltalake(str(project.layout.table("silver.trips")), pa.table({"id": [1]}))
    assert measured(project, both).reads == "snapshot 2026-01-01 of bronze.trips"
    snapshot = announce_newest(place, both, beside_changes)
    assert snapshot is not None and snapshot.number == 0
    assert measured(project, both).has_work, "announced and not compared"
    impact = Impact(before=20, after=0, deleted=20, changed=0, added=0, read=0, quarantined=0)
    refused = JudgedRewrite(
        what="snapshot 2026-01-01 of bronze.trips", app_id=place.snapshots_app_id, impact=impact, reasons=("delete 20",)
    )
    rewrite.record(place, refused)
    assert not measured(project, both).has_work, "it waits for a person or another one"
    rewrite.clear(place)
    beside.BESIDE.write(place, beside.Beside(compared=0))
    assert not measured(project, both).has_work

    land_day(project, 2, "a.csv", "b.csv", "_manifest")
    land_day(project, 3, "a.csv", "_manifest")
    read_all(project)
    lag = measured(project, both)
    assert lag.reads == "snapshot 2026-01-02 of bronze.trips"
    assert lag.remarks == "not complete: 2026-01-03 (1 of 2 files of _manifest missing)"
