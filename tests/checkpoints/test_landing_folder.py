"""Files that were read below an earlier landing folder are the files of the same name below the present one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_files import Checkpoint
from tidegate.checkpoints import landing_folder, overrides, progress
from tidegate.checkpoints.landing_folder import ComparedContent, LandingFolder, MovedFiles
from tidegate.checkpoints.overrides import Override
from tidegate.errors import MovedLandingFolderError, RequestError
from tidegate.lake.file_id import FileId, url_of_path
from tidegate.lake.layout import Layout
from tidegate.lake.place import Place
from tidegate.spec import FileSource, Flow, Table

pytestmark = pytest.mark.slow

SOURCE = FileSource(path="shop/orders", format="csv", schema="id INT")
FLOW = Flow(name="bronze", source=SOURCE, target=Table("bronze.shop"))
NAMES = st.text(st.sampled_from("ab/@."), min_size=1, max_size=8).filter(
    lambda name: "//" not in name and name[0] != "/"
)
FOLDERS = st.sampled_from(["/l/shop/orders", "/l/shop/orders2", "/l/shop", "/m/shop/orders", "/l/shop/orders/a"])


def content(checksum: str, *times: int) -> ComparedContent:
    return ComparedContent(checksum=checksum, times=list(times))


@given(st.lists(FOLDERS, unique=True, min_size=1), NAMES, st.integers(0, 9))
def test_each_name_that_a_file_had_is_the_present_file(folders: list[str], name: str, modified_ms: int) -> None:
    folder = LandingFolder(
        folders[0],
        tuple(folders[1:]),
        MovedFiles(times={name: [3, 5]}, contents={name: [content("a", 3, 4, 5), content("b", 7)]}),
    )
    file = folder.identity(FileId(f"{folder.path}/{name}", modified_ms))
    if file.path == f"{folder.path}/{name}":
        assert file.modified_ms == (3 if modified_ms in (4, 5) else modified_ms)
    assert file in folder.names(file)
    if not any(each.startswith(f"{other}/") for each in folders for other in folders):
        assert {folder.identity(each) for each in folder.names(file)} == {file}


def test_a_time_is_of_the_content_that_was_compared_last() -> None:
    note = MovedFiles(contents={"a.csv": [content("a", 1, 2), content("b", 3)], "b.csv": [content("c", 1)]})

    after = note.with_compared({"a.csv": content("c", 2, 3, 4)})

    assert after.contents == {"a.csv": [content("a", 1), content("c", 2, 3, 4)], "b.csv": [content("c", 1)]}
    folder = LandingFolder("/l/shop", moved=after)
    assert [folder.checksum(FileId("/l/shop/a.csv", time)) for time in (1, 2, 4, 5)] == ["a", "c", "c", None]


def test_a_file_below_two_folders_is_of_the_inner_one() -> None:
    folder = LandingFolder("/l/orders/orders", ("/l/orders",))
    assert folder.present_path("/l/orders/orders/a.csv") == "/l/orders/orders/a.csv"
    assert folder.present_path("/l/orders/b.csv") == "/l/orders/orders/b.csv"
    folder = LandingFolder("/l/orders", ("/l/orders/orders",))
    assert folder.present_path("/l/orders/orders/a.csv") == "/l/orders/a.csv"


def test_a_file_below_no_folder_has_its_own_name_alone() -> None:
    assert LandingFolder("/l/orders", ("/m/orders",)).names(FileId("/elsewhere/a.csv", 5)) == [
        FileId("/elsewhere/a.csv", 5)
    ]


def place_of(tmp_path: Path, *paths: str) -> Place:
    """A checkpoint whose stream has read these files, one a batch."""
    place = Place(Layout.local(tmp_path / "lake", tmp_path / "landing"), "shop", "bronze", 1, 0)
    log = place.checkpoint / "sources" / "0"
    Path(log).mkdir(parents=True)
    for number, path in enumerate(paths):
        entry = {"path": url_of_path(path), "timestamp": 5, "batchId": number}
        Path(log / str(number)).write_text(f"v1\n{json.dumps(entry)}")
    return place


def accept_move(place: Place, before: str) -> None:
    overrides.record(place, Override(act="move", by="ada", reason="a new disk", moved_from=before))


def test_files_below_the_folder_say_nothing(tmp_path: Path) -> None:
    assert not landing_folder.is_moved(place_of(tmp_path), SOURCE)
    place = place_of(tmp_path / "read", f"{tmp_path}/read/landing/shop/orders/a.csv")
    assert not landing_folder.is_moved(place, SOURCE)


@pytest.mark.parametrize(
    ("paths", "before"),
    [
        (("/old/shop/orders/a.csv",), "/old/shop/orders"),
        (("/old/shop/orders/x/a.csv", "/old/shop/orders/x/b.csv"), "/old/shop/orders"),
        (("/old/shop/orders/shop/orders/a.csv", "/old/shop/orders/b.csv"), "/old/shop/orders"),
        (("s3://bucket/old/shop/orders/x/a.csv", "s3://bucket/old/shop/orders/b.csv"), "s3://bucket/old/shop/orders"),
    ],
)
def test_a_moved_folder_is_named_until_its_move_is_accepted(
    paths: tuple[str, ...], before: str, tmp_path: Path
) -> None:
    place = place_of(tmp_path, *paths)
    with pytest.raises(MovedLandingFolderError) as refused:
        landing_folder.checked(place, SOURCE, progress.source_files(place.checkpoint))
    assert refused.value.before == before

    accept_move(place, before)

    assert landing_folder.is_moved(place, SOURCE), "a new refresh reads on"
    assert landing_folder.of(place, SOURCE).earlier == (before,)
    (decision,) = overrides.history(place)
    assert decision.summary().startswith(f"the move of the landing folder from {before} accepted by ada on ")


def test_a_folder_that_is_moved_back_and_forth_has_each_name_once(tmp_path: Path) -> None:
    place = place_of(tmp_path, "/old/shop/orders/a.csv")
    accept_move(place, "/old/shop/orders")
    back = Place(Layout.local(tmp_path / "lake", Path("/old")), "shop", "bronze", 1, 0)
    assert landing_folder.of(back, SOURCE).earlier == ()
    assert not landing_folder.is_moved(back, SOURCE)


def test_a_file_that_was_read_before_its_folder_was_moved_cannot_be_skipped(tmp_path: Path) -> None:
    place = place_of(tmp_path, "/old/shop/orders/a.csv")
    Checkpoint(place.checkpoint).run(0, {"logOffset": 0})
    for name in ("a.csv", "b.csv"):
        (place.layout.landing("shop/orders") / name).put(b"")
    accept_move(place, "/old/shop/orders")
    with pytest.raises(RequestError, match="was read already"):
        overrides.skip(place, FLOW, "a.csv", by="ada", reason="broken")
    overrides.skip(place, FLOW, "b.csv", by="ada", reason="broken")
    assert overrides.skipped_files(place).keys() == {"b.csv"}
