"""Groups that no column of the source names: sessions, all of a user computed again together, and time windows.

Here clicks of users; DuckDB computes the expected groups.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crashes import Crash, crash
from tests.resolved import resolved_flow
from tests.slices import of_week
from tests.spark import job as jobs
from tests.spark.job import GOLD, changes, plan_batch, table, write_table
from tidegate.errors import LedgerImbalanceError, SpecError
from tidegate.kinds.groups.run import KIND
from tidegate.lake.place import PipelinePlace
from tidegate.spark.batch import micro_batch, time_windows
from tidegate.spark.batch.groups import split_groups
from tidegate.spark.batch.split import Decision
from tidegate.spec import ChangeFeed, Pipeline, Table, TimeWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

CLICKS = "id int, user string, at timestamp"
SESSIONS = dataclasses.replace(GOLD, target=Table("gold.orders", keys=("user", "started_at"), replace_by=("user",)))
SLIDING = TimeWindows(time="at", length="1 hour", every="15 minutes")
PER_WINDOW = dataclasses.replace(GOLD, target=Table("gold.orders", keys=("user", "window_start"), windows=SLIDING))
EXPECTED_SESSIONS = """
WITH breaks AS (
    SELECT *, coalesce(moment - lag(moment) OVER of_user > INTERVAL 30 MINUTE, true) AS first FROM clicks
    WINDOW of_user AS (PARTITION BY "user" ORDER BY moment, id)
), numbered AS (
    SELECT *, count_if(first) OVER (PARTITION BY "user" ORDER BY moment, id) AS session FROM breaks
)
SELECT "user", min(moment), max(moment), count(*) FROM numbered GROUP BY "user", session
"""
EXPECTED_WINDOWS = """
SELECT "user", start, count(*) FROM clicks JOIN (
    SELECT unnest(generate_series(TIMESTAMPTZ '2026-03-01 20:00Z', TIMESTAMPTZ '2026-03-03 00:00Z', INTERVAL 15 MINUTE)) AS start
) ON moment >= start AND moment < start + INTERVAL 1 HOUR GROUP BY ALL
UNION ALL SELECT "user", NULL, count(*) FROM clicks WHERE moment IS NULL GROUP BY ALL
"""
Click = tuple[str | None, datetime | None]
Clicks = Mapping[int, Click]
NEW = Decision(quarantined=False, written=False)


def at(minutes: float) -> datetime:
    """A time of the day, in minutes after midnight."""
    return datetime(2026, 3, 2, tzinfo=UTC) + timedelta(minutes=minutes)


def sessions(rows: DataFrame) -> DataFrame:
    """One row per session: clicks of a user with at most half an hour between them."""
    from pyspark.sql import functions as F

    made = rows.groupBy("user", F.session_window("at", "30 minutes")).agg(
        F.min("at").alias("started_at"), F.max("at").alias("ended_at"), F.count("*").alias("clicks")
    )
    return made.drop("session_window")


def per_window(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy("user", "window_start").agg(F.count("*").alias("clicks"))


def expected(query: str, clicks: Clicks) -> list[tuple[Any, ...]]:
    """The groups that DuckDB makes."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute('CREATE TABLE clicks (id INT, "user" TEXT, moment TIMESTAMPTZ)')
        connection.executemany("INSERT INTO clicks VALUES (?, ?, ?)", [(n, *click) for n, click in clicks.items()])
        return plain(connection.execute(query).fetchall())


def plain(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sorted rows with times as text in UTC."""
    as_text = [
        tuple(cell.astimezone(UTC).isoformat() if isinstance(cell, datetime) else cell for cell in row) for row in rows
    ]
    return sorted(as_text, key=repr)


def stored(job: Job) -> list[tuple[Any, ...]]:
    return plain([tuple(row.values()) for row in table(job.target)])


def feed(before: Clicks, after: Clicks, version: int) -> list[tuple[Any, ...]]:
    """The changes of a version, with pre-images."""
    rows: list[tuple[Any, ...]] = []
    for number in sorted({*before, *after}):
        old, new = before.get(number), after.get(number)
        if old == new:
            continue
        if old is not None:
            rows.append((number, *old, "update_preimage" if new is not None else "delete", version))
        if new is not None:
            rows.append((number, *new, "update_postimage" if old is not None else "insert", version))
    return rows


Make = Callable[..., "Job"]


@pytest.fixture
def gold(spark: SparkSession, tmp_path: Path) -> Make:
    def make(transform: Callable[[DataFrame], DataFrame] = sessions) -> Job:
        flow = PER_WINDOW if transform is per_window else SESSIONS
        return jobs.job_of(spark, tmp_path, flow, transform=transform)

    return make


def run(job: Job, states: Sequence[Clicks], crash_at: Sequence[str] = ()) -> list[list[int]]:
    """Bring the source into one state after the other, each in one batch; the counts of the ledger lines."""

    before: Clicks = {}
    for number, state in enumerate(states):
        plan_batch(job, number)
        assert job.source_table is not None
        write_table(job.source_table, CLICKS, *((click, *state[click]) for click in state))
        batch = changes(job.spark, CLICKS, *feed(before, state, number))
        if number < len(crash_at):
            with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
                patch.setattr(micro_batch, crash_at[number], crash)
                micro_batch.process(job, batch, number)
        micro_batch.process(job, batch, number)
        before = state
    ledger = sorted(table(PipelinePlace(job.place.layout, "orders").ops("ledger")), key=lambda line: line["batch_id"])
    assert [line["batch_id"] for line in ledger] == list(range(len(states)))
    return [[line[name] for name in ("read", "groups", "upserted", "deleted", "unchanged")] for line in ledger]


def test_a_late_click_joins_two_sessions_and_a_deleted_one_takes_them_apart(gold: Make) -> None:
    apart: Clicks = {
        **{1: ("ada", at(0)), 2: ("ada", at(50)), 5: ("ada", at(81))},
        **{3: ("bob", at(0)), 4: (None, at(1))},
    }
    joined = {**apart, 6: ("ada", at(25))}
    moved = {**apart, 4: ("bob", at(1))}
    job = gold()

    lines = run(job, [apart, joined, moved])

    assert lines == [[5, 5, 5, 0, 0], [1, 3, 1, 1, 1], [2, 5, 3, 1, 1]]
    assert stored(job) == expected(EXPECTED_SESSIONS, moved), "a pre-image names the user that a click left"
    assert len(expected(EXPECTED_SESSIONS, joined)) == 4


def test_a_click_is_in_each_window_that_contains_it_and_counts_once(gold: Make) -> None:
    first: Clicks = {1: ("ada", at(0)), 2: ("ada", at(59)), 3: ("bob", at(600)), 4: ("bob", None)}
    second = {**first, 2: ("ada", at(134))}
    read: list[int] = []

    def recording(rows: DataFrame) -> DataFrame:
        read.append(rows.select("id").distinct().count())
        return per_window(rows)

    job = dataclasses.replace(gold(per_window), transform=recording)

    lines = run(job, [first, second])

    assert stored(job) == expected(EXPECTED_WINDOWS, second)
    assert lines == [[4, 12, 12, 0, 0], [1, 8, 5, 3, 0]]
    assert read == [4, 2], "the row of bob is in no window that has changes"
    own = job.doing(jobs.backfill(7))
    keys = KIND.keys_in_window(own, None, dataclasses.replace(jobs.backfill(7), source_version=1))
    result = KIND.split_keys(own, keys.distinct(), dataclasses.replace(jobs.backfill(7), source_version=1), NEW)
    assert result is not None
    assert (result.prepared.groups, result.prepared.deleted) == (13, 0)


def test_windows_that_do_not_overlap_contain_their_beginning_and_not_their_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    hours = Table("gold.orders", keys=("window_start",), windows=TimeWindows(time="at", length="1 hour"))
    job = jobs.job_of(spark, tmp_path, dataclasses.replace(GOLD, target=hours))
    moments = (at(60), at(119.999), at(120), datetime(1969, 12, 31, 23, 59, tzinfo=UTC), None)
    rows = spark.createDataFrame([(moment,) for moment in moments], "at timestamp")

    made = time_windows.with_windows(job, rows).selectExpr("CAST(window_start AS STRING) AS start", "_window")

    starts = [*["2026-03-02 01:00:00"] * 2, "2026-03-02 02:00:00", "1969-12-31 23:00:00", None]
    assert [tuple(row) for row in made.collect()] == [(start, 0) for start in starts]
    with pytest.raises(SpecError, match="no column 'at', which its time windows need"):
        time_windows.with_windows(job, rows.toDF("other"))
    with pytest.raises(SpecError, match="column 'at' of its source is of type date, and time windows need a TIMESTAMP"):
        time_windows.with_windows(job, rows.selectExpr("CAST(at AS DATE) AS at"))
    again = Table("gold.orders", keys=("window_start",), windows=TimeWindows(time="window_start", length="1 day"))
    days = jobs.job_of(spark, tmp_path, dataclasses.replace(GOLD, target=again))
    hours_of_days = time_windows.with_windows(days, time_windows.with_windows(job, rows).drop("at", "_window"))
    midnights = ["2026-03-02 00:00:00"] * 3 + ["1969-12-31 00:00:00"]
    assert [row[0] for row in hours_of_days.selectExpr("CAST(window_start AS STRING)").collect()] == [*midnights, None]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("seed", "transform", "query"),
    [
        *((seed, sessions, EXPECTED_SESSIONS) for seed in of_week(range(1, 5), 1)),
        *((seed, per_window, EXPECTED_WINDOWS) for seed in of_week(range(1, 4), 1)),
    ],
)
def test_the_groups_are_those_of_duckdb_however_the_clicks_are_cut(
    seed: int, transform: Callable[[DataFrame], DataFrame], query: str, gold: Make
) -> None:
    generator = random.Random(seed)
    state: dict[int, Click] = {}
    states = []
    for _ in range(3):
        for _ in range(40):
            number = generator.randrange(60)
            if generator.random() < 0.2:
                state.pop(number, None)
            else:
                state[number] = generator.choice(("ada", "bob", "eve", None)), at(generator.randrange(0, 600, 10))
        states.append(dict(state))
    job = gold(transform)

    run(job, states, ("write_target", "record_batch"))

    assert stored(job) == expected(query, state)


def test_rows_of_a_scope_of_groups_may_have_null_in_the_other_keys(gold: Make) -> None:
    """A flow that reads them counts them: only scopes of records keep tombstones."""
    per_user = dataclasses.replace(
        GOLD, name="top", source=ChangeFeed("gold.orders"), target=Table("gold.top", keys=("user",))
    )
    pipeline = Pipeline(name="orders", flows=(jobs.BRONZE, jobs.SILVER, SESSIONS, per_user))
    job = dataclasses.replace(
        gold(), resolved=resolved_flow(per_user, pipeline), transform=lambda rows: rows.groupBy("user").count()
    )
    assert job.source_table is not None
    sessions_of_users = (("ada", None), ("ada", at(0)), ("bob", None))
    write_table(job.source_table, "user string, started_at timestamp", *sessions_of_users)

    fed = changes(job.spark, "user string, started_at timestamp", *sessions_of_users, version=0)
    result = split_groups(job, fed, 0, NEW)

    assert result is not None
    assert (result.prepared.read, result.prepared.groups) == (3, 2)


def test_rows_outside_the_scopes_and_repeated_keys_are_refused(gold: Make) -> None:
    from pyspark.sql import functions as F

    clicks = ((1, "ada", at(0)), (2, "ada", at(200)))
    for transform, error, message in (
        (
            # Out of an array, so that the check of the plan does not see which user it is.
            lambda rows: sessions(rows).withColumn("user", F.element_at(F.array(F.lit("eve")), 1)),
            LedgerImbalanceError,
            "outside the change feed",
        ),
        (lambda rows: sessions(rows).withColumn("started_at", F.lit(at(0))), SpecError, "2 rows for 1 group"),
    ):
        job = gold(transform)
        assert job.source_table is not None
        write_table(job.source_table, CLICKS, *clicks)
        with pytest.raises(error, match=message):
            split_groups(job, changes(job.spark, CLICKS, *clicks, version=0), 0, NEW)
