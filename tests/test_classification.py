"""Every exception becomes a `TidegateError`: by its errno, or by the words of the library that raised it."""

from __future__ import annotations

import errno
import os
import re
import socket
import sqlite3
import ssl
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake.exceptions import DeltaError

from tidegate import errors
from tidegate.errors import LakeUnwritableError, MachineError, MachineUnavailableError, UnexpectedError, classify
from tidegate.errors.causes import BY_NUMBER, CAUSES
from tidegate.errors.classification import accessing, cause_in, raise_machine
from tidegate.errors.error import EXIT_CODES, JVM_EXIT_CODES

TRANSIENT = {
    *("ENOSPC", "EDQUOT", "EROFS", "EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EIO", "ESTALE", "ETIMEDOUT", "ENOTCONN", "EBUSY"),
}  # fmt: skip
TERMINAL = {"EACCES", "EPERM", "ENAMETOOLONG", "ELOOP", "EINVAL", "ENOENT", "ENOTDIR", "EXDEV", "ENOLCK"}


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_every_errno_has_a_cause_with_path_exit_code_and_next_step(number: int) -> None:
    error = classify(OSError(number, os.strerror(number), "/lake/tables/x"))
    name = errno.errorcode[number]

    assert isinstance(error, MachineError)
    assert (error.path, errno.errorcode[number]) == ("/lake/tables/x", error.error)
    assert error.exit_code == (75 if error.transient else 78)
    assert error.transient or name not in TRANSIENT
    assert not (error.transient and name in TERMINAL)
    # What was refused, why, and what to do.
    assert re.fullmatch(rf"cannot access /lake/tables/x: .+ \({name}\)\. [A-Z`].+\.", error.message)


def test_an_errno_has_one_cause() -> None:
    numbers = [number for cause in CAUSES for number in set(cause.numbers())]
    assert len(numbers) == len(set(numbers)) == len(BY_NUMBER)


def real_errors(folder: Path) -> dict[str, Any]:
    """What raises each errno, by a call that fails here for that reason."""
    (folder / "loop").symlink_to(folder / "loop")
    return {
        "ENOSPC": lambda: _write(Path("/dev/full")),
        "ENOENT": lambda: (folder / "none").read_text(),
        "EISDIR": folder.read_text,
        "ENOTDIR": lambda: (Path(__file__) / "x").mkdir(),
        "ELOOP": lambda: (folder / "loop").read_text(),
        "ENAMETOOLONG": lambda: (folder / ("x" * 300)).touch(),
        "EINVAL": lambda: (folder / "link").readlink() if (folder / "link").write_text("") == 0 else None,
    }


def _write(path: Path) -> None:
    with accessing(path, "write"), path.open("w") as file:
        file.write("x" * 100_000)


@pytest.mark.parametrize(
    ("name", "operation"), [("ENOSPC", "write"), ("ENOENT", "open"), ("ENOTDIR", "create"), ("ENAMETOOLONG", "create")]
)
def test_a_message_has_the_operation_where_the_exception_or_its_place_says_it(
    tmp_path: Path, name: str, operation: str
) -> None:
    with pytest.raises(OSError) as raised:  # the errno is checked below
        real_errors(tmp_path)[name]()
    error = classify(raised.value, "flow 'silver'")
    assert isinstance(error, MachineError)
    assert (error.error, error.operation) == (name, operation)
    assert error.message.startswith(f"flow 'silver': cannot {operation or 'access'} {raised.value.filename}: ")


@pytest.mark.parametrize("name", ["EISDIR", "ELOOP", "EINVAL"])
def test_real_errors_of_paths_are_terminal(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError) as raised:  # the errno is checked below
        real_errors(tmp_path)[name]()
    error = classify(raised.value)
    assert isinstance(error, MachineError)
    assert (error.error, error.exit_code) == (name, 78)


class PanicException(BaseException):
    """As delta-rs raises it: no subclass of Exception."""


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (MemoryError(), "ENOMEM"),
        (TimeoutError("timed out"), "ETIMEDOUT"),
        (RuntimeError("can't start new thread"), "EAGAIN"),
        (socket.gaierror(-2, "Name or service not known"), "EHOSTUNREACH"),
        (Exception("External error: Parquet error: … Unable to open file /lake/t/x: … (os error 30)"), "EROFS"),
        (DeltaError("Generic LocalFileSystem error: Unable to open file /lake/t/x: … (os error 24)"), "EMFILE"),
        (OSError("Failed to write: Generic LocalFileSystem error: No space (os error 28)"), "ENOSPC"),
        (PanicException("called `Result::unwrap()` on an `Err` value: Os { code: 24 } (os error 24)"), "EMFILE"),
        (duckdb.IOException('IO Error: Cannot open file "/lake/t/x": Too many open files'), "EMFILE"),
        (duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate data of size 16.0 KiB"), "ENOMEM"),
        (sqlite3.OperationalError("database or disk is full"), "ENOSPC"),
        (sqlite3.OperationalError("disk I/O error"), "EIO"),
        (ImportError("/lib/x.so: cannot open shared object file: Too many open files"), "EMFILE"),
    ],
)
def test_what_libraries_raise_has_the_same_causes(error: BaseException, name: str) -> None:
    cause = classify(error)
    assert isinstance(cause, MachineError)
    assert cause.error == name
    assert cause.__cause__ is error


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("java.io.FileNotFoundException: /lake/x (Permission denied)", "EACCES", "/lake/x"),
        ("java.io.FileNotFoundException: /lake/x (Too many open files)", "EMFILE", "/lake/x"),
        ("java.io.FileNotFoundException: /lake/x (Stale file handle)", "ESTALE", "/lake/x"),
        ("java.nio.file.AccessDeniedException: /lake/y", "EACCES", "/lake/y"),
        ("java.nio.file.FileSystemException: /lake/y: Input/output error", "EIO", "/lake/y"),
        ("org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device", "ENOSPC", ""),
        ("Caused by: org.rocksdb.RocksDBException: IOError(StaleFile)", "ESTALE", ""),
        ("org.rocksdb.RocksDBException: IOError(NoSpace)", "ENOSPC", ""),
        ('java.io.IOException: Cannot run program "chmod": error=12, Cannot allocate memory', "ENOMEM", ""),
        ("ExitCodeException exitCode=1: chmod: changing permissions of '/lake/z': Read-only file system", "EROFS", "/lake/z"),
        ("java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory", "EAGAIN", ""),
        ("java.lang.OutOfMemoryError: Java heap space", "ENOMEM", ""),
        ('Traceback (most recent call last):\n  File "a.py", line 1\nMemoryError\n', "ENOMEM", ""),
        ("Traceback:\npyarrow.lib.ArrowMemoryError: realloc of size 2147483648 failed", "ENOMEM", ""),
        ("There is insufficient memory for the Java Runtime Environment to continue.", "ENOMEM", ""),
        ("org.rocksdb.RocksDBException: While open a file for appending: /tmp/s: Too many open files", "EMFILE", "/tmp/s"),
        ("x\nOSError: [Errno 5] Input/output error: '/landing/a.csv'\n", "EIO", "/landing/a.csv"),
        ("[FAILED_RENAME_TEMP_FILE] Failed to rename temp file /proc/self/none/a to /b as it returned false", None, "/proc/self/none/a"),
        ("Mkdirs failed to create file:/proc/self/none/x (exists=false, cwd=file:/)", None, "/proc/self/none/x"),
    ],
)  # fmt: skip
def test_a_text_of_java_spark_or_python_names_its_cause(text: str, name: str | None, path: str) -> None:
    cause = cause_in(f"Job aborted due to stage failure\n{text}\n\tat …", "flow 'silver'")
    assert isinstance(cause, MachineError)
    assert cause.message.startswith("flow 'silver': ")
    assert name is None or cause.error == name
    assert cause.path == path


@pytest.mark.parametrize(
    "text",
    [
        "[CAST_INVALID_INPUT] The value 'Permission denied' of the type STRING cannot be cast",
        "java.io.FileNotFoundException: /lake/x (No such file or directory)",
        "java.lang.IllegalStateException: No space left on device",
        "ValueError: Too many open files",
        "",
    ],
)
def test_values_of_the_data_and_missing_files_are_no_cause(text: str) -> None:
    assert cause_in(text) is None


def test_a_text_of_java_that_names_no_file_gets_the_folders_that_it_may_be_in_unless_no_file_is_concerned() -> None:
    full, named, heap = (
        cause_in(text, "flow 'gold'", "the lake at /lake")
        for text in (
            "java.io.IOException: No space left on device",
            "java.io.FileNotFoundException: /lake/x (Stale file handle)",
            "java.lang.OutOfMemoryError: Java heap space",
        )
    )
    assert full is not None and named is not None and heap is not None
    assert full.message.startswith(
        "flow 'gold': cannot access a file of the lake at /lake: the file system is full (ENOSPC)."
    )
    assert "cannot access /lake/x: " in named.message
    assert "cannot go on: memory ran out" in heap.message


@pytest.mark.parametrize(
    "error", [ValueError("x\nsecret"), KeyError(), ssl.SSLError(1, "bad certificate"), duckdb.ParserException("no"), OSError()]
)  # fmt: skip
def test_any_other_exception_is_unexpected(error: Exception) -> None:
    unexpected = classify(error, "plan")
    assert type(unexpected) is UnexpectedError
    assert unexpected.exit_code == 70
    assert unexpected.message.startswith(f"plan: {type(error).__name__}")
    assert "secret" not in unexpected.message


def test_an_error_of_the_platform_is_itself() -> None:
    leased = errors.LeaseHeldError("table:x", "another run")
    assert classify(leased, "plan") is leased


@pytest.mark.parametrize("name", ["ENOSPC", "EMFILE", "EIO", "EACCES"])
def test_a_place_that_judges_by_exceptions_passes_those_of_the_machine_on(name: str) -> None:
    number = getattr(errno, name)
    with pytest.raises(MachineError, match=rf"the query: cannot access /x: .*\({name}\)"):
        raise_machine(OSError(number, os.strerror(number), "/x"), "the query")


def test_what_is_there_or_not_is_for_the_place_to_judge() -> None:
    for error in (FileNotFoundError(2, "x", "/x"), IsADirectoryError(21, "x", "/x"), ValueError("x")):
        raise_machine(error, "the query")


def test_every_error_has_an_exit_code_of_the_table() -> None:
    numbers = [each.number for each in EXIT_CODES]
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TidegateError)
    ]
    assert len(numbers) == len(set(numbers))
    assert {kind.exit_code for kind in kinds} <= set(numbers)
    assert not set(numbers) & {each.number for each in JVM_EXIT_CODES}
    assert issubclass(LakeUnwritableError, MachineUnavailableError)


def test_the_reference_has_the_table() -> None:
    text = (Path(__file__).parents[1] / "docs" / "reference" / "cli.md").read_text()
    table = text[text.index("## Exit codes") :].split("\n\n")[1]
    rows = re.findall(r"^\| (\d+) \| (.+) \| .+ \|$", table, re.MULTILINE)
    assert rows == [(str(each.number), each.meaning.replace("|", "\\|")) for each in EXIT_CODES]


def test_the_platform_lists_folders_in_one_way() -> None:
    root = Path(__file__).parents[1]
    listing = re.compile(r"\.r?glob\(|os\.walk\(")
    files = {
        str(path.relative_to(root)) for path in (root / "tidegate").rglob("*.py") if listing.search(path.read_text())
    }
    # The cache of jars and archives, shell completion, the code for executors: nothing that decides what a run does.
    assert files == {
        "tidegate/cli/project.py", "tidegate/runtime/archive.py", "tidegate/runtime/archive_build.py",
        "tidegate/runtime/bytecode.py", "tidegate/runtime/project_archive.py", "tidegate/runtime/repository.py",
            "tidegate/runtime/training.py",
    }  # fmt: skip
