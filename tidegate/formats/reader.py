"""Reads and checks one landed file in a single pass.

The result of the check is known after the last byte. Records are valid only if their file has no problem.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from tidegate.errors.classification import says_nothing_about_file
from tidegate.formats import delimited
from tidegate.formats.text_stream import CorruptFileError, LineTooLongError, RepeatedFieldError, open_text
from tidegate.lake.file_id import FileId
from tidegate.schema.names import AS_THEY_ARE, FieldNames
from tidegate.spec import FileFormat
from tidegate.spec.formats import Dialect
from tidegate.store import Address, Entry

MAX_RECORD_LENGTH = 16 * 1024 * 1024
"""In characters. A longer record means lost line ends or an unclosed quote."""


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """The result of reading a whole file."""

    path: str
    modified_ms: int
    size: int
    sha256: str
    """Of the stored bytes; empty when the file could not be read, or was not opened."""
    records: int = 0
    problem: str | None = None
    """The rule that the file breaks, None for a good file. One of ``empty_file``, ``vanished``, ``not_a_file``,
    ``unreadable``, ``corrupt_compression``, ``corrupt_file``, ``repeated_header``, ``not_<encoding>``, ``line_too_long``,
    ``open_quote``, ``changed_while_read``; of a CSV file without records ``unknown_header`` and ``other_separator(<name>)``."""
    line: int | None = None
    """The line of the problem, from 1; None where it has none."""

    @property
    def id(self) -> FileId:
        """Its identity."""
        return FileId(self.path, self.modified_ms)

    def source(self) -> str:
        """The column ``source`` of a quarantine entry: path, size, modification time, hash and line, as JSON."""
        source = {"path": self.path, "size": self.size, "modified_ms": self.modified_ms, "sha256": self.sha256}
        return json.dumps(source if self.line is None else source | {"line": self.line})


def _state(file: Address, entry: Entry) -> Hashable:
    """What differs if the content does. A local file's revision also differs if it only gets another link or permission."""
    return (entry.size, entry.modified_ns) if file.store.is_local else entry.revision


class FileReader:
    """Reads one file: iterate over its records first, then read `checked`."""

    def __init__(
        self,
        file: Address,
        modified_ms: int,
        kind: FileFormat,
        dialect: Dialect,
        names: Sequence[str] = (),
        renames: FieldNames = AS_THEY_ARE,
    ) -> None:
        """Prepare to read a file; nothing is opened yet.

        Args:
            file: The file.
            modified_ms: Its modification time in the stream's source log.
            dialect: The dialect of a CSV file. A JSON file uses its encoding and its setting for blank lines.
            names: The declared field names, those of a CSV file without a header.
            renames: Names of headers that are declared to be others.
        """
        self.header: str | None = None
        """The first record of a CSV file, or the fields of a Parquet or Avro file with their types, as JSON. Set before the
        first record is returned."""
        self._names, self._renames = names, renames
        self._file, self._modified_ms, self._kind, self._dialect = file, modified_ms, kind, dialect
        self._size = self._records = 0
        self._digest = hashlib.sha256()
        self._problem: str | None = None
        self._line: int | None = None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """The records as text, each with the number of its first line, or of the record where a format has no lines."""
        try:
            before = self._file.stat()
            if before.kind != "content":
                # Opening a pipe would block until another process writes to it.
                self._problem = "not_a_file"
                return
            self._size = before.size
            for record in self._text_records() if self._kind in ("csv", "json") else self._typed_records():
                self._records += 1
                yield record
            after = self._file.stat()
            if _state(self._file, after) != _state(self._file, before):
                self._problem = "changed_while_read"
            elif not self._size:
                self._problem = "empty_file"
            elif not self._records and self._names and self._kind == "csv" and self._dialect.header:
                # Without a record, no row would tell that the first line is no header, but the only record.
                self._problem = delimited.header_problem(
                    self.header or "", self._dialect, set(self._names), self._renames
                )
        except FileNotFoundError:
            self._problem, self._size = "vanished", 0
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self._problem = "corrupt_compression"
        except OSError as error:
            if says_nothing_about_file(error):
                # It says something about the machine, and the file must not be judged by it.
                raise OSError(error.errno, error.strerror, self._file.uri) from error
            # bz2 raises an OSError without errno for a damaged stream; errors of the system have one.
            self._problem = "unreadable" if error.errno else "corrupt_compression"
        except CorruptFileError:
            self._problem = "corrupt_file"
        except RepeatedFieldError:
            self._problem = "repeated_header"
        except UnicodeError:
            self._problem = self._dialect.undecodable
        except LineTooLongError:
            self._problem = "line_too_long"
        except delimited.RecordTooLongError as error:
            self._problem, self._line = "line_too_long", error.line
        except delimited.OpenQuoteError as error:
            self._problem, self._line = "open_quote", error.line

    @property
    def checked(self) -> CheckedFile:
        """The result; call it after the iteration has ended."""
        was_read = self._problem not in ("vanished", "not_a_file", "unreadable")
        return CheckedFile(
            path=self._file.uri,
            modified_ms=self._modified_ms,
            size=self._size,
            sha256=self._digest.hexdigest() if was_read else "",
            records=self._records if self._problem is None else 0,
            problem=self._problem,
            line=self._line,
        )

    def _text_records(self) -> Iterator[tuple[int, str]]:
        dialect = self._dialect if self._kind == "csv" else Dialect(quote="", blank_lines=self._dialect.blank_lines)
        with open_text(self._file, self._dialect.codec, MAX_RECORD_LENGTH, self._digest) as lines:
            numbered = delimited.records(lines, dialect, MAX_RECORD_LENGTH)
            if self._kind == "csv" and not dialect.header:
                self.header = dialect.separator.join(self._names)
            elif self._kind == "csv":
                self.header = ""
                for _, text in numbered:
                    if text:
                        self.header = text
                        break
            yield from numbered

    def _typed_records(self) -> Iterator[tuple[int, str]]:
        with self._file.open() as raw:
            while chunk := raw.read(1 << 20):
                self._digest.update(chunk)
            if not self._size:
                return
            # The libraries of these formats are for files of them.
            from tidegate.formats import records

            fields, texts = records.read_records(raw, self._kind)
            self.header = json.dumps(fields, ensure_ascii=False)
            for number, text in enumerate(texts, start=1):
                if len(text) > MAX_RECORD_LENGTH:
                    raise delimited.RecordTooLongError(number)
                yield number, text
