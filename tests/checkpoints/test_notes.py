"""The table of notes: it names every kind, and the bytes of each are those of the lakes that there are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tidegate import json_codec
from tidegate.checkpoints.note import AnyNote, Note, NoteLines, NumberedNotes
from tidegate.errors import DamagedFileError
from tidegate.lake.layout import Layout
from tidegate.lake.place import Place
from tidegate.status.notes import ALL_NOTES as NOTES

KEPT = Path(__file__).parent / "notes"
"""A lake with one note of each kind, written before there was the table of notes."""
BY_NAME = {each.name: each for each in NOTES}


def place(lake: Path) -> Place:
    return Place(Layout.local(lake, lake / "landing"), "orders", "silver", 2, 1)


def files(note: AnyNote, at: Place) -> list[Path]:
    if isinstance(note, NumberedNotes):
        return [Path(note.path(at, number)) for number in note.numbers(at)]
    assert isinstance(note, Note | NoteLines)
    return [Path(note.path(at))]


def copy(note: AnyNote, before: Place, after: Place) -> list[Any]:
    """Read a note, write what it says elsewhere, and return it."""
    if isinstance(note, NumberedNotes):
        values = [note.read(before, number) for number in note.numbers(before)]
        for number, value in enumerate(values):
            note.write(after, number, value)
    elif isinstance(note, NoteLines):
        values = note.read(before)
        for value in values:
            note.append(after, value)
    else:
        assert isinstance(note, Note)
        values = [note.read(before)]
        note.write(after, values[0])
    return values


def test_the_kept_lake_has_no_note_that_the_table_does_not_name() -> None:
    named = {path for each in NOTES for path in files(each, place(KEPT))}
    assert named == {path for path in Path(place(KEPT).checkpoints).rglob("*") if path.is_file()}


# Those of a backfill have more fields: `tests/spark/reprocessing/test_pending_work.py` writes them.
@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - {"reprocessing"}))
def test_a_note_of_the_kept_lake_is_read_and_written_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    note, before, after = BY_NAME[name], place(KEPT), place(tmp_path)
    values = copy(note, before, after)
    assert values
    assert None not in values
    assert [each.read_bytes() for each in files(note, after)] == [each.read_bytes() for each in files(note, before)]
    assert copy(note, after, place(tmp_path / "again")) == values


@pytest.mark.parametrize("name", BY_NAME)
def test_a_damaged_note_stops_with_the_next_step_or_counts_as_absent(name: str, tmp_path: Path) -> None:
    note, at = BY_NAME[name], place(tmp_path)
    shutil.copytree(KEPT, tmp_path, dirs_exist_ok=True)
    for path in files(note, at):
        path.write_text("{")
    if note.repair is None:
        assert isinstance(note, Note)
        assert note.read(at) is None
        return
    with pytest.raises(DamagedFileError) as raised:
        copy(note, at, place(tmp_path / "copy"))
    assert note.repair.text[1:] in str(raised.value)


@pytest.mark.parametrize("name", [each.name for each in NOTES if isinstance(each, Note)])
def test_a_cleared_note_is_absent_and_may_be_cleared_again(name: str, tmp_path: Path) -> None:
    note, at = BY_NAME[name], place(tmp_path)
    assert isinstance(note, Note)
    copy(note, place(KEPT), at)
    assert note.exists(at)
    note.clear(at)
    note.clear(at)
    assert (note.exists(at), note.read(at)) == (False, None)


REQUEST: dict[str, Any] = {"run_key": "r", "request_id": "q", "requested_by": None}
CODE = {"code_fingerprint": "c"}


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("origin", {"mode": "accept_gap", "run_key": "r", "recorded_at": "t"}),
        ("origin", {"mode": "recover", **REQUEST, "lost": 0, "damages": [{"kind": "table"}], "recorded_at": "t"}),
        ("origin", {"mode": "recover", **REQUEST, "lost": 1, "damages": [], "recorded_at": "t", "done": True}),
        ("refusal", {"batch_id": 1, "suite_fingerprint": None, **CODE}),
        ("refusal", {"batch_id": 1, "statistics_fingerprint": "s", **CODE}),
        ("refusal", {"batch_id": 1, **CODE, "transform_error_share": 0.1}),
        ("refusal", {"batch_id": 1, "schema_change_id": "s", "declared": "d"}),
    ],
)
def test_a_note_of_an_earlier_release_with_other_fields_has_the_same_bytes(
    name: str, stored: dict[str, Any], tmp_path: Path
) -> None:
    note, before, after = BY_NAME[name], place(tmp_path / "before"), place(tmp_path / "after")
    assert isinstance(note, Note)
    json_codec.write(note.path(before), stored)
    copy(note, before, after)
    assert note.path(after).read() == note.path(before).read()
