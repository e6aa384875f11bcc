"""Dataclasses survive a round trip through JSON files; files that do not fit are refused or count as missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pytest

from tests.waiting import TIMEOUT_SECONDS
from tidegate import json_codec
from tidegate.advice import OutsideAct
from tidegate.errors import DamagedFileError
from tidegate.store import Address


@dataclass(frozen=True, kw_only=True)
class Part:
    number: int
    kind: Literal["file", "topic"] = "file"
    offsets: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Whole:
    parts: tuple[Part, ...]
    at: datetime | None = None
    note: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


WHOLE = Whole(parts=(Part(number=1), Part(number=2, kind="topic", offsets={0: 7})), at=datetime(2026, 1, 1, tzinfo=UTC))


def test_a_dataclass_survives_a_round_trip_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "whole.json"
    json_codec.write(Address.local(path), WHOLE)
    assert json_codec.read(Address.local(path), Whole) == WHOLE


def test_keys_of_a_newer_version_are_ignored_and_missing_ones_get_their_defaults() -> None:
    assert json_codec.decode('{"parts": [{"number": 1, "added": true}]}', Whole) == Whole(parts=(Part(number=1),))


def test_the_name_of_a_file_that_is_not_utf_8_survives() -> None:
    named = Whole(parts=(), note=b"\xff.csv".decode(errors="surrogateescape"))
    assert json_codec.decode(json_codec.encode(named), Whole) == named


def test_mappings_become_objects_and_values_without_a_form_in_json_become_text() -> None:
    values = Whole(parts=(), extra={"map": MappingProxyType({"a": 1}), "path": Path("/x")})
    assert json_codec.to_plain(values)["extra"] == {"map": {"a": 1}, "path": "/x"}


def test_only_fields_that_differ_from_their_defaults_are_changed() -> None:
    @dataclass(frozen=True)
    class Options:
        trim: bool = False
        texts: tuple[str, ...] = ()

    assert json_codec.changed_fields(Options()) == {}
    assert json_codec.changed_fields(Options(texts=("Y",))) == {"texts": ("Y",)}


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"parts": [{"number": "1"}]}', '{"parts": [{"number": 1, "kind": "table"}]}', b"\xff"],
)
def test_a_damaged_file_is_refused_with_its_path_and_the_repair_or_counts_as_missing(
    tmp_path: Path, content: str | bytes
) -> None:
    path = tmp_path / "whole.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DamagedFileError, match=r"whole\.json is damaged: .+\. Restore it\.") as damaged:
        json_codec.read(Address.local(path), Whole, OutsideAct("restore it"))
    assert damaged.value.path == str(path)
    assert json_codec.read(Address.local(path), Whole) is None


def test_a_missing_file_is_none_and_one_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    assert json_codec.read(Address.local(tmp_path / "whole.json"), Whole, OutsideAct("restore it")) is None
    with pytest.raises(IsADirectoryError):
        json_codec.read(Address.local(tmp_path), Whole, OutsideAct("restore it"))
    with pytest.raises(IsADirectoryError):
        json_codec.read(Address.local(tmp_path), Whole)


FIRST_READS = """
import sys, threading
from dataclasses import make_dataclass
from tidegate import json_codec

sys.setswitchinterval(1e-6)
values = {"one": {"number": 1}, "many": [{"number": 2}]}
for count in range(100):
    part = make_dataclass(f"Part{count}", [("number", int)])
    whole = make_dataclass(f"Whole{count}", [("one", part), ("many", list[part])])
    gate, results = threading.Barrier(6), []

    def read():
        gate.wait()
        results.append(json_codec.from_plain(values, whole))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [whole(part(1), [part(2)])] * 6
"""


@pytest.mark.slow
def test_threads_that_read_the_first_values_of_a_class_at_once_do_not_end_the_process() -> None:
    """Without the lock msgspec ends this program by a segmentation fault."""
    subprocess.run([sys.executable, "-c", FIRST_READS], check=True, timeout=TIMEOUT_SECONDS)
