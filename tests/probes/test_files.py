"""A landing folder is listed as Spark lists it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.checkpoints import progress
from tidegate.errors import SourceError
from tidegate.lake.layout import Layout
from tidegate.probes.files import estimate_rows, glob_pattern, is_hidden, list_files
from tidegate.sources.files import MAX_FILE_AGE_DAYS
from tidegate.spec import FileSource
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CSV = FileSource(path="x", format="csv", schema="a INT").glob
READ = (
    "plain.csv", "a?b.csv", "a*b.csv", "d[1].csv", "e{1}.csv", "back\\slash.csv", "sp ace.csv", "pct%20x.csv",
    "nl\nx.csv", "plus+.csv", "hash#.csv", "üñí.csv", "colon:x.csv", "amp&=;,.csv", "semi'quo\"te.csv", "tab\tx.csv",
    "caret^~`|<>.csv", "sub/in.csv", "dir.csv/in.csv", "k=v/in.csv", "_k=v/in.csv", "_a=b.csv", "empty.csv", "q.csv.gz",
    "_metadata.csv",
)  # fmt: skip
IGNORED = (
    "_hidden.csv", ".dot.csv", "x.tmp", "y.csv.tmp", "z.csv._COPYING_", "UPPER.CSV", "_sub/in.csv", ".sub/in.csv",
    "sub/_deep/in.csv",
)  # fmt: skip


def land(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("" if name == "empty.csv" else "a\n1\n")


def test_hidden_and_unmatched_names_are_ignored_and_counted(tmp_path: Path) -> None:
    land(tmp_path, *READ, *IGNORED)
    listing = list_files(Address.local(tmp_path), CSV)
    assert {os.path.relpath(file.path, tmp_path) for file in listing.files} == set(READ)
    assert listing.ignored == len(IGNORED)
    assert listing.unmatched == 3, "x.tmp, y.csv.tmp and UPPER.CSV are not hidden"


def test_a_listed_file_has_its_size_and_its_time_in_milliseconds_rounded_down(tmp_path: Path) -> None:
    land(tmp_path, "a.csv")
    os.utime(tmp_path / "a.csv", ns=(0, 1_700_000_000_123_999_999))
    (file,) = list_files(Address.local(tmp_path), CSV).files
    assert (file.path, file.size, file.modified_ms) == (str(tmp_path / "a.csv"), 4, 1_700_000_000_123)


def test_paths_are_normalized(tmp_path: Path) -> None:
    land(tmp_path, "in/a.csv")
    landing = Layout.local(tmp_path, tmp_path / "in" / ".." / "in").landing_root
    (file,) = list_files(landing, CSV).files
    assert file.path == str(tmp_path / "in" / "a.csv")


def test_the_error_for_a_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist; create it") as raised:
        list_files(Address.local(tmp_path / "missing"), CSV)
    assert str(tmp_path / "missing") in raised.value.message
    assert not raised.value.transient


def test_a_file_instead_of_a_folder_is_an_error(tmp_path: Path) -> None:
    land(tmp_path, "a.csv")
    with pytest.raises(SourceError, match="is a file"):
        list_files(Address.local(tmp_path / "a.csv"), CSV)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir(mode=0)
    with pytest.raises(SourceError, match="cannot be read"):
        list_files(Address.local(tmp_path / "in"), CSV)
    with pytest.raises(SourceError, match="cannot be read"):
        list_files(Address.local(tmp_path), CSV)


def test_links_are_followed_and_broken_links_are_omitted(tmp_path: Path) -> None:
    land(tmp_path / "elsewhere", "a.csv")
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "there").symlink_to(tmp_path / "elsewhere")
    (landing / "b.csv").symlink_to(tmp_path / "elsewhere" / "a.csv")
    (landing / "broken.csv").symlink_to(tmp_path / "missing.csv")
    (landing / "itself.csv").symlink_to(landing / "itself.csv")
    (landing / ".hidden").mkdir()
    (landing / ".hidden" / "up").symlink_to(landing)
    paths = [os.path.relpath(file.path, landing) for file in list_files(Address.local(landing), CSV).files]
    assert paths == ["b.csv", "there/a.csv"]


def test_a_link_to_a_parent_folder_is_an_error(tmp_path: Path) -> None:
    land(tmp_path, "in/a.csv")
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    with pytest.raises(SourceError, match="one of its parent folders"):
        list_files(Address.local(tmp_path), CSV)


def test_a_name_that_is_not_utf8_is_ignored(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")).write_text("a\n1\n")
    listing = list_files(Address.local(tmp_path), CSV)
    assert (listing.files, listing.ignored) == ((), 1)


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("*.{csv,csv.gz}", ["a.csv", ".csv", "a\nb.csv", "a.csv.gz"], ["a.csvx", "acsv", "a.csv.bz2", "A.CSV"]),
        ("a?.csv", ["ab.csv", "a?.csv"], ["a.csv", "abc.csv"]),
        ("[a-c]*", ["b", "cat"], ["d", ""]),
        ("[!a]x", ["bx"], ["ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("a,b", ["a,b"], ["a", "b"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["b", "ad"]),
        ("\\*.csv", ["*.csv"], ["a.csv"]),
        ("a}b", ["a}b"], ["ab"]),
        ("a+(b)|$.^", ["a+(b)|$.^"], ["aab"]),
    ],
)
def test_globs_match_as_in_hadoop(glob: str, matching: list[str], other: list[str]) -> None:
    pattern = glob_pattern(glob)
    assert [name for name in (*matching, *other) if pattern.fullmatch(name)] == matching


@pytest.mark.parametrize("glob", ["*.{csv", "[a"])
def test_an_unfinished_glob_is_refused(glob: str) -> None:
    with pytest.raises(SourceError, match="invalid glob"):
        glob_pattern(glob)


def test_the_exceptions_of_spark_to_hidden_names_apply() -> None:
    assert [
        name for name in ("_a", ".a", "a._COPYING_", "_a=1", "_metadata", "_common_metadata.x", "a") if is_hidden(name)
    ] == [
        "_a",
        ".a",
        "a._COPYING_",
    ]


def test_rows_are_estimated_from_samples_compressed_or_not(tmp_path: Path) -> None:
    lines = "".join(f"{number:07d},some,text\n" for number in range(20_000))
    (tmp_path / "a.csv").write_text(lines)
    with gzip.open(tmp_path / "b.csv.gz", "wt") as packed:
        packed.write(lines)
    listing = list_files(Address.local(tmp_path), CSV)
    for file in listing.files:
        estimate = estimate_rows(Address.local(tmp_path), (file,), has_header=True)
        assert estimate is not None
        assert estimate == pytest.approx(19_999, rel=0.25), file.path
    (tmp_path / "b.csv.gz").write_bytes(b"not gzip")
    bad = tuple(file for file in list_files(Address.local(tmp_path), CSV).files if file.path.endswith(".gz"))
    assert estimate_rows(Address.local(tmp_path), bad, has_header=True) is None


def test_empty_files_have_no_rows(tmp_path: Path) -> None:
    land(tmp_path, "empty.csv")
    assert estimate_rows(Address.local(tmp_path), list_files(Address.local(tmp_path), CSV).files, has_header=True) in (
        None,
        0,
    )


@pytest.mark.jvm
def test_a_stream_lists_the_same_files(spark: SparkSession, tmp_path: Path) -> None:
    landing, checkpoint = tmp_path / "land[1] {x}", tmp_path / "checkpoint"
    land(landing, *READ, *IGNORED)
    _run_stream(spark, landing, checkpoint)
    for number in range(11):  # beyond the tenth listing, which Spark compacts
        land(landing, f"later{number}.csv")
    _run_stream(spark, landing, checkpoint)

    listing, read = list_files(Address.local(landing), CSV), progress.source_files(Address.local(checkpoint))
    listed = {file.path: file.modified_ms for file in listing.files}
    assert {file.path: file.modified_ms for file in read} == listed
    assert (len(listed), listing.ignored) == (len(READ) + 11, len(IGNORED))
    assert (checkpoint / "sources" / "0" / "9.compact").exists()
    last = progress.read(Address.local(checkpoint)).last_committed
    assert last is not None
    assert [
        file for batch in range(last + 1) for file in progress.batch_files(Address.local(checkpoint), batch)
    ] == read


def _run_stream(spark: SparkSession, landing: Path, checkpoint: Path) -> None:
    from tidegate.spark.intake.landing import glob_escaped

    def ignore(batch: DataFrame, batch_id: int) -> None:
        pass

    (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length bigint, content binary")
        .option("pathGlobFilter", CSV)
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", 3)
        .option("maxFileAge", f"{MAX_FILE_AGE_DAYS}d")
        .load(glob_escaped(str(landing)))
        .select("path", "length", "modificationTime")
        .writeStream.foreachBatch(ignore)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
