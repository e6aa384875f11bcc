"""The order of changes is that of what their columns mean: numbers within texts and paths, not characters."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import job as jobs
from tests.spark.batch.splits import NEW, Open, write
from tests.spark.job import LATEST, SILVER, changes, table
from tests.with_fields import with_fields
from tidegate.checkpoints import checkpoint
from tidegate.checkpoints.checkpoint import SIDECAR
from tidegate.errors import SpecError
from tidegate.lake.place import Place
from tidegate.spark.batch import order
from tidegate.spark.batch.rows import split_rows
from tidegate.spec import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

COLUMNS = "id int, file string, pos int, amount int"
BINLOG = replace(
    LATEST,
    target=Table("silver.latest", keys=("id",), sequence_by=("file", "pos"), text_order={"file": "numbers"}),
)


def meaning(text: str) -> list[tuple[int, int]]:
    """The oracle: a text as its characters, where a run of digits is one character with a number."""
    return [(ord("0"), int(part)) if part.isdigit() else (ord(part), 0) for part in re.findall(r"[0-9]+|[^0-9]", text)]


def texts(chance: random.Random) -> str:
    """Texts with few different characters and numbers of all lengths, leading zeros among them."""
    parts = ["", "a", "b", ".", "/", ":", "-", "é", "mysql-bin.", "0", "00", "9", "10", "099", "999999", "1000000"]
    numbers = [str(chance.randrange(10 ** chance.randrange(1, 45))) for _ in range(2)]
    return "".join(chance.choice([*parts, *numbers]) for _ in range(chance.randrange(5)))


@pytest.mark.parametrize("seed", range(3))
def test_texts_compare_by_the_numbers_in_them_and_no_two_are_equal(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    made = sorted({texts(chance) for _ in range(3_000)})
    chance.shuffle(made)

    rows = spark.createDataFrame([(text,) for text in made], "text string").select("text", order.by_numbers("text"))

    in_order = [row["text"] for row in rows.orderBy(rows.columns[1]).collect()]
    assert in_order == sorted(made, key=lambda text: (meaning(text), text))


@pytest.mark.parametrize("seed", range(2))
def test_the_newest_change_of_a_key_stays_however_its_file_is_numbered_and_the_batches_are_cut(
    latest: Open, seed: int
) -> None:
    chance = random.Random(seed)
    numbers = [*(10**digits + step for digits in (1, 2, 6, 9) for step in (-1, 0)), 5]
    places = chance.sample([(number, pos) for number in numbers for pos in (4, 900)], 15)
    records = [
        (chance.randrange(3), f"mysql-bin.{number:0{width}}", pos, amount)
        for amount, (number, pos) in enumerate(places)
        for width in [chance.choice([1, 6])]
    ]
    job = latest(flow=BINLOG)

    for batch_id, start in enumerate(range(0, 15, 5)):
        batch = records[start : start + 5]
        result = split_rows(job, changes(job.spark, COLUMNS, *batch), batch_id, NEW)
        assert result is not None
        write(job, result)

    newest: dict[int, tuple[int, int, int]] = {}
    for key, file, pos, amount in records:
        newest[key] = max(newest.get(key, (0, 0, 0)), (int(file.rpartition(".")[2]), pos, amount))
    assert {row["id"]: row["amount"] for row in table(job.target)} == {
        key: amount for key, (_, _, amount) in newest.items()
    }


@pytest.mark.parametrize(
    ("columns", "text_order", "named"),
    [
        (COLUMNS, {}, "'file', a STRING, and nothing says how it compares"),
        ("id int, file binary, pos int", {}, "'file', which is binary"),
        ("id int, file bigint, pos int", {"file": "text"}, "text_order names 'file', which is bigint"),
    ],
)
def test_a_column_without_one_order_is_refused(
    latest: Open, columns: str, text_order: dict[str, Any], named: str
) -> None:
    job = latest(flow=replace(BINLOG, target=with_fields(BINLOG.target, text_order=text_order)))

    with pytest.raises(SpecError, match=re.escape(named)):
        split_rows(job, changes(job.spark, columns), 0, NEW)


def test_a_record_with_nan_has_no_place_in_the_order(latest: Open) -> None:
    job = latest()

    result = split_rows(job, changes(job.spark, "id int, at double", (1, float("nan")), (1, 2.0)), 0, NEW)

    assert result is not None
    assert (result.prepared.rules, result.prepared.written) == ({"null_sequence(at)": 1}, 1)


@pytest.mark.parametrize("earlier", [False, True], ids=["new version", "version of an earlier release"])
def test_of_files_with_equal_times_the_one_with_the_higher_number_is_newer(
    spark: SparkSession, tmp_path: Path, earlier: bool
) -> None:
    from pyspark.sql import functions as F

    job = jobs.job_of(spark, tmp_path, SILVER)
    checkpoint.write_sidecar(job.place, job.flow)
    if earlier:
        path = SIDECAR.path(Place(job.place.layout, "orders", job.flow.name, 1, 0))
        written = json.loads(Path(path).read_text())
        assert written.pop("paths_by_numbers") is True
        Path(path).write_text(json.dumps(written))
    lines = [json.dumps({"id": 1, "at": 1, "amount": number}) for number in (9, 10)]
    feed = jobs.landed(spark, *lines).withColumn(
        "_path", F.concat(F.lit("file:///orders/part-"), F.get_json_object("line", "$.amount"), F.lit(".json"))
    )

    result = split_rows(job, feed.drop("_line_number").withColumn("_line_number", F.lit(1)), 0, NEW)

    assert result is not None
    write(job, result)
    assert [row["amount"] for row in table(job.target)] == [9 if earlier else 10]
