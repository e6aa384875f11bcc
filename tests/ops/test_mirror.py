"""The copy of small tables: each file is opened once, and a look shows one whole version."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import append
from tidegate.ops.mirror import Copied, Mirror

LINES = Copied(name="lines", columns={"number": "BIGINT", "note": "VARCHAR"})


@pytest.fixture
def mirror() -> Mirror:
    return Mirror((LINES,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines"


def numbers(mirror: Mirror, pipeline: str = "flights") -> list[Any]:
    found = mirror.query("SELECT number FROM lines WHERE pipeline = ? ORDER BY number", [pipeline])
    return [row["number"] for row in found]


def test_every_file_is_opened_once(mirror: Mirror, path: Path) -> None:
    for number in range(5):
        append(path, [{"number": number}])
    assert mirror.refresh("lines", "flights", path) == 5
    assert mirror.refresh("lines", "flights", path) == 0
    append(path, [{"number": 5}])
    assert mirror.refresh("lines", "flights", path) == 1
    assert numbers(mirror) == [0, 1, 2, 3, 4, 5]


def test_a_table_that_is_not_there_is_empty_until_it_is(mirror: Mirror, path: Path) -> None:
    assert mirror.refresh("lines", "flights", path) == 0
    (path / "_delta_log").mkdir(parents=True)
    assert mirror.refresh("lines", "flights", path) == 0
    assert numbers(mirror) == []
    append(path, [{"number": 1}])
    mirror.refresh("lines", "flights", path)
    assert numbers(mirror) == [1]


def test_a_compacted_table_holds_the_same(mirror: Mirror, path: Path) -> None:
    from deltalake import DeltaTable

    for number in range(4):
        append(path, [{"number": number}])
    mirror.refresh("lines", "flights", path)
    table = DeltaTable(str(path))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert mirror.refresh("lines", "flights", path) == 1
    assert numbers(mirror) == [0, 1, 2, 3]


def test_a_table_that_was_made_anew_is_read_anew(mirror: Mirror, path: Path) -> None:
    append(path, [{"number": 1}])
    mirror.refresh("lines", "flights", path)
    shutil.rmtree(path)
    append(path, [{"number": 7}])
    mirror.refresh("lines", "flights", path)
    assert numbers(mirror) == [7]
    shutil.rmtree(path)
    mirror.refresh("lines", "flights", path)
    assert numbers(mirror) == []


def test_a_column_that_a_file_lacks_is_null_and_an_unknown_one_is_left_out(mirror: Mirror, path: Path) -> None:
    append(path, [{"number": 1, "more": "x"}])
    mirror.refresh("lines", "flights", path)
    assert mirror.query("SELECT number, note FROM lines") == [{"number": 1, "note": None}]


def test_tables_of_two_pipelines_stand_side_by_side(mirror: Mirror, tmp_path: Path) -> None:
    for number, name in enumerate(("flights", "clicks")):
        append(tmp_path / name, [{"number": number}])
        mirror.refresh("lines", name, tmp_path / name)
    assert (numbers(mirror), numbers(mirror, "clicks")) == ([0], [1])


def test_a_look_while_a_job_writes_shows_a_whole_version(mirror: Mirror, path: Path) -> None:
    append(path, [{"number": 0}, {"number": 0}])

    def write() -> None:
        for number in range(1, 25):
            append(path, [{"number": number}, {"number": number}])

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while writer.is_alive():
        mirror.refresh("lines", "flights", path)
        seen = numbers(mirror)
        assert seen == sorted([*range(len(seen) // 2)] * 2)
    writer.join()
    mirror.refresh("lines", "flights", path)
    assert numbers(mirror) == sorted([*range(25)] * 2)
