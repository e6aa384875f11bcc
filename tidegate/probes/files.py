"""What lies in a landing folder, listed by the rules of Spark's file source.

The rules are those of ``readStream.format("binaryFile")`` with ``recursiveFileLookup`` and ``pathGlobFilter``: Spark's
``HadoopFSUtils.shouldFilterOutPathName`` hides names of files and of folders, Hadoop's ``GlobPattern`` reads the glob.
"""

from __future__ import annotations

import bz2
import os
import re
import stat
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tidegate.errors import SourceError

if TYPE_CHECKING:
    from tidegate.window import Window

_SAMPLE_BYTES = 64 * 1024
_SAMPLED_FILES = 3


@dataclass(frozen=True, kw_only=True)
class LandedFile:
    """One file that the stream would list."""

    path: str
    """The local path, as Spark's source log names it once decoded."""
    size: int
    """Bytes as they lie there, compressed or not."""
    modified_ms: int
    """Milliseconds since 1970, rounded down as Java does."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A landing folder at one moment."""

    files: tuple[LandedFile, ...]
    """What the stream would list, sorted by path."""
    ignored: int
    """Files that lie there too and that the stream does not see: hidden names, or names that do not fit the glob."""
    unfit: int
    """Of these, such as are not hidden."""
    special: int = 0
    """Entries that fit the glob and are no regular files: pipes, sockets, devices. Opening one may wait for ever."""


def list_files(folder: Path, glob: str) -> Listing:
    """List a landing folder and all folders in it.

    A file that vanishes meanwhile, a symbolic link to nothing and a name that is no UTF-8 (Java cannot open it) are
    left out, as Spark does.

    Args:
        folder: The landing folder.
        glob: Hadoop's glob for file names, for example ``*.{csv,csv.gz}``.

    Raises:
        SourceError: The folder is missing, is no folder or cannot be read; says what to do.
    """
    fits = glob_pattern(glob)
    listed = _Listed()
    _walk(os.path.normpath(folder), fits, listed, frozenset(), True)
    found = tuple(sorted(listed.files, key=lambda file: file.path))
    return Listing(files=found, ignored=listed.ignored, unfit=listed.unfit, special=listed.special)


def modified_within(listed: tuple[LandedFile, ...], window: Window) -> tuple[LandedFile, ...]:
    """Those that were changed last within a window, to the millisecond, which is what bronze knows of a file's time."""
    begin, end = (int(moment.timestamp() * 1000) for moment in (window.first, window.behind))
    return tuple(file for file in listed if begin <= file.modified_ms < end)


def glob_pattern(glob: str) -> re.Pattern[str]:
    r"""Hadoop's glob as a regular expression for whole names (its ``GlobPattern``: ``* ? [a-c] [^a] {a,b}`` and ``\``).

    Raises:
        SourceError: It is not a glob.
    """
    pattern, depth, in_set, position = "", 0, False, 0
    while position < len(glob):
        letter = glob[position]
        if letter == "\\" and position + 1 < len(glob):
            position += 1
            pattern += re.escape(glob[position])
        elif in_set:
            in_set = letter != "]"
            pattern += "^" if letter == "!" and glob[position - 1] == "[" else ("\\[" if letter == "[" else letter)
        elif letter in "*?":
            pattern += ".*" if letter == "*" else "."
        elif letter == "[":
            in_set = True
            pattern += "["
        elif letter in "{}," and (letter == "{" or depth):
            depth += (letter == "{") - (letter == "}")
            pattern += {"{": "(?:", "}": ")", ",": "|"}[letter]
        else:
            pattern += re.escape(letter)
        position += 1
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise SourceError(f"glob {glob!r} cannot be read ({error}); write it as in '*.{{csv,csv.gz}}'") from None


def is_hidden(name: str) -> bool:
    """Whether Spark hides a file or a folder of this name (``HadoopFSUtils.shouldFilterOutPathName``)."""
    excluded = (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")
    return excluded and not name.startswith(("_common_metadata", "_metadata"))


def estimate_rows(files: tuple[LandedFile, ...], *, has_header: bool) -> int | None:
    """About how many records the files hold, from the first 64 KiB of the three largest; None when none can be read.

    Args:
        files: Compressed or not.
        has_header: Whether the first line of each is no record.
    """
    lines = read = 0
    for file in sorted(files, key=lambda file: -file.size)[:_SAMPLED_FILES]:
        try:
            with Path(file.path).open("rb") as raw:
                sample = raw.read(_SAMPLE_BYTES)
            text = _inflated(file.path, sample)
        except (OSError, zlib.error, EOFError, ValueError):
            continue
        lines += text.count(b"\n")
        read += len(sample)
    if not read:
        return None
    return max(0, round(lines / read * sum(file.size for file in files)) - has_header * len(files))


@dataclass
class _Listed:
    files: list[LandedFile] = field(default_factory=list)
    ignored: int = 0
    unfit: int = 0
    special: int = 0


def _walk(
    folder: str, fits: re.Pattern[str], listed: _Listed, above: frozenset[tuple[int, int]], visible: bool
) -> None:
    try:
        here = Path(folder).stat()
        with os.scandir(folder) as found:
            entries = list(found)
    except OSError as error:
        if above and isinstance(error, FileNotFoundError):
            return
        raise _unreadable(folder, error, landing=not above) from None
    identity = (here.st_dev, here.st_ino)
    if identity in above:
        raise SourceError(f"{folder} in a landing folder links to a folder above itself; remove the link")
    for entry in entries:
        try:
            facts = entry.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unreadable(entry.path, error, landing=False) from None
        seen = visible and not is_hidden(entry.name) and _is_text(entry.name)
        if stat.S_ISDIR(facts.st_mode):
            _walk(entry.path, fits, listed, above | {identity}, seen)
        elif seen and fits.fullmatch(entry.name) and not stat.S_ISREG(facts.st_mode):
            listed.ignored += 1
            listed.special += 1
        elif seen and fits.fullmatch(entry.name):
            modified_ms = facts.st_mtime_ns // 1_000_000
            listed.files.append(LandedFile(path=entry.path, size=facts.st_size, modified_ms=modified_ms))
        else:
            listed.ignored += 1
            listed.unfit += seen


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unreadable(path: str, error: OSError, *, landing: bool) -> SourceError:
    what = f"landing folder {path}" if landing else f"{path} in a landing folder"
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{what} does not exist; create it, or correct the declaration's path or TIDEGATE_LANDING")
    if isinstance(error, NotADirectoryError):
        return SourceError(f"{what} is a file; a landing zone is a folder: move the file into one")
    return SourceError(
        f"{what} cannot be read ({error.strerror}); give the user of the job the right to read and to list it"
    )


class _Inflater(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


def _inflated(path: str, sample: bytes) -> bytes:
    inflater: _Inflater
    if path.endswith(".gz"):
        inflater = zlib.decompressobj(wbits=31)
    elif path.endswith(".bz2"):
        inflater = bz2.BZ2Decompressor()
    else:
        return sample
    return inflater.decompress(sample)
