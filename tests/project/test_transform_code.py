"""The file of a transform is checked without importing it: its parameters are the flow's sources, and it reads nothing else."""

from __future__ import annotations

import ast
import gc
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.errors import SpecError
from tidegate.project import transform_code


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of the test are those of ``spark_jobs``."""
    import spark_jobs

    monkeypatch.setattr(spark_jobs, "__path__", [str(tmp_path)])


def check(folder: Path, code: str, *sources: str) -> None:
    path = folder / "trips.py"
    path.write_text(code)
    transform_code.check("trips:join", path, sources)


@pytest.mark.parametrize(
    "body",
    [
        'trips.sparkSession.read.format("delta").load("/lake/tables/silver/weather")',
        'SparkSession.builder.getOrCreate().table("weather")',
        'trips.sparkSession.sql("SELECT * FROM delta.`/lake/tables/silver/weather`")',
        "trips.sparkSession.sql(QUERY)",
        'trips.join(lookup(trips.sparkSession), "hour")',
        'trips.join(WEATHER, "hour")',
        'DeltaTable.forPath(trips.sparkSession, "/lake").toDF()',
        'trips.sparkSession.createDataFrame(pandas.read_parquet("/weather"))',
        "trips.join(latest(trips), 'hour')",
        "trips.join(typed(trips), 'hour')",
        "trips.join(named(trips.sparkSession), 'hour')",
        "trips.join(listed(trips.sparkSession), 'hour')",
        "[mine := trips.sparkSession, mine.table('weather')][1]",
    ],
)
def test_a_transform_that_reads_a_table_in_another_way_is_refused(tmp_path: Path, body: str) -> None:
    code = f"""
spark = SparkSession.active()
WEATHER = spark.read.parquet("/weather")
QUERY = "CREATE TEMPORARY VIEW weather USING delta OPTIONS (path '/weather')"

def lookup(session):
    return session.table("weather")

def latest(trips):
    mine = trips.sparkSession
    return mine.table("weather")

def typed(trips):
    mine: SparkSession = trips.sparkSession
    return mine.table("weather")

def named(s):
    return s.read.format("delta").load("/weather")

def listed(s):
    return s.read.table("weather")

def join(trips):
    return {body}
"""
    with pytest.raises(
        SpecError, match=r"line \d+ reads a table in another way .* add it as sources=.* join in the flow"
    ):
        check(tmp_path, code)


@pytest.mark.parametrize(
    "body",
    [
        'trips.join(trips.sparkSession.createDataFrame([(1, "AA")], "id int, name string"), "id")',
        'trips.where(trips.table == "x").select(trips["read"])',
        'trips.withColumn("read", F.expr("sql"))',
        'trips.sparkSession.sql("SELECT * FROM {trips} WHERE id > 1", trips=trips)',
        'trips.join(trips.sparkSession.createDataFrame(pandas.read_csv(Path(__file__).with_name("names.csv"))), "id")',
        'trips.join(F.broadcast(trips.sparkSession.createDataFrame(list(csv.reader(open("names.csv"))), "id string")), "id")',
        "made(trips).table",
    ],
)
def test_other_code_is_accepted(tmp_path: Path, body: str) -> None:
    """Also a function of the module that the transform does not use."""
    made = "def made(trips):\n    names = trips.sparkSession.createDataFrame([(1,)])\n    return names.table\n\n\n"
    other = "def other(spark):\n    return spark.table('x')\n\n\n"
    check(tmp_path, f"{other}{made}def join(trips):\n    return {body}\n")


def test_the_parameters_of_a_transform_of_several_sources_are_their_names(tmp_path: Path) -> None:
    check(tmp_path, "def join(trips, weather):\n    return trips\n", "trips", "weather")
    check(tmp_path, "def join(rows):\n    return rows\n")

    with pytest.raises(SpecError, match=r"line 1: join has the parameters \(rows\).*write def join\(trips, weather\)"):
        check(tmp_path, "def join(rows):\n    return rows\n", "trips", "weather")


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from spark_jobs.shared import lookup", "lookup(trips)"),
        ("from .shared import lookup as other", "other(trips)"),
        ("from spark_jobs import shared", "shared.lookup(trips)"),
        ("import spark_jobs.shared as other", "other.lookup(trips)"),
        ("import spark_jobs.shared", "spark_jobs.shared.lookup(trips)"),
        ("def first(trips):\n    from spark_jobs.shared import lookup\n    return lookup(trips)", "first(trips)"),
    ],
)
def test_what_a_transform_uses_of_other_modules_of_the_project_is_read_too(
    tmp_path: Path, imports: str, call: str
) -> None:
    shared = "def lookup(rows):\n    return rows.sparkSession.table('weather')\n\n\ndef other(rows):\n    return rows\n"
    (tmp_path / "shared.py").write_text(shared)

    with pytest.raises(SpecError, match=r"spark_jobs/shared\.py line 2 reads a table"):
        check(tmp_path, f"{imports}\n\n\ndef join(trips):\n    return {call}\n")
    check(tmp_path, "from spark_jobs.shared import other\n\n\ndef join(trips):\n    return other(trips)\n")


class _LetsOthersRun:
    """An object of a cycle, whose finalizer lets go of the interpreter's lock."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(3):
            time.sleep(0)


def _failures(parse: Callable[[bytes], ast.Module]) -> int:
    """How many of four threads fail that parse while garbage is collected."""
    source, failures = Path(transform_code.__file__).read_bytes(), []

    def work() -> None:
        try:
            for _ in range(10):
                for _ in range(3):
                    _LetsOthersRun()
                parse(source)
        except SystemError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failures)


@pytest.mark.slow
def test_several_threads_can_check_files_at_the_same_time() -> None:
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(1000)
    sys.setswitchinterval(1e-5)
    try:
        assert _failures(transform_code._parsed) == 0
        if sys.version_info < (3, 11, 8):
            assert any(_failures(ast.parse) for _ in range(50)), "the fault that the lock prevents"
    finally:
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
