"""A landed file as text: read once, decompressed, decoded, hashed; its memory is bounded whatever lies in it. No Spark."""

from __future__ import annotations

import bz2
import gzip
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol, cast

_CHUNK = 1 << 20
_LINE_END = re.compile(rb"[\r\n]")


class EndlessLineError(ValueError):
    """So many bytes came without a line end that the file cannot be one of records."""


class Digest(Protocol):
    """What `hashlib` makes."""

    def update(self, data: bytes | memoryview, /) -> None: ...  # noqa: D102


class _Hashed(io.RawIOBase):
    """A file whose bytes are hashed as they are read."""

    def __init__(self, file: IO[bytes], digest: Digest) -> None:
        self._file, self._digest = file, digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # a buffer of bytes is all we get
        count = self._file.readinto(buffer)  # type: ignore[attr-defined]  # a file opened in binary mode has it
        self._digest.update(memoryview(buffer)[:count])
        return int(count)


class _Bz2(io.RawIOBase):
    """A bz2 file of one or more streams. `bz2.open` ignores whatever follows the last of them."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._stream, self._left = raw, bz2.BZ2Decompressor(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # as above
        while True:
            if self._stream.eof:
                self._left = self._stream.unused_data or self._raw.read(_CHUNK)
                if not self._left:
                    return 0
                self._stream = bz2.BZ2Decompressor()
            elif self._stream.needs_input and not self._left:
                self._left = self._raw.read(_CHUNK)
                if not self._left:
                    raise EOFError("the last bz2 stream is not complete")
            content = self._stream.decompress(self._left, max_length=len(buffer))
            self._left = b""
            if content:
                buffer[: len(content)] = content
                return len(content)


class _Bounded(io.RawIOBase):
    """Content whose lines have a bounded length."""

    def __init__(self, content: IO[bytes], longest: int) -> None:
        self._content, self._longest, self._length = content, longest, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # as above
        chunk = self._content.read(len(buffer))
        buffer[: len(chunk)] = chunk
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        if end < 0:
            self._length += len(chunk)
        elif self._length + cast("re.Match[bytes]", _LINE_END.search(chunk)).start() > self._longest:
            raise EndlessLineError
        else:
            self._length = len(chunk) - end - 1
        if self._length > self._longest:
            raise EndlessLineError
        return len(chunk)


@contextmanager
def opened(path: str, codec: str, longest: int, digest: Digest) -> Iterator[IO[str]]:
    """A file's text, by the compression that its name says.

    Args:
        path: A local path; ``.gz`` and ``.bz2`` are decompressed.
        codec: Python's.
        longest: Bytes that a line may have, about: what is longer is not read into memory.
        digest: Takes the bytes as they lie in the file.

    Raises:
        EndlessLineError: While reading: a line is longer.
        OSError: It cannot be read, or is no such compression.
        EOFError: While reading: the compressed content is not complete.
        zlib.error: While reading: it is damaged.
        UnicodeDecodeError: While reading: it is not in this encoding.
    """
    with Path(path).open("rb", buffering=0) as file:
        raw: IO[bytes] = io.BufferedReader(_Hashed(file, digest), _CHUNK)
        content: IO[bytes] = raw
        if path.endswith(".gz"):
            content = cast("IO[bytes]", gzip.GzipFile(fileobj=raw, mode="rb"))
        elif path.endswith(".bz2"):
            content = io.BufferedReader(_Bz2(raw), _CHUNK)
        bounded = io.BufferedReader(_Bounded(content, longest), _CHUNK)
        try:
            yield io.TextIOWrapper(bounded, encoding=codec, errors="strict", newline="")
        except Exception:
            # The hash is of the whole file, also of one that is refused in its middle.
            with suppress(OSError):
                _read_on(raw)
            raise
        _read_on(raw)


def _read_on(raw: IO[bytes]) -> None:
    while raw.read(_CHUNK):
        pass
