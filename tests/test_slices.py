"""The nightly tests are distributed to slices that `.ci/run` can run, one each half day."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import slices
from tests.slices import COUNT, LIMIT_SECONDS, UNKNOWN_SECONDS, WORKERS, balance, slice_of_half_day

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[1]
NAMES = st.text("abcdef", min_size=1, max_size=3)
SECONDS = st.dictionaries(NAMES, st.floats(0.1, 300), max_size=40)


def where(seconds: dict[str, float], files: set[str], **options: list[list[str]]) -> dict[str, tuple[int, int]]:
    workers = balance(seconds, files, **options)
    return {file: (worker.slice, worker.number) for worker in workers for file in worker.files}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(SECONDS, st.sets(NAMES))
def test_every_file_that_exists_is_in_exactly_one_slice(seconds: dict[str, float], files: set[str]) -> None:
    workers = balance(seconds, files)
    assert sorted(file for worker in workers for file in worker.files) == sorted(files)
    assert {worker.slice for worker in workers} == set(range(1, COUNT + 1))


@given(SECONDS, st.sets(NAMES))
def test_no_worker_has_more_to_do_than_its_share_and_its_longest_file(seconds: dict[str, float], new: set[str]) -> None:
    files = set(seconds) | new
    durations = {file: seconds.get(file, UNKNOWN_SECONDS) for file in files}
    share = sum(durations.values()) / (COUNT * WORKERS)
    for worker in balance(seconds, files):
        assert worker.seconds == pytest.approx(sum(durations[file] for file in worker.files))
        assert worker.seconds <= share + max(durations.values(), default=0) + 1e-6


@given(SECONDS, st.sets(NAMES), st.sets(NAMES))
def test_a_new_or_deleted_file_moves_no_measured_file(
    seconds: dict[str, float], new: set[str], deleted: set[str]
) -> None:
    before, after = where(seconds, set(seconds)), where(seconds, (set(seconds) | new) - deleted)
    assert {file: after[file] for file in set(seconds) - deleted} == {
        file: before[file] for file in set(seconds) - deleted
    }


@given(SECONDS)
def test_files_that_share_a_resource_are_in_one_worker(seconds: dict[str, float]) -> None:
    files = {*seconds, "one", "two", "three"}
    shared = where(seconds | {"one": 5.0}, files, together=[["one", "two", "three"]])
    assert shared["one"] == shared["two"] == shared["three"]


def test_the_half_days_of_a_week_have_all_slices_and_so_have_the_afternoons_of_two_weeks() -> None:
    first, all_slices = 2_810 * 604_800, set(range(1, COUNT + 1))
    assert {slice_of_half_day(first + half_day * 43_200) for half_day in range(14)} == all_slices
    assert {slice_of_half_day(first + day * 86_400) for day in range(14)} == all_slices
    for start in range(28):
        assert {slice_of_half_day(first + (start + half_day) * 43_200) for half_day in range(15)} == all_slices
    assert slice_of_half_day(0) == slice_of_half_day(43_199) == 1


@given(st.lists(st.integers(), min_size=1, max_size=12, unique=True), st.integers(1, 14), st.integers(0, 3000))
def test_the_shares_of_the_following_weeks_have_every_case(cases: list[int], count: int, week: int) -> None:
    weeks = range(week, week + -(-len(cases) // count))
    shares = []
    for each in weeks:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slices, "_time_of_commit", lambda week=each: week * 7 * 86_400)
            shares.append(slices.of_week(cases, count))
    assert {len(share) for share in shares} == {min(count, len(cases))}
    assert all(len(set(share)) == len(share) for share in shares)
    assert set().union(*shares) == set(cases)


def test_no_slice_of_the_present_tests_takes_longer_than_ten_minutes() -> None:
    longest = max(slices.workers(), key=lambda worker: worker.seconds)
    assert longest.seconds <= LIMIT_SECONDS, f"slice {longest.slice} is too long: {longest.files}"


def test_every_file_with_nightly_tests_is_found_and_some_are_measured() -> None:
    files = slices.nightly_files()
    assert {"tests/hunt/test_hunt.py", "tests/live/test_outages.py", "tests/spark/test_flow.py"} <= set(files)
    assert all((PROJECT / file).exists() for file in files)
    assert set(slices.recorded_seconds()) & set(files), "run `make nightly-seconds`"


def test_the_report_of_a_run_replaces_the_seconds_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("import time\n\ndef test_a(): time.sleep(0.3)\n\ndef test_b(): pass\n")
    report, into = tmp_path / "report.xml", tmp_path / "seconds.json"
    pytest_command = [
        str(PROJECT / ".venv/bin/pytest"),
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        "test_one.py",
    ]
    subprocess.run(pytest_command, cwd=tmp_path, check=True, capture_output=True)
    measured = slices.measured(report)
    assert list(measured) == ["test_one.py"]
    assert measured["test_one.py"] >= 0.3

    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.hunt.test_hunt" name="a" time="1.5"/>'
        '<testcase classname="tests.hunt.test_hunt" name="b" time="2"/></testsuite></testsuites>'
    )
    into.write_text(json.dumps({"tests/hunt/test_hunt.py": 9, "tests/spark/test_flow.py": 7, "tests/test_gone.py": 1}))
    slices.record([report], into)
    assert json.loads(into.read_text()) == {"tests/spark/test_flow.py": 7, "tests/hunt/test_hunt.py": 3.5}


def test_the_command_prints_the_files_of_the_slice_of_the_commit(capsys: pytest.CaptureFixture[str]) -> None:
    slices.main(["commit"])
    printed = capsys.readouterr()
    time = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=PROJECT, capture_output=True, text=True, check=True)
    number = slice_of_half_day(int(time.stdout))
    assert printed.err == f"slice {number} of {COUNT}\n"
    slices.main([str(number)])
    assert capsys.readouterr().out == printed.out
    with pytest.raises(SystemExit, match=f"from 1 to {COUNT}"):
        slices.main([str(COUNT + 1)])


def test_ci_runs_the_slice_of_the_commit() -> None:
    assert "make test-nightly SLICE=commit" in (PROJECT / ".ci" / "run").read_text()
