"""The one way from an exception of the machine to a `TidegateError`: the cause by its errno, with path, operation and next step.

Python has the errno. delta-rs, DuckDB, SQLite, Spark and Java have a text, in which the errno stands as a number or as the system's
own words; they are looked for only where these libraries write them, because the rest of a text may quote values of the data.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.errors.causes import BY_NUMBER, OTHER, MachineError
from tidegate.errors.error import TidegateError, UnexpectedError
from tidegate.errors.extras import missing_package
from tidegate.errors.object_storage import ObjectStorageRefusal, refusal_in

_NUMBER = re.compile(r"\(os error (\d+)\)|\[Errno (\d+)\]|\berror=(\d+),")
"""As Rust, Python and Java (of a program that it cannot start) write an errno."""
_SAYS = re.compile(
    r"(?:java\.(?:io|nio\.file)\.\w+|ExitCodeException exitCode=\d+|IO Error|IOException|RocksDBException"
    r"|OSError|ImportError|OperationalError): [^\n]*"
    r"|(?m:^)(?:[\w.]+\.)?(?:Arrow)?MemoryError\b[^\n]*"
    r"|java\.lang\.OutOfMemoryError[^\n]*|(?:Mkdirs failed to create|Failed to rename temp file) [^\n]*"
    r"|[^\n]*insufficient memory for the Java Runtime[^\n]*"
)
"""What Java, Hadoop, DuckDB, SQLite and Python say about files."""
_PATH = re.compile(r"(?:^|(?<=[\s'\"(:=]))((?:s3a?:/)?/[^\s'\"#,;:()\[\]]+)")
_WORDS = {os.strerror(number): number for number in BY_NUMBER if number not in (errno.ENOENT, errno.EINTR)} | {
    "AccessDeniedException": errno.EACCES,
    "unable to create native thread": errno.EAGAIN,
    "OutOfMemoryError": errno.ENOMEM,
    "MemoryError": errno.ENOMEM,
    "insufficient memory for the Java Runtime": errno.ENOMEM,
    "database or disk is full": errno.ENOSPC,
    "disk I/O error": errno.EIO,
    "attempt to write a readonly database": errno.EROFS,
    "unable to open database file": errno.EACCES,
    "IOError(StaleFile)": errno.ESTALE,
    "IOError(NoSpace)": errno.ENOSPC,
}
_OF_PATH = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP, errno.ENAMETOOLONG}
)
"""What is there is not what was expected."""
_WITHOUT_FILE = frozenset({errno.ENOMEM, errno.EAGAIN})
"""The process lacks memory or a thread, whatever file it had open."""
_OF_STORAGE = ("deltalake", "_internal", "duckdb", "_duckdb", "sqlite3", "pyarrow")
_OPERATIONS = {
    **dict.fromkeys(("open", "open_code", "lockf"), "open"),
    **{"mkdir": "create", "makedirs": "create", "replace": "rename", "rename": "rename", "unlink": "remove"},
    **{"rmdir": "remove", "rmtree": "remove", "stat": "read", "exists": "read", "is_dir": "read", "is_file": "read"},
    **{
        "iterdir": "list",
        "scandir": "list",
        "touch": "create",
        "link": "create",
        "Popen": "start",
        "_execute_child": "start",
    },
}
"""What functions of the standard library do to a path, for an error that does not say it."""


def classify(error: BaseException, what: str = "", within: str = "") -> TidegateError:
    """The `TidegateError` for any exception: itself, a missing package, the cause that the operating system gives, or an `UnexpectedError`.

    Args:
        error: The exception.
        what: Names the work in the message, for example ``flow 'silver'``.
        within: As for `cause_in`: Python's errors of writing and reading have no path, either.
    """
    if isinstance(error, TidegateError):
        return error
    number, text = _errno_of(error), str(error)
    classified: TidegateError
    if (missing := missing_package(error)) is not None:
        classified = missing
    elif isinstance(error, ObjectStorageRefusal):
        classified = error.described(what)
    elif (refusal := _refusal_of(error)) is not None:
        # Without the exception, whose text has the server's answer.
        return refusal.described(what)
    elif number is None:
        named = type(error).__name__ + (f": {text.splitlines()[0][:500]}" if text else "")
        classified = UnexpectedError(f"{what}: {named}" if what else named, None)
    else:
        classified = _describe(number, what, path=_path_of(error), operation=_operation_of(error), within=within)
    classified.__cause__ = error
    return classified


@contextmanager
def accessing(path: object, operation: str) -> Iterator[None]:
    """Name path and operation in every error of the system: Python has no path in those of writing and reading."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        if not hasattr(error, "operation"):
            error.operation = operation  # type: ignore[attr-defined]  # `classify` reads it
        raise


def cause_in(text: str, what: str = "", within: str = "") -> TidegateError | None:
    """The `TidegateError` for the first cause that a text of Spark, Java, Rust or Python names; None if it names none.

    Args:
        text: The text.
        what: As for `classify`.
        within: The folders in one of which the file is if the text does not name it: Java's text of a failed write does not.
    """
    if (refusal := refusal_in(text, within)) is not None:
        return refusal.described(what)
    for match in _SAYS.finditer(text):
        number = next((number for words, number in _WORDS.items() if words in match[0]), None)
        path = next(iter(_PATH.findall(match[0])), "")
        if number is None and match[0].startswith(("Mkdirs failed", "Failed to rename")):
            number = _why_unwritable(path)
        if number is not None:
            return _describe(number, what, path=path, within=within)
    for match in _NUMBER.finditer(text):
        number = int(next(filter(None, match.groups())))
        if number in BY_NUMBER and number != errno.ENOENT:
            line = text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
            return _describe(number, what, path=next(iter(_PATH.findall(line)), ""), within=within)
    return None


def is_of_machine(error: BaseException) -> bool:
    """Whether an exception says something about the machine, which another attempt may find in another state."""
    return _errno_of(error) is not None


def raise_machine(error: BaseException, what: str = "") -> None:
    """Raise the `TidegateError` of an exception by which the machine refuses something, unless it is about the path itself.

    For a place that takes exceptions as a judgement about a file or a query, which no other exception of the machine is.
    """
    number = _errno_of(error)
    if (number is not None and number not in _OF_PATH) or missing_package(error) is not None:
        classified = classify(error, what)
        raise classified from classified.__cause__


def is_transient(error: OSError) -> bool:
    """Whether the operating system may accept later what it refused now."""
    cause = error.cause if isinstance(error, ObjectStorageRefusal) else BY_NUMBER.get(error.errno or 0, OTHER)
    return cause.kind.transient


def says_nothing_about_file(error: OSError) -> bool:
    """Whether an error of reading a file would have come with another file as well, so that none may be judged by it.

    A file system denies permission for a file. An object store denies it to an identity, and does not always say whether it knows that.
    """
    of_storage = isinstance(error, ObjectStorageRefusal) and error.errno not in _OF_PATH | {errno.EILSEQ}
    return of_storage or is_transient(error)


def _describe(number: int, what: str, *, path: str, operation: str = "", within: str = "") -> MachineError:
    cause, name = BY_NUMBER.get(number, OTHER), errno.errorcode.get(number, str(number))
    file = path or (f"a file of {within}" if within and number not in _WITHOUT_FILE else "")
    act = f"cannot {operation or 'access'} {file}" if file else f"cannot {operation or 'go on'}"
    problem = f"{what + ': ' if what else ''}{act}: {cause.meaning} ({name})."
    return cause.kind(problem, cause.next_step, path=path, operation=operation, error=name)


def _errno_of(error: BaseException) -> int | None:
    module, text = type(error).__module__.partition(".")[0], str(error)
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, OSError) and module in ("builtins", "shutil", "tidegate"):
        if error.errno is not None:
            return error.errno
        if isinstance(error, TimeoutError):
            return errno.ETIMEDOUT
    if type(error).__name__ == "gaierror":
        return errno.EHOSTUNREACH
    if isinstance(error, RuntimeError) and text.startswith("can't start new thread"):
        return errno.EAGAIN
    if (refusal := _refusal_of(error)) is not None:
        return refusal.errno
    if not _is_of_storage(error) and not isinstance(error, (OSError, ImportError)):
        return None
    if "Out of Memory Error" in text:
        return errno.ENOMEM
    numbers = (int(next(filter(None, match.groups()))) for match in _NUMBER.finditer(text))
    written = next((number for number in numbers if number in BY_NUMBER), None)
    return written if written is not None else next((number for words, number in _WORDS.items() if words in text), None)


def _is_of_storage(error: BaseException) -> bool:
    """Whether a library that reads and writes files raised an exception whose text is all that it says."""
    # DataFusion in delta-rs raises a bare Exception.
    of_data_fusion = type(error) is Exception and str(error).startswith("External error: ")
    of_library = type(error).__module__.partition(".")[0] in _OF_STORAGE
    return of_library or of_data_fusion or type(error).__name__ == "PanicException"


def _refusal_of(error: BaseException) -> ObjectStorageRefusal | None:
    """The refusal of an object store in the text of an exception of delta-rs, which may be an OSError without an errno."""
    without_number = isinstance(error, OSError) and error.errno is None
    return refusal_in(str(error)) if without_number or _is_of_storage(error) else None


def _path_of(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        name = error.filename
        return os.fsdecode(name) if isinstance(name, (str, bytes)) else str(name)
    if isinstance(error, MemoryError):
        return ""
    return next(iter(_PATH.findall(str(error))), "")


def _operation_of(error: BaseException) -> str:
    operation = getattr(error, "operation", "")
    frame = error.__traceback__
    while frame is not None and not operation:
        last, frame = frame.tb_frame.f_code.co_name, frame.tb_next
        if frame is None:
            operation = _OPERATIONS.get(last, "")
    return str(operation)


def _why_unwritable(path: str) -> int:
    """Why a folder could not be created, or a file in it renamed; Java does not say it."""
    parent = Path(path).parent
    while not os.access(parent, os.F_OK) and parent != parent.parent:
        parent = parent.parent
    try:
        system = os.statvfs(parent)
    except OSError as error:
        return error.errno or errno.EIO
    if system.f_flag & os.ST_RDONLY:
        return errno.EROFS
    if not system.f_bavail or (system.f_files and not system.f_favail):
        return errno.ENOSPC
    return errno.EIO if os.access(parent, os.W_OK) else errno.EACCES
