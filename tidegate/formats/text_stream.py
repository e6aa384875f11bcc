"""Opens a landed file as a text stream: read once, decompressed, decoded and hashed, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Protocol, cast

from tidegate.store import Address

_CHUNK = 1 << 20
_LINE_END = re.compile(rb"[\r\n]")


class LineTooLongError(ValueError):
    """A line is longer than the limit."""


class CorruptFileError(ValueError):
    """The decoder cannot read the file."""


class RepeatedFieldError(ValueError):
    """Two columns have the same name, so a record by field name would lose one."""


class Digest(Protocol):
    """A hash object of `hashlib`."""

    def update(self, data: bytes | memoryview, /) -> None: ...  # noqa: D102


class _Hashed(io.RawIOBase):
    """Hashes the bytes of a file while they are read."""

    def __init__(self, file: IO[bytes], digest: Digest) -> None:
        self._file, self._digest = file, digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # callers only pass byte buffers
        count = self._file.readinto(buffer)  # type: ignore[attr-defined]  # files opened in binary mode have readinto
        self._digest.update(memoryview(buffer)[:count])
        return int(count)


class _Bz2(io.RawIOBase):
    """Decompresses a bz2 file of one or more streams. Unlike `bz2.open` it does not ignore data after the last stream."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._stream, self._input = raw, bz2.BZ2Decompressor(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # as above
        while True:
            if self._stream.eof:
                self._input = self._stream.unused_data or self._raw.read(_CHUNK)
                if not self._input:
                    return 0
                self._stream = bz2.BZ2Decompressor()
            elif self._stream.needs_input and not self._input:
                self._input = self._raw.read(_CHUNK)
                if not self._input:
                    raise EOFError("the last bz2 stream is incomplete")
            content = self._stream.decompress(self._input, max_length=len(buffer))
            self._input = b""
            if content:
                buffer[: len(content)] = content
                return len(content)


class _LineLimit(io.RawIOBase):
    """Refuses content with a line that is too long."""

    def __init__(self, content: IO[bytes], max_length: int) -> None:
        self._content, self._max_length, self._length = content, max_length, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # as above
        chunk = self._content.read(len(buffer))
        buffer[: len(chunk)] = chunk
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        if end < 0:
            self._length += len(chunk)
        elif self._length + cast("re.Match[bytes]", _LINE_END.search(chunk)).start() > self._max_length:
            raise LineTooLongError
        else:
            self._length = len(chunk) - end - 1
        if self._length > self._max_length:
            raise LineTooLongError
        return len(chunk)


@contextmanager
def open_text(address: Address, codec: str, max_line_bytes: int, digest: Digest) -> Iterator[IO[str]]:
    """Open a file as text, decompressed by the suffix of its name.

    Args:
        address: The file; ``.gz`` and ``.bz2`` are decompressed.
        codec: A codec name of Python.
        max_line_bytes: Maximum length of a line in bytes, approximately; longer lines are not read into memory.
        digest: Receives the bytes of the file as stored, before decompression.

    Raises:
        LineTooLongError: While reading: a line is longer than ``max_line_bytes``.
        OSError: The file cannot be read, or does not have the compression of its suffix.
        EOFError: While reading: the compressed content is incomplete.
        zlib.error: While reading: the compressed content is damaged.
        UnicodeDecodeError: While reading: the content is not in this encoding.
    """
    with address.open() as file:
        raw: IO[bytes] = io.BufferedReader(_Hashed(file, digest), _CHUNK)
        content: IO[bytes] = raw
        if address.name.endswith(".gz"):
            content = cast("IO[bytes]", gzip.GzipFile(fileobj=raw, mode="rb"))
        elif address.name.endswith(".bz2"):
            content = io.BufferedReader(_Bz2(raw), _CHUNK)
        limited = io.BufferedReader(_LineLimit(content, max_line_bytes), _CHUNK)
        try:
            yield io.TextIOWrapper(limited, encoding=codec, errors="strict", newline="")
        except Exception:
            # The hash covers the whole file, also when reading stops early.
            with suppress(OSError):
                _read_to_end(raw)
            raise
        _read_to_end(raw)


def _read_to_end(raw: IO[bytes]) -> None:
    while raw.read(_CHUNK):
        pass
