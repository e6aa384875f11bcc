"""Every error of the operating system that has a meaning of its own: what it means, whether it may go away, and the next step."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from tidegate.advice import Advice, OutsideAct
from tidegate.errors.error import EX_CONFIG, EX_TEMPFAIL, TidegateError


class SetupError(TidegateError):
    """A prerequisite of this machine is missing or has the wrong version (Java, jars, an Airflow home)."""

    exit_code = EX_CONFIG


class SettingsError(SetupError):
    """`tidegate.toml` is invalid, or lacks the environment that is selected. Nothing was read from it.

    Args:
        problem: What is wrong.
        advice: What to do about it.
        file: The file.
        line: The line on which it is.
    """

    def __init__(self, problem: str, advice: Advice | None = None, *, file: PurePath, line: int = 1) -> None:
        super().__init__(f"{file}:{line}: {problem}", advice)
        self.file = str(file)
        self.line = line


class MissingJavaError(SetupError):
    """Java is not installed on this machine, or is too old."""


class AirflowUnavailableError(SetupError):
    """The API server of the project's Airflow does not respond, or not yet."""

    transient = True
    exit_code = EX_TEMPFAIL


class MachineError(TidegateError):
    """The operating system refused something, and refuses it again until a person acts: a permission, a path, a kind of file.

    Args:
        problem: What was refused.
        advice: What to do about it.
        path: The file or folder, as far as it is known.
        operation: What was to be done to it: ``write``, ``rename``, …
        error: The name of the system's error, for example ``EACCES``.
    """

    exit_code = EX_CONFIG

    def __init__(
        self, problem: str, advice: Advice | None = None, *, path: str = "", operation: str = "", error: str = ""
    ) -> None:
        super().__init__(problem, advice)
        self.path = path
        self.operation = operation
        self.error = error


class MachineUnavailableError(MachineError):
    """The operating system refused something that it may do later: memory or open files ran out, or storage does not answer."""

    transient = True
    exit_code = EX_TEMPFAIL


class LakeUnwritableError(MachineUnavailableError):
    """A file system rejects writes, because it is full or read-only. What was committed is unchanged."""


_AGAIN = "then run again: what was committed stays"


@dataclass(frozen=True)
class Cause:
    """What some errors of the operating system mean."""

    errors: tuple[str, ...]
    """Their names in ``errno``; this machine may lack some of them."""
    meaning: str
    kind: type[MachineError]
    next_step: OutsideAct

    def numbers(self) -> Iterator[int]:
        """The errors that this machine has."""
        return (getattr(errno, name) for name in self.errors if hasattr(errno, name))


CAUSES = (
    Cause(("ENOSPC",), "the file system is full", LakeUnwritableError, OutsideAct(f"free space there, {_AGAIN}")),
    Cause(
        ("EDQUOT",),
        "the disk quota is used up",
        LakeUnwritableError,
        OutsideAct(f"free space there or raise the quota, {_AGAIN}"),
    ),
    Cause(
        ("EROFS",),
        "the file system is read-only",
        LakeUnwritableError,
        OutsideAct(f"mount it writable (Linux makes a damaged disk read-only, its log says why), {_AGAIN}"),
    ),
    Cause(
        ("EMFILE",),
        "the process has too many open files",
        MachineUnavailableError,
        OutsideAct(f"raise the limit (`ulimit -n`, or LimitNOFILE of the service), {_AGAIN}"),
    ),
    Cause(
        ("ENFILE",),
        "the machine has too many open files",
        MachineUnavailableError,
        OutsideAct(f"end other processes or raise fs.file-max, {_AGAIN}"),
    ),
    Cause(
        ("ENOMEM",),
        "memory ran out",
        MachineUnavailableError,
        OutsideAct(f"free memory, or change TIDEGATE_DRIVER_MEMORY (Spark's share), {_AGAIN}"),
    ),
    Cause(
        ("EAGAIN",),
        "the system has no process, thread or lock left",
        MachineUnavailableError,
        OutsideAct(f"end other processes or raise the limit (`ulimit -u`, pids.max of the container), {_AGAIN}"),
    ),
    Cause(
        ("EIO", "EREMOTEIO"),
        "the storage reports an input/output error",
        MachineUnavailableError,
        OutsideAct(
            f"look for the disk or the mount in the system's log, {_AGAIN}. If only this file fails, restore it; "
            "a landed file can be skipped (tidegate flow skip)"
        ),
    ),
    Cause(
        ("ESTALE",),
        "its network file system no longer knows it",
        MachineUnavailableError,
        OutsideAct(f"mount the file system again, {_AGAIN}"),
    ),
    Cause(
        (
            *("ETIMEDOUT", "ENOTCONN", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ENETRESET"),
            *("ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "ESHUTDOWN", "EPIPE", "ECOMM", "ENOLINK"),
        ),
        "a network file system or a server does not answer",
        MachineUnavailableError,
        OutsideAct(f"check the network, the server and the mount, {_AGAIN}"),
    ),
    Cause(
        ("ENODEV", "ENXIO", "ENOMEDIUM"),
        "its device is gone",
        MachineUnavailableError,
        OutsideAct(f"attach and mount it again, {_AGAIN}"),
    ),
    Cause(
        ("EBUSY", "ETXTBSY", "EDEADLK", "EINTR"),
        "something else uses it",
        MachineUnavailableError,
        OutsideAct(f"wait for the other process or end it, {_AGAIN}"),
    ),
    Cause(
        ("EACCES", "EPERM"),
        "permission is denied",
        MachineError,
        OutsideAct(
            "give the user that runs this permission to read and write there (owner, mode, ACL), then run again"
        ),
    ),
    Cause(
        ("ENOLCK", "ENOSYS", "EOPNOTSUPP", "ENOTSUP"),
        "the file system does not offer this",
        MachineError,
        OutsideAct(
            "put the lake on a file system with POSIX locks, hard links and atomic renames (NFS: with its lock service), then run again"
        ),
    ),
    Cause(
        ("EXDEV",),
        "the two paths are on different file systems",
        MachineError,
        OutsideAct("keep a lake on one file system"),
    ),
    Cause(
        ("ENAMETOOLONG",),
        "the name is too long",
        MachineError,
        OutsideAct("shorten the path or the file's name, then run again"),
    ),
    Cause(
        ("ELOOP",),
        "its symbolic links form a loop",
        MachineError,
        OutsideAct("remove or correct the link, then run again"),
    ),
    Cause(
        ("ENOENT",),
        "it does not exist",
        MachineError,
        OutsideAct(
            "restore it, or correct the setting that names it. If nothing has removed it, this is a bug: report it"
        ),
    ),
    Cause(
        ("ENOTDIR", "EISDIR", "EEXIST", "ENOTEMPTY"),
        "there is something else of that name",
        MachineError,
        OutsideAct("move away what does not belong there, then run again"),
    ),
    Cause(
        ("EFBIG", "EOVERFLOW"),
        "the file is larger than allowed",
        MachineError,
        OutsideAct("raise the limit (`ulimit -f`), or use another file system, then run again"),
    ),
    Cause(
        ("EINVAL", "ERANGE", "EDOM"),
        "the system does not accept a value, possibly a time",
        MachineError,
        OutsideAct("check this machine's clock and the file system. If both are right, this is a bug: report it"),
    ),
)
OTHER = Cause(
    (),
    "the operating system refused it",
    MachineError,
    OutsideAct("look into the system's log; if it says nothing, report it"),
)
BY_NUMBER = {number: cause for cause in CAUSES for number in cause.numbers()}
