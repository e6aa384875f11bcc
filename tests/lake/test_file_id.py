"""The identity of a file is the same as a value, as a text and in SQL."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.lake import file_id
from tidegate.lake.file_id import FileId

pytestmark = pytest.mark.slow

NAMES = st.text(
    st.one_of(st.sampled_from("@#% +:?;é/ü日"), st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    min_size=1,
)
PATHS = st.tuples(st.sampled_from(["/landing/", "/a b@1/", "s3://bucket/"]), NAMES).map("".join)
CONNECTION = duckdb.connect()
TIMES = st.integers(-(10**12), 253_402_300_799_999)


@given(PATHS, TIMES)
def test_the_text_of_a_file_is_parsed_into_the_same_file(path: str, modified_ms: int) -> None:
    file = FileId(path, modified_ms)
    assert FileId.parse(str(file)) == file


@given(PATHS, TIMES)
def test_the_columns_of_bronze_name_the_same_file(path: str, modified_ms: int) -> None:
    modified_at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=modified_ms)
    file = FileId(path, modified_ms)
    assert FileId.of_bronze(file.url, modified_at) == file


@given(
    PATHS,
    st.sampled_from(["file:", "file://"]),
    st.sampled_from(["s3", "s3a"]),
    st.sampled_from(["", "*+&=;,:", "é日"]),
)
def test_the_uris_of_spark_name_the_same_path(path: str, local: str, bucket: str, unencoded: str) -> None:
    encoded = quote(path.removeprefix("s3:"), safe=f"/{unencoded}")
    assert file_id.path_of_spark(f"{bucket}:{encoded}" if path.startswith("s3:") else local + encoded) == path


@given(PATHS)
def test_sql_names_the_same_path(path: str) -> None:
    sql = f"SELECT {file_id.path_sql('$url')}"
    (row,) = CONNECTION.execute(sql, {"url": FileId(path, 0).url}).fetchall()
    assert row == (path,)


@pytest.mark.parametrize("path", ["/a@b/c.csv", "/a@5", "/a#1@2.csv"])
def test_a_path_may_have_the_separators_of_the_text(path: str) -> None:
    assert FileId.parse(f"{path}@1767225600000") == FileId(path, 1_767_225_600_000)


def test_paths_with_times_are_files() -> None:
    assert file_id.of_paths({"/a.csv": 1, "/b.csv": 2}) == [FileId("/a.csv", 1), FileId("/b.csv", 2)]


def test_no_other_module_builds_or_parses_the_text() -> None:
    pattern = re.compile(r"""partition\(["']@["']\)|split\(["']@["']|\}@|concat_ws\(["']@["']|file:/""")
    package = Path(file_id.__file__).parents[1]
    using = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if pattern.search(path.read_text("utf-8"))
    }
    # URLs of files that a person names, and requirements of pip.
    scaffolding = {"scaffolding/job_packages.py", "scaffolding/pipeline_files.py"}
    assert using - scaffolding - {"lake/file_id.py", "environment/registry.py", "store/location.py"} == set()
