"""The local file system of tests: what Hadoop's own does, without starting a process for each file."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.testing import local_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


@pytest.fixture
def hadoop(spark: SparkSession) -> Any:
    assert spark._jvm is not None
    return spark._jvm.org.apache.hadoop


@pytest.fixture
def conf(spark: SparkSession) -> Any:
    return spark._jsc.hadoopConfiguration()


def own(hadoop: Any, conf: Any) -> Any:
    """Hadoop's own local file system without checksums."""
    files = hadoop.fs.RawLocalFileSystem()
    files.initialize(hadoop.fs.Path("file:///").toUri(), conf)
    return files


def test_file_systems_and_contexts_of_the_session_make_system_calls(hadoop: Any, conf: Any) -> None:
    files = hadoop.fs.FileSystem.get(hadoop.fs.Path("file:///").toUri(), conf)
    context = hadoop.fs.FileContext.getFileContext(conf).getDefaultFileSystem()

    assert files.getRaw().getClass().getName() == f"{local_files.PACKAGE}.SystemCalls$Raw"
    assert context.getClass().getName() == f"{local_files.PACKAGE}.SystemCalls$Context"
    assert context.getClass().getSuperclass().getName() == f"{local_files.PACKAGE}.LocalFs", "which Spark looks for"


@pytest.mark.parametrize("mode", ["640", "755", "000", "777"])
def test_files_have_the_permissions_that_hadoop_gives_them(hadoop: Any, conf: Any, tmp_path: Path, mode: str) -> None:
    files = hadoop.fs.FileSystem.get(hadoop.fs.Path("file:///").toUri(), conf)
    modes = []
    for name, each in (("one", files.getRaw()), ("other", own(hadoop, conf))):
        path = tmp_path / name
        path.touch()
        each.setPermission(hadoop.fs.Path(f"file:{path}"), hadoop.fs.permission.FsPermission(mode))
        modes.append(stat.S_IMODE(path.stat().st_mode))
    assert modes == [int(mode, 8)] * 2


def test_a_file_that_is_renamed_in_a_context_keeps_its_content_and_checksum(
    hadoop: Any, spark: SparkSession, conf: Any, tmp_path: Path
) -> None:
    context = hadoop.fs.FileContext.getFileContext(conf)
    (draft, final) = (hadoop.fs.Path(f"file:{tmp_path / name}") for name in ("draft", "final"))
    files = hadoop.fs.FileSystem.get(draft.toUri(), conf)
    files.create(draft).close()
    assert {path.name for path in tmp_path.iterdir()} == {"draft", ".draft.crc"}
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    options = gateway.new_array(hadoop.fs.Options.Rename, 0)

    context.rename(draft, final, options)

    assert {path.name for path in tmp_path.iterdir()} == {"final", ".final.crc"}
    files.create(draft).close()
    with pytest.raises(Exception, match="FileAlreadyExistsException"):
        context.rename(draft, final, options)
    with pytest.raises(Exception, match="FileNotFoundException"):
        context.getFileLinkStatus(hadoop.fs.Path(f"file:{tmp_path / 'missing'}"))
