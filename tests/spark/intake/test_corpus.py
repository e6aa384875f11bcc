"""Generated files read by the landing code and the parser: rows have exactly the records that were written."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.formats.corpus import NAMES, good_file, hostile_file
from tidegate.lake.file_id import FileId
from tidegate.spark.intake import landing, parse
from tidegate.spec import Dialect, FileSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

SCHEMA = "id STRING, a STRING, b STRING, c STRING"


def test_rows_of_five_hundred_files_are_as_written_and_bad_files_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:

    rng = random.Random(23)
    written: Counter[tuple[str, ...]] = Counter()
    refused: dict[str, str] = {}
    files = []
    for number in range(500):
        path = tmp_path / f"{number}.csv"
        if number % 10 == 0:
            path.write_bytes(b'id,a,b,c\n1,"open,x,y\n2,x,y,z\n')
            refused[str(path)] = "open_quote"
        elif number % 10 == 5:
            # The records of hostile files are checked in test_delimited.py; here they must not affect other files.
            path.write_bytes(hostile_file(rng).content)
        else:
            file, fields = good_file(rng, Dialect())
            path.write_bytes(file.content)
            written.update((path.name, *row) for row in fields)
        files.append(FileId(str(path), 5))
    source = FileSource(path="orders", format="csv", schema=SCHEMA)
    persisted: list[DataFrame] = []

    landed = landing.read_files(spark, files, source, landing.BatchValues(0, 5), persisted)
    good = [file for file in landed.files if file.problem is None]
    rows = landed.rows(spark, good).persist()
    parsed = parse.parse(rows, source).rows.collect()
    count = rows.count()
    for frame in (rows, *persisted):
        frame.unpersist()

    assert count == sum(file.records for file in good) == len(parsed)
    problems = {file.path: file.problem for file in landed.files if file.path in refused}
    assert problems == refused
    hostile = {f"{number}.csv" for number in range(5, 500, 10)}
    read: Counter[tuple[str, ...]] = Counter()
    for row in parsed:
        name = row["_row_id"].rpartition("@")[0].rpartition("/")[2]
        if name not in hostile:
            assert row["_origin"]["broken"] == [], row
            read[name, *(row[field] or "" for field in NAMES)] += 1
    assert read == written
    assert sum(written.values()) > 1000
