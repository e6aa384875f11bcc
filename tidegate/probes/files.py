"""Lists a landing folder by the rules of Spark's file source.

The rules are those of ``readStream.format("binaryFile")`` with ``recursiveFileLookup`` and ``pathGlobFilter``: Spark's
``HadoopFSUtils.shouldFilterOutPathName`` hides names of files and of folders, Hadoop's ``GlobPattern`` reads the glob.
"""

from __future__ import annotations

import bz2
import errno
import hashlib
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidegate.advice import Edit, OutsideAct
from tidegate.errors import NotDeliveredError, SourceError
from tidegate.lake.file_id import FileId

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from tidegate.store import Address, Entry
    from tidegate.times.window import Window

_SAMPLE_BYTES = 64 * 1024
_SAMPLED_FILES = 3
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class LandedFile:
    """A file that the stream would list."""

    path: str
    """As `FileId.path`."""
    size: int
    """Stored size in bytes, before decompression."""
    modified_ms: int
    """Modification time in milliseconds since 1970, rounded down as in Java."""

    @property
    def id(self) -> FileId:
        """Its identity."""
        return FileId(self.path, self.modified_ms)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The content of a landing folder."""

    files: tuple[LandedFile, ...]
    """The files that the stream would list, sorted by path."""
    ignored: int
    """Number of files that the stream does not list: names that are hidden or do not match the glob, and special files."""
    unmatched: int
    """Number of ignored files that are not hidden but do not match the glob."""
    special: int = 0
    """Number of entries that match the glob but are pipes, sockets or devices. Opening one can block forever."""


def list_files(folder: Address, glob: str) -> Listing:
    """List a landing folder recursively.

    As in Spark, the list omits files that vanish during the listing, symbolic links that are broken or lead to themselves, and names that
    are not valid UTF-8 (Java cannot open them).

    Args:
        glob: Glob for file names in Hadoop's syntax, for example ``*.{csv,csv.gz}``.

    Raises:
        NotDeliveredError: The folder does not exist.
        SourceError: It is a file or cannot be read, or the glob is invalid.
    """
    pattern = glob_pattern(glob)
    listed = _Listed()
    _walk(folder, pattern, listed, frozenset(), True)
    files = tuple(sorted(listed.files, key=lambda file: file.path))
    return Listing(files=files, ignored=listed.ignored, unmatched=listed.unmatched, special=listed.special)


def modified_within(listed: tuple[LandedFile, ...], window: Window) -> tuple[LandedFile, ...]:
    """The files whose modification time is in a window, in milliseconds: the precision of the time in bronze."""
    begin, end = (int(moment.timestamp() * 1000) for moment in (window.since, window.until))
    return tuple(file for file in listed if begin <= file.modified_ms < end)


def with_another_time(listed: Iterable[LandedFile], times: Mapping[str, int]) -> list[LandedFile]:
    """The landed files that have another modification time than the one with which they were read.

    Args:
        times: Of the files that were read, by path, in milliseconds since 1970.
    """
    return [file for file in listed if file.modified_ms != times.get(file.path, file.modified_ms)]


def glob_pattern(glob: str) -> re.Pattern[str]:
    r"""Convert a glob in Hadoop's syntax to a regular expression for complete names.

    The syntax is that of its ``GlobPattern``: ``* ? [a-c] [^a] {a,b}`` and ``\``.

    Raises:
        SourceError: The glob is invalid.
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
        raise SourceError(
            f"invalid glob {glob!r} ({error})", Edit("write it like '*.{csv,csv.gz}'", "declaration")
        ) from None


def is_hidden(name: str) -> bool:
    """Whether Spark hides a file or a folder of this name (``HadoopFSUtils.shouldFilterOutPathName``)."""
    excluded = (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")
    return excluded and not name.startswith(("_common_metadata", "_metadata"))


def estimate_rows(landing_zone: Address, files: tuple[LandedFile, ...], *, has_header: bool) -> int | None:
    """Estimate the number of records from the first 64 KiB of the three largest files; None if none can be read.

    Args:
        landing_zone: The folder of all landing folders.
        files: Files in it, compressed or not.
        has_header: Whether the first line of each file is a header.
    """
    lines = read = 0
    for file in sorted(files, key=lambda file: -file.size)[:_SAMPLED_FILES]:
        try:
            with landing_zone.of_uri(file.path).open() as raw:
                sample = raw.read(_SAMPLE_BYTES)
            text = _inflated(file.path, sample)
        except (OSError, zlib.error, EOFError, ValueError):
            continue
        lines += text.count(b"\n")
        read += len(sample)
    if not read:
        return None
    return max(0, round(lines / read * sum(file.size for file in files)) - has_header * len(files))


def checksum(file: Address) -> str:
    """The SHA-256 of the stored bytes, as `tidegate.formats.reader.CheckedFile.sha256`; raises as `Address.open`.

    That of a file which is written meanwhile is of no content: it has another time afterwards, and is compared again.
    """
    digest = hashlib.sha256()
    with file.open() as content:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass
class _Listed:
    files: list[LandedFile] = field(default_factory=list)
    ignored: int = 0
    unmatched: int = 0
    special: int = 0
    folders: dict[str, Sequence[Entry]] = field(default_factory=dict)

    def entries(self, folder: Address) -> Sequence[Entry]:
        """What a folder has; an object store lists all below it at once."""
        if folder.key not in self.folders:
            self.folders |= folder.store.list_tree(folder.key, whole=True)
        return self.folders[folder.key]


def _walk(
    folder: Address, pattern: re.Pattern[str], listed: _Listed, ancestors: frozenset[Hashable], visible: bool
) -> None:
    try:
        # Only a local file system has links, and only there a folder is a thing of its own.
        is_local = folder.store.is_local
        revision = folder.stat().revision if is_local else folder.key
        entries = listed.entries(folder)
        if not (entries or is_local):
            folder.stat()
    except OSError as error:
        if not visible or (ancestors and isinstance(error, FileNotFoundError)):
            return
        raise _unreadable(folder, error, landing=not ancestors) from None
    if revision in ancestors and not visible:
        return
    if revision in ancestors:
        raise SourceError(
            f"{folder} in a landing folder links to one of its parent folders", OutsideAct("remove the link")
        )
    for entry in entries:
        entry_visible = visible and not is_hidden(entry.name) and _is_utf8(entry.name)
        if entry.is_folder:
            _walk(folder.at(entry), pattern, listed, ancestors | {revision}, entry_visible)
            continue
        try:
            size, modified_ms = entry.size, entry.modified_ns // 1_000_000
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP):
                continue
            raise _unreadable(folder.at(entry), error, landing=False) from None
        if entry_visible and pattern.fullmatch(entry.name) and entry.kind == "other":
            listed.ignored += 1
            listed.special += 1
        elif entry_visible and pattern.fullmatch(entry.name):
            listed.files.append(LandedFile(path=folder.at(entry).uri, size=size, modified_ms=modified_ms))
        else:
            listed.ignored += 1
            listed.unmatched += entry_visible


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unreadable(path: Address, error: OSError, *, landing: bool) -> SourceError:
    what = f"landing folder {path}" if landing else f"{path} in a landing folder"
    if isinstance(error, FileNotFoundError):
        return NotDeliveredError(what, "the source's path or TIDEGATE_LANDING")
    if isinstance(error, NotADirectoryError):
        return SourceError(f"{what} is a file, not a folder", OutsideAct("move the file into a folder"))
    return SourceError(
        f"{what} cannot be read ({error.strerror})",
        OutsideAct("give the user that runs the job permission to read and list it"),
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
