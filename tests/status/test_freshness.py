"""The newest event time of a real Delta table, from the log's statistics where possible; no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from tidegate.status.freshness import SKEW, newest, spans
from tidegate.store import Address

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = pyarrow.timestamp("us", "UTC")


def add(path: Address, values: Sequence[Any], kind: Any = MOMENT, **options: Any) -> None:
    """Append a file with these values."""
    write_deltalake(str(path), pyarrow.table({"at": pyarrow.array(values, kind)}), mode="append", **options)


def files(path: Address) -> set[Path]:
    return set(Path(path).glob("**/*.parquet"))


@pytest.mark.parametrize(
    ("kind", "older", "value", "expected"),
    [
        (MOMENT, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, 7, tzinfo=UTC), datetime(2026, 2, 1, 7, tzinfo=UTC)),
        (pyarrow.timestamp("us"), datetime(2026, 1, 1), datetime(2026, 2, 1, 7), datetime(2026, 2, 1, 7, tzinfo=UTC)),  # noqa: DTZ001
        (pyarrow.date32(), date(2026, 1, 1), date(2026, 2, 1), datetime(2026, 2, 1, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_the_newest_value_is_read_from_the_log_and_no_file_is_opened(
    folder: Address, kind: Any, older: Any, value: Any, expected: datetime
) -> None:
    add(folder, [older, value], kind)
    add(folder, [older], kind)
    add(folder, [None], kind)
    for file in files(folder):
        file.unlink()
    assert newest(folder, "at", NOW) == expected


def test_a_value_in_the_future_is_ignored_and_only_its_own_file_is_opened(folder: Address) -> None:
    add(folder, [NOW - timedelta(days=2)])
    unread = files(folder)
    add(folder, [NOW - timedelta(days=1), datetime(2099, 1, 1, tzinfo=UTC)])
    for file in unread:
        file.unlink()
    assert newest(folder, "at", NOW) == NOW - timedelta(days=1)


@pytest.mark.parametrize("kind", [MOMENT, pyarrow.timestamp("us"), pyarrow.date32()])
@pytest.mark.parametrize("year", [2, 1500])
def test_event_times_of_earlier_centuries_are_measured(folder: Address, kind: Any, year: int) -> None:
    of_year = datetime(year, 1, 1, tzinfo=UTC)
    far = datetime(9998, 1, 1, tzinfo=UTC)
    if not pyarrow.types.is_timestamp(kind) or kind.tz is None:
        of_year, far = of_year.replace(tzinfo=None), far.replace(tzinfo=None)
    add(folder, [of_year], kind)
    add(folder, [far], kind)
    assert newest(folder, "at", NOW) == datetime(year, 1, 1, tzinfo=UTC)


def test_a_file_with_only_future_values_is_ignored(folder: Address) -> None:
    add(folder, [NOW - timedelta(days=2)])
    add(folder, [datetime(2099, 1, 1, tzinfo=UTC)])
    assert newest(folder, "at", NOW) == NOW - timedelta(days=2)


def test_a_small_clock_skew_is_tolerated(folder: Address) -> None:
    add(folder, [NOW + SKEW])
    assert newest(folder, "at", NOW) == NOW + SKEW
    assert newest(folder, "at", NOW - timedelta(seconds=1)) is None


def test_a_date_counts_as_soon_as_it_has_begun_in_any_time_zone(folder: Address) -> None:
    add(folder, [date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3)], pyarrow.date32())
    assert newest(folder, "at", NOW) == datetime(2026, 3, 2, tzinfo=UTC)
    assert newest(folder, "at", NOW - timedelta(hours=3)) == datetime(2026, 3, 1, tzinfo=UTC)


def test_without_statistics_rows_are_read(folder: Address) -> None:
    none = {"delta.dataSkippingNumIndexedCols": "0"}
    add(folder, [NOW - timedelta(days=2), NOW - timedelta(days=1), None], configuration=none)
    assert "max.at" not in DeltaTable(str(folder)).get_add_actions(flatten=True).schema.names
    assert newest(folder, "at", NOW) == NOW - timedelta(days=1)


def test_a_partition_column_is_read_from_the_log(folder: Address) -> None:
    rows = pyarrow.table({"at": [date(2026, 1, 1), date(2026, 2, 1), date(2099, 1, 1), None], "n": [1, 2, 3, 4]})
    write_deltalake(str(folder), rows, partition_by=["at"])
    assert newest(folder, "at", NOW) == datetime(2026, 2, 1, tzinfo=UTC)


def test_without_table_values_or_column_there_is_no_newest_value(folder: Address) -> None:
    assert newest(folder / "none", "at", NOW) is None
    add(folder, [None])
    assert newest(folder, "at", NOW) is None
    assert newest(folder, "other", NOW) is None
    add(folder / "text", ["2026-01-01"], pyarrow.string())
    assert newest(folder / "text", "at", NOW) is None


def test_the_times_of_each_file_are_those_of_its_statistics(folder: Address) -> None:

    path, schema = (
        folder / "clicks",
        pyarrow.schema([("_timestamp", pyarrow.timestamp("us", tz="UTC")), ("n", pyarrow.int64())]),
    )
    assert spans(path, "_timestamp") == []
    first, last, unknown = (
        datetime(2026, 1, 5, 7, tzinfo=UTC),
        datetime(2026, 1, 6, tzinfo=UTC),
        datetime(1969, 12, 31, tzinfo=UTC),
    )
    for times in ([first, last], [unknown, last], [unknown], [None]):
        rows = [{"_timestamp": time, "n": 1} for time in times]
        write_deltalake(str(path), pyarrow.Table.from_pylist(rows, schema=schema), mode="append")

    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert sorted(spans(path, "_timestamp")) == [(epoch, last), (first, last)]
    assert spans(path, "n_") == []
