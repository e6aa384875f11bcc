"""System calls that fail in processes of a test, as on a full, lost or forbidden disk.

`chaos/refused_calls.c` is compiled and preloaded (``LD_PRELOAD``): Python, delta-rs, DuckDB and the JVM all call the C library. What is
refused is in a file that the library reads at each call, so that a process that runs meets an error and later none. The library
logs the calls below one folder; so a test first learns which files there are, and then refuses each call of each of them.
"""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CALLS = ("open", "write", "fsync", "rename")
CALLS_OF_FOLDERS = ("create", "remove", "list", "stat")
"""Calls that are logged and refused in processes with `RefusedCalls.variables_of_folders` only."""
ERRORS = ("ENOSPC", "EACCES", "EROFS", "EMFILE", "EIO", "ESTALE")
_SOURCE = Path(__file__).parent / "chaos" / "refused_calls.c"
_VARIABLE = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|a?\d{8}T\d{6}-[0-9a-f-]+|(?<=/)[0-9a-f]{2}(?=/)|\d+|-c000|[._]?tmp\w*|\.(draft|crc)\b|[0-9a-f]{6,}"
)


@dataclass(frozen=True, order=True)
class Call:
    """A system call on a kind of file."""

    name: str
    """One of `CALLS` or `CALLS_OF_FOLDERS`."""
    kind: str
    """Of file: a path below the folder, with ``*`` for numbers and ids."""


@dataclass(frozen=True)
class RefusedCalls:
    """The preloaded library, and what it refuses."""

    library: Path
    control: Path
    root: Path
    """Only calls on files below it are logged and refused."""

    @classmethod
    def build(cls, folder: Path, root: Path) -> RefusedCalls:
        """Compile the library in this folder.

        Raises:
            FileNotFoundError: There is no C compiler.
        """
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise FileNotFoundError("there is no C compiler")
        library = folder / "refused_calls.so"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True)
        calls = cls(library, folder / "refused_calls", root)
        calls.allow()
        return calls

    @property
    def variables(self) -> dict[str, str]:
        """Of the environment of a process that meets these errors."""
        return {"LD_PRELOAD": str(self.library), "REFUSED_CALLS": str(self.control)}

    @property
    def variables_of_folders(self) -> dict[str, str]:
        """Of the environment of a process that meets errors of `CALLS_OF_FOLDERS`, too."""
        return {**self.variables, "REFUSED_CALLS_OF_FOLDERS": "1"}

    @property
    def log(self) -> Path:
        """The calls since `allow` or `refuse`."""
        return self.control.with_name(self.control.name + ".log")

    def allow(self) -> None:
        """Refuse nothing, and forget the calls."""
        self._write_control(0, "none", "none")

    @contextmanager
    def refuse(self, call: Call, error: str) -> Iterator[None]:
        """Refuse this call on this kind of file with an error, for example ``ENOSPC``."""
        self._write_control(getattr(errno, error), call.name, f"{self.root}/{call.kind}")
        try:
            yield
        finally:
            self._write_control(0, "none", "none", forget=False)

    def logged(self) -> list[tuple[str, Call]]:
        """``refused`` or ``passed``, and the call."""
        lines = self.log.read_text("utf-8").splitlines() if self.log.exists() else []
        parts = (line.split(" ", 2) for line in lines)
        return [(outcome, Call(name, kind_of(Path(path).relative_to(self.root)))) for outcome, name, path in parts]

    def calls(self) -> list[Call]:
        """The different calls since `allow` or `refuse`, in a fixed order."""
        return sorted({call for _, call in self.logged()})

    def refused(self) -> int:
        """How many calls were refused."""
        return sum(outcome == "refused" for outcome, _ in self.logged())

    def _write_control(self, number: int, call: str, pattern: str, *, forget: bool = True) -> None:
        if forget:
            self.log.unlink(missing_ok=True)
        written = self.control.with_name("refused_calls.new")
        written.write_text(f"{number} {call} {self.root} {pattern}\n", encoding="utf-8")
        written.rename(self.control)


def kind_of(path: Path) -> str:
    """The kind of a file: its path, with ``*`` for what differs from run to run."""
    return re.sub(r"\*+([-.]?\*+)*", "*", _VARIABLE.sub("*", str(path)))
