"""Reads one landed file in one pass: its records, and what was found out about the file when its last byte is read. No Spark.

Who reads is who checks: there is one opinion of what a file holds. A record counts only if its file ended well.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tidegate.spark.intake import delimited, records
from tidegate.spark.intake.opened import EndlessLineError, opened
from tidegate.spec import FileFormat
from tidegate.spec.dialect import Dialect

LONGEST_RECORD = 16 * 1024 * 1024
"""Characters; what is longer is not a record but a file that lost its line ends, or a quote that was never closed."""


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """What the reading of a whole file found."""

    path: str
    modified_ms: int
    size: int
    sha256: str
    """Of the bytes as they lie there; empty when they could not be read, or nobody looked."""
    records: int = 0
    problem: str | None = None
    """Why it cannot be used: ``empty_file``, ``vanished``, ``not_a_file``, ``unreadable``, ``corrupt_compression``,
    ``corrupt_file``, ``repeated_header``, ``not_<encoding>``, ``line_too_long``, ``open_quote``, ``changed_while_read``."""
    line: int | None = None
    """Where the problem lies, from 1."""

    @property
    def file_id(self) -> str:
        """Its coordinates as one text; a ``_row_id`` is this, ``#`` and the line number."""
        return f"{self.path}@{self.modified_ms}"

    def source(self) -> str:
        """The coordinates for people, as JSON."""
        found = {"path": self.path, "size": self.size, "modified_ms": self.modified_ms, "sha256": self.sha256}
        return json.dumps(found if self.line is None else found | {"line": self.line})

    def to_json(self) -> str:
        """For `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CheckedFile:
        """What `to_json` gave."""
        return cls(**json.loads(text))


class FileReader:
    """One file. Iterate over it, then ask for `checked`."""

    def __init__(
        self, path: str, modified_ms: int, kind: FileFormat, dialect: Dialect, names: Sequence[str] = ()
    ) -> None:
        """A file to read.

        Args:
            path: A local path.
            modified_ms: Its modification time, as the stream logged it.
            kind: Its format.
            dialect: How it is written.
            names: Of its fields, if it is a CSV file without a header.
        """
        self.header: str | None = None
        """The first record of a CSV file, or the fields of a Parquet or Avro file with their types, as JSON. Known before
        the first record comes."""
        self._names = names
        self._path, self._modified_ms, self._kind, self._dialect = path, modified_ms, kind, dialect
        self._size = self._records = 0
        self._digest = hashlib.sha256()
        self._problem: str | None = None
        self._line: int | None = None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """The records as text, each with the number of its first line, or its own number where a format has no lines."""
        try:
            before = Path(self._path).stat()
            if not stat.S_ISREG(before.st_mode):
                # Opening a pipe would wait for whoever writes into it.
                self._problem = "not_a_file"
                return
            self._size = before.st_size
            for record in self._texts() if self._kind in ("csv", "json") else self._typed():
                self._records += 1
                yield record
            after = Path(self._path).stat()
            if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                self._problem = "changed_while_read"
            elif not self._size:
                self._problem = "empty_file"
        except FileNotFoundError:
            self._problem, self._size = "vanished", 0
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self._problem = "corrupt_compression"
        except OSError as error:
            # bz2 says a damaged stream with a bare OSError; one from the system carries its number.
            self._problem = "unreadable" if error.errno else "corrupt_compression"
        except records.CorruptFileError:
            self._problem = "corrupt_file"
        except records.RepeatedFieldError:
            self._problem = "repeated_header"
        except UnicodeError:
            self._problem = self._dialect.undecodable
        except EndlessLineError:
            self._problem = "line_too_long"
        except delimited.RecordTooLongError as error:
            self._problem, self._line = "line_too_long", error.line
        except delimited.OpenQuoteError as error:
            self._problem, self._line = "open_quote", error.line

    @property
    def checked(self) -> CheckedFile:
        """What was found, once the iteration has ended."""
        known = self._problem not in ("vanished", "not_a_file", "unreadable")
        return CheckedFile(
            path=self._path,
            modified_ms=self._modified_ms,
            size=self._size,
            sha256=self._digest.hexdigest() if known else "",
            records=self._records if self._problem is None else 0,
            problem=self._problem,
            line=self._line,
        )

    def _texts(self) -> Iterator[tuple[int, str]]:
        dialect = self._dialect if self._kind == "csv" else Dialect(quote="", blank_lines=self._dialect.blank_lines)
        with opened(self._path, self._dialect.codec, LONGEST_RECORD, self._digest) as lines:
            numbered = delimited.records(lines, dialect, LONGEST_RECORD)
            if self._kind == "csv" and not dialect.header:
                self.header = dialect.separator.join(self._names)
            elif self._kind == "csv":
                self.header = ""
                for _, text in numbered:
                    if text:
                        self.header = text
                        break
            yield from numbered

    def _typed(self) -> Iterator[tuple[int, str]]:
        with Path(self._path).open("rb") as raw:
            while chunk := raw.read(1 << 20):
                self._digest.update(chunk)
        if not self._size:
            return
        fields, texts = records.texts(self._path, self._kind)
        self.header = json.dumps(fields, ensure_ascii=False)
        for number, text in enumerate(texts, start=1):
            if len(text) > LONGEST_RECORD:
                raise delimited.RecordTooLongError(number)
            yield number, text
