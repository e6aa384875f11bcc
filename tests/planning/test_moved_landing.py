"""A file of a landing folder is the one that was read if key, size and checksum are equal, wherever the folder is and whatever the time."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.s3_server import S3Process
from tests.spark_files import Checkpoint
from tidegate import hidden
from tidegate.checkpoints import landing_folder, overrides
from tidegate.errors import RequestError
from tidegate.lake.file_id import FileId
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, Place
from tidegate.planning import moved_landing
from tidegate.planning.moved_landing import MovePlan
from tidegate.probes import files
from tidegate.spec import FileSource, Flow, Table
from tidegate.store import Address
from tidegate.store.location import BucketFolder, Stores

pytestmark = pytest.mark.slow

FLOW = Flow(
    name="bronze", source=FileSource(path="shop/orders", format="csv", schema="id INT"), target=Table("bronze.shop")
)
READ_MS, LATER_MS = 1_700_000_000_000, 1_700_000_123_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = st.text(st.sampled_from("ab@#% +:&=é日"), min_size=1, max_size=6).map("f{}.csv".format)
KEYS = st.one_of(NAMES, st.tuples(st.sampled_from(["x", "d@1#2", "50% ü"]), NAMES).map("/".join))
CONTENT = {
    "kept": b"id\n1\n",
    "touched": b"id\n1\n",
    "rewritten": b"id\n2\n",
    "longer": b"id\n1\n2\n",
    "torn": b"id\n",
    "new": b"id\n7\n",
}
"""What is in the folder at the end, by what was done to a file that was read with the content of the first one."""
ACTS = st.sampled_from([*CONTENT, "removed"])


class Shop:
    """A flow that has read files from a landing zone, and the zone as it is now."""

    def __init__(self, folder: Path, acts: dict[str, str], *, moved: bool, checksums: bool = True) -> None:
        self.before = folder / "landing" / "shop" / "orders"
        self.layout = Layout.local(folder / "lake", folder / ("elsewhere" if moved else "landing"))
        self.now = Path(self.layout.landing("shop/orders"))
        self.place = Place(self.layout, "shop", "bronze", 1, 0)
        self.read = [key for key, act in acts.items() if act != "new"]
        log = Checkpoint(self.place.checkpoint)
        log.list_files(0, {f"{self.before}/{key}": READ_MS for key in self.read})
        log.run(0, {"logOffset": 0})
        self._write_bronze(checksums)
        self.now.mkdir(parents=True)
        for key, act in acts.items():
            if act != "removed":
                self.put(key, CONTENT[act], READ_MS if act in ("kept", "torn") else LATER_MS)

    def put(self, key: str, content: bytes, modified_ms: int) -> None:
        path = self.now / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, ns=(modified_ms * 1_000_000,) * 2)

    def plan(self) -> MovePlan:
        return moved_landing.plan(self.place, FLOW)

    def _write_bronze(self, checksums: bool) -> None:
        rows = [
            {
                hidden.PATH: FileId(f"{self.before}/{key}", READ_MS).url,
                hidden.MODIFIED_AT: EPOCH + timedelta(milliseconds=READ_MS),
                "_size": len(CONTENT["kept"]),
                hidden.INGESTED_AT: EPOCH + timedelta(milliseconds=READ_MS),
                **({hidden.CHECKSUM: hashlib.sha256(CONTENT["kept"]).hexdigest()} if checksums else {}),
            }
            for key in self.read
        ]
        if rows:
            write_deltalake(self.layout.table("bronze.shop").uri, pyarrow.Table.from_pylist(rows))


def keys_of(acts: dict[str, str], *wanted: str) -> list[str]:
    return sorted(key for key, act in acts.items() if act in wanted)


@settings(max_examples=40)
@given(st.dictionaries(KEYS, ACTS, min_size=1, max_size=6), st.booleans(), st.booleans())
def test_each_file_is_judged_by_key_size_and_checksum(acts: dict[str, str], moved: bool, checksums: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(Path(folder), acts, moved=moved, checksums=checksums)
        plan = shop.plan()

        proven, unproven = (("touched",), ()) if checksums else ((), ("touched", "rewritten"))
        assert plan.same == len(keys_of(acts, "kept"))
        assert sorted(plan.recognised) == keys_of(acts, *proven)
        assert sorted(plan.unproven) == keys_of(acts, *unproven)
        assert sorted(plan.changed) == keys_of(acts, *({"rewritten", "longer"} - {*unproven}))
        assert (plan.torn, plan.new) == (keys_of(acts, "torn"), len(keys_of(acts, "new")))
        assert plan.gone == len(keys_of(acts, "removed"))
        if plan.torn:
            with pytest.raises(RequestError, match="the time of a file that was read, and another size"):
                moved_landing.accept(plan, by="ada", reason="a new disk", unproven=len(plan.unproven))
            assert overrides.history(shop.place) == []
            return
        moved_landing.accept(plan, by="ada", reason="a new disk", unproven=len(plan.unproven))

        source_folder = landing_folder.of(shop.place, shop_source())
        for key, act in acts.items():
            read = FileId(f"{shop.before}/{key}", READ_MS)
            landed = FileId(f"{shop.now}/{key}", READ_MS if act == "kept" else LATER_MS)
            is_read = act == "kept" or act in (*proven, *unproven)
            assert (source_folder.identity(read) == source_folder.identity(landed)) == is_read or act == "removed"
            assert (read in source_folder.names(landed)) == is_read
        again = shop.plan()
        assert again.same == len(keys_of(acts, "kept", *proven, *unproven))
        assert not (again.recognised or again.unproven)


def shop_source() -> FileSource:
    assert isinstance(FLOW.source, FileSource)
    return FLOW.source


@given(st.lists(st.sampled_from([READ_MS, LATER_MS, LATER_MS + 1]), min_size=1, max_size=4))
@settings(max_examples=15)
def test_a_file_whose_time_changes_again_and_again_stays_the_same(times: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(Path(folder), {"a.csv": "kept"}, moved=False)
        for modified_ms in times:
            shop.put("a.csv", CONTENT["kept"], modified_ms)
            plan = shop.plan()
            assert not (plan.changed or plan.torn)
            if plan.is_needed:
                moved_landing.accept(plan, by="ada", reason="restored")
            names = landing_folder.of(shop.place, shop_source()).names(FileId(f"{shop.now}/a.csv", modified_ms))
            assert FileId(f"{shop.before}/a.csv", READ_MS) in names


def test_a_zone_that_was_copied_into_a_bucket_is_recognised_by_checksums(tmp_path: Path, s3_server: S3Process) -> None:
    acts = {"x y/f@1#2%é.csv": "touched", "b.csv": "rewritten", "c.csv": "longer", "d.csv": "new", "e.csv": "removed"}
    read = Shop(tmp_path, acts, moved=False)
    bucket = Stores(s3_server.variables)(BucketFolder(s3_server.new_bucket(), "landing"))
    layout = replace(read.layout, landing_root=Address(bucket))
    for key, act in acts.items():
        if act != "removed":
            (layout.landing("shop/orders") / key).put(CONTENT[act])
    place = FlowPlace(layout, "shop", "bronze")

    plan = moved_landing.plan(place, FLOW)

    assert (plan.before, plan.now) == (str(read.before), layout.landing("shop/orders").uri)
    assert (list(plan.recognised), sorted(plan.changed)) == (["x y/f@1#2%é.csv"], ["b.csv", "c.csv"])
    assert (plan.same, plan.new, plan.gone, plan.unproven, plan.torn) == (0, 1, 1, {}, [])
    moved_landing.accept(plan, by="ada", reason="the landing zone is in a bucket now")
    landed = {file.id for file in files.list_files(layout.landing("shop/orders"), "*.csv").files}
    identity = landing_folder.of(place, shop_source()).identity
    known = {*map(identity, landed)}
    assert {key for key in read.read if identity(FileId(f"{read.before}/{key}", READ_MS)) in known} == {
        *plan.recognised
    }


def test_files_without_a_checksum_are_accepted_by_their_number(tmp_path: Path) -> None:
    shop = Shop(tmp_path, {"a.csv": "touched", "b.csv": "touched"}, moved=True, checksums=False)
    with pytest.raises(RequestError, match="accepted are 1") as refused:
        moved_landing.accept(shop.plan(), by="ada", reason="a new disk", unproven=1)
    assert "tidegate landing moved shop bronze --accept --unproven 2 --reason " in refused.value.message
    moved_landing.accept(shop.plan(), by="ada", reason="a new disk", unproven=2)


def test_the_content_that_was_read_last_is_compared(tmp_path: Path) -> None:
    shop = Shop(tmp_path, {"a.csv": "rewritten"}, moved=False)
    row = {
        hidden.PATH: FileId(f"{shop.before}/a.csv", LATER_MS).url,
        hidden.MODIFIED_AT: EPOCH + timedelta(milliseconds=LATER_MS),
        "_size": 5,
        hidden.INGESTED_AT: EPOCH + timedelta(milliseconds=LATER_MS),
        hidden.CHECKSUM: hashlib.sha256(CONTENT["rewritten"]).hexdigest(),
    }
    write_deltalake(shop.layout.table("bronze.shop").uri, pyarrow.Table.from_pylist([row]), mode="append")
    shop.put("a.csv", CONTENT["rewritten"], LATER_MS + 5)
    assert shop.plan().recognised["a.csv"].times == [LATER_MS, LATER_MS + 5]
    shop.put("a.csv", CONTENT["kept"], LATER_MS + 6)
    assert shop.plan().changed == ["a.csv"], "what it had before is in no table any more"
