"""Files with any name are read once, and a bad file does not block the good ones."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipelines.flights
from tests.deployment import Deployment
from tests.fault_points import fault
from tidegate.formats.reader import MAX_RECORD_LENGTH
from tidegate.spec import FileSource

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,"
    "dest,air_time,distance,hour,minute,time_hour,published_on"
)
ODD_NAMES = [
    "plain.csv",
    "d[1].csv",
    "d[0-9].csv",
    "what?.csv",
    "s*r.csv",
    "b{1,2}.csv",
    "back\\slash.csv",
    "sp ace.csv",
    "50%.csv",
    "p%20c.csv",
    "new\nline.csv",
    "hash#tag.csv",
    "comma,x.csv",
    "plus+&=.csv",
    "naïve été.csv",
    "sub folder/[in] it.csv",
    "2026-01-01T10:00:00.csv",
    "colon:[1]?.csv",
    "packed.csv.gz",
    "packed.csv.bz2",
]


def line(number: int) -> str:
    return f"2013,1,1,517,515,2,830,819,11,UA,{number},N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z,2013-01-02T11:00:00Z"


def packed(name: str, content: str) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(content.encode())
    return bz2.compress(content.encode()) if name.endswith(".bz2") else content.encode()


@pytest.mark.jvm
def test_files_with_unusual_names_are_read_once_with_exact_line_numbers(deployment: Deployment, spark: Any) -> None:
    expected = set()
    for position, name in enumerate(ODD_NAMES):
        lines = [line(position * 100 + number) for number in range(1 + position % 4)]
        path = deployment.land(name, packed(name, "\n".join([HEADER, *lines]) + "\n"))
        expected |= {(str(path), number + 2, text) for number, text in enumerate(lines)}

    report = deployment.run(flows=["bronze"])

    assert report.flow("bronze").error is None
    rows = deployment.table("bronze.flights").to_pylist()
    assert {(row["_path"].removeprefix("file://"), row["_line_number"], row["line"]) for row in rows} == expected
    assert len(rows) == len(expected)
    assert {row["_header"] for row in rows} == {HEADER}


@pytest.mark.jvm
def test_a_file_larger_than_a_split_has_exact_line_numbers(deployment: Deployment, spark: Any) -> None:
    lines = [line(number) for number in range(30_000)]
    deployment.land("large.csv", "\n".join([HEADER, *lines]))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "256k")
    try:
        deployment.run(flows=["bronze"])
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)

    rows = deployment.table("bronze.flights").to_pylist()
    assert len(rows) == len(lines)
    assert all(row["line"] == lines[row["_line_number"] - 2] for row in rows)


@pytest.mark.jvm
def test_bad_files_go_to_quarantine_with_their_rule_and_good_ones_are_read(deployment: Deployment, spark: Any) -> None:
    content = "\n".join([HEADER, line(1)])
    deployment.land("good.csv", content)
    # Incompressible content, so that half of the bytes ends in the middle of the gzip member.
    noise = "".join(random.Random(1).choices("abcdefghij0123456789", k=200_000))
    whole = gzip.compress((content + "\n" + noise).encode())
    deployment.land("truncated.csv.gz", whole[: len(whole) // 2])
    deployment.land("not_gzip.csv.gz", content)
    deployment.land("broken.csv.bz2", bz2.compress(content.encode())[:-9])
    deployment.land("latin1.csv", (content + "\ncafé").encode("latin-1"))
    deployment.land("endless.csv", HEADER + "\n" + "x" * (MAX_RECORD_LENGTH + 1))
    deployment.land("empty.csv", "")

    report = deployment.run(flows=["bronze"])

    (batch,) = report.flow("bronze").batches
    assert (batch.files_listed, batch.files_opened, batch.files_quarantined) == (7, 1, 6)
    assert batch.imbalance() == 0
    refused = {
        Path(json.loads(row["source"])["path"]).name: row["rules"]
        for row in deployment.quarantined("bronze").to_pylist()
    }
    assert refused == {
        "truncated.csv.gz": ["corrupt_compression"],
        "not_gzip.csv.gz": ["corrupt_compression"],
        "broken.csv.bz2": ["corrupt_compression"],
        "latin1.csv": ["not_utf8"],
        "endless.csv": ["line_too_long"],
        "empty.csv": ["empty_file"],
    }
    assert deployment.table("bronze.flights")["line"].to_pylist() == [line(1)]
    assert deployment.run(flows=["bronze"]).flow("bronze").state == "idle"


@pytest.mark.jvm
def test_hidden_and_temporary_files_and_directories_are_ignored(deployment: Deployment, spark: Any) -> None:
    deployment.land("done.csv", "\n".join([HEADER, line(1)]))
    for name in (
        "_half.csv",
        "_metadata.csv",
        "_a=b.csv",
        ".half.csv",
        "half.csv.tmp",
        "half.tmp",
        "notes.txt",
        "_dir/in.csv",
        ".dir/in.csv",
    ):
        deployment.land(name, "\n".join([HEADER, line(2)]))
    (deployment.environment.landing / "flights" / "folder.csv").mkdir()
    deployment.land("folder.csv/inside.csv", "\n".join([HEADER, line(3)]))

    deployment.run(flows=["bronze"])

    names = {Path(path).name for path in deployment.table("bronze.flights")["_path"].to_pylist()}
    assert names == {"done.csv", "inside.csv"}


@pytest.mark.jvm
def test_a_late_file_with_an_old_modification_time_is_read(deployment: Deployment, spark: Any) -> None:
    deployment.land("new.csv", "\n".join([HEADER, line(1)]))
    deployment.run(flows=["bronze"])
    old = deployment.land("old.csv", "\n".join([HEADER, line(2)]))
    os.utime(old, (old.stat().st_mtime - 40 * 86_400,) * 2)

    report = deployment.run(flows=["bronze"])

    assert report.flow("bronze").total("written") == 1


@pytest.mark.jvm
def test_a_batch_with_only_bad_files_is_recorded_and_committed(deployment: Deployment, spark: Any) -> None:
    deployment.land("empty.csv", "")

    report = deployment.run()

    assert [flow.state for flow in report.flows] == ["done", "idle", "idle"]
    assert deployment.quarantined("bronze")["rules"].to_pylist() == [["empty_file"]]
    assert deployment.table("bronze.flights").num_rows == 0


@pytest.mark.nightly
@pytest.mark.jvm
def test_a_file_that_vanished_between_listing_and_reading_is_recorded(deployment: Deployment, spark: Any) -> None:
    vanished = deployment.land("vanished.csv", "\n".join([HEADER, line(1)]))
    deployment.land("stays.csv", "\n".join([HEADER, line(2)]))
    deployment.run_and_kill("before:decide:bronze", flows=["bronze"])
    vanished.unlink()

    report = deployment.run(flows=["bronze"])

    assert report.flow("bronze").error is None
    assert deployment.quarantined("bronze")["rules"].to_pylist() == [["vanished"]]
    assert deployment.table("bronze.flights")["line"].to_pylist() == [line(2)]


@pytest.mark.nightly
@pytest.mark.jvm
def test_rows_of_a_file_that_is_replaced_before_it_is_read_a_second_time_are_never_mixed(
    deployment: Deployment, spark: Any
) -> None:
    path = deployment.land("a.csv", "\n".join([HEADER, *map(line, range(100, 200))]))
    deployment.land("b.csv", "\n".join([HEADER, line(1)]))
    status = path.stat()

    def replace_and_lose(_job: Any) -> None:
        path.write_text("\n".join([HEADER, *map(line, range(200, 300))]))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        blocks = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().master()
        for number in spark.sparkContext._jsc.getPersistentRDDs():
            blocks.removeRdd(number, True)

    assert path.stat().st_size == status.st_size
    with fault("before:write_target:bronze", replace_and_lose):
        failed = deployment.run(flows=["bronze"]).flow("bronze").error

    assert failed is not None
    assert (failed.kind, failed.transient) == ("SourceUnavailableError", True)
    assert not (deployment.layout.table("bronze.flights") / "_delta_log" / f"{0:020}.json").exists()
    assert deployment.run(flows=["bronze"]).flow("bronze").error is None
    rows = deployment.table("bronze.flights").to_pylist()
    assert sorted(row["line"] for row in rows) == sorted(map(line, [1, *range(200, 300)]))
    assert len({row["_sha256"] for row in rows}) == 2


@pytest.mark.jvm
def test_batches_are_bounded_by_count_and_by_bytes(
    deployment: Deployment, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "\n".join([HEADER, *(line(number) for number in range(12))])
    assert 1024 < len(content) < 2048
    for number in range(5):
        path = deployment.land(f"{number}.csv", content)
        os.utime(path, (1_700_000_000 + number,) * 2)
    declared = pipelines.flights.pipeline
    bronze = declared.flow("bronze")
    assert isinstance(bronze.source, FileSource)
    bounded = replace(bronze, source=replace(bronze.source, max_bytes_per_trigger="4k"))
    monkeypatch.setattr(pipelines.flights, "pipeline", replace(declared, flows=(bounded, *declared.flows[1:])))

    report = deployment.run(flows=["bronze"])

    assert [batch.files_opened for batch in report.flow("bronze").batches] == [2, 2, 1]
