"""Notes: small records in files beside the checkpoints of a flow, which plans, pages and alerts read without a JVM.

Each kind of note is declared once, next to the dataclass of its content, and listed in `tidegate.checkpoints.notes`. A note is replaced
as a whole: a reader sees what was before or what is after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tidegate import json_codec
from tidegate.advice import Advice
from tidegate.errors import DamagedFileError
from tidegate.lake.place import FlowPlace
from tidegate.store import Address

T = TypeVar("T")
K = TypeVar("K")
P = TypeVar("P", bound=FlowPlace, contravariant=True)


@dataclass(frozen=True, kw_only=True)
class NoteKind(Generic[T, P]):
    """A kind of note. ``T`` is its content; ``P`` what it is about: a flow, or a checkpoint."""

    name: str
    file: str
    """Its path in `FlowPlace.checkpoints`; ``{version}`` and ``{refresh}`` are those of the checkpoint."""
    content: type[T]
    says: str
    absent: str
    """What it means that there is none."""
    written: str
    """Who may write it, and when."""
    cleared: str = "never"
    """Who deletes it, and when."""
    repair: Advice | None = None
    """What to do about a damaged one. Without it, a damaged one counts as absent."""

    def _path(self, place: FlowPlace, **numbers: int) -> Address:
        return place.checkpoints / self.file.format(**vars(place), **numbers)


@dataclass(frozen=True, kw_only=True)
class Note(NoteKind[T, P]):
    """A note that a flow, a version or a checkpoint has once."""

    def path(self, place: P) -> Address:
        """Its file."""
        return self._path(place)

    def exists(self, place: P) -> bool:
        """Whether there is one."""
        return self.path(place).exists()

    def read(self, place: P) -> T | None:
        """What it says; None without one.

        Raises:
            DamagedFileError: It is damaged, and does not count as absent.
            OSError: It cannot be read.
        """
        return json_codec.read(self.path(place), self.content, self.repair)

    def write(self, place: P, value: T) -> None:
        """Write it, or replace it."""
        json_codec.write(self.path(place), value)

    def read_as(self, place: P, kind: type[K]) -> K | None:
        """What it says, with the fields or the methods of a dataclass that is derived from `content`. Raises as `read`."""
        return json_codec.read(self.path(place), kind, self.repair)

    def clear(self, place: P) -> None:
        """Delete it, if there is one."""
        self.path(place).delete()


@dataclass(frozen=True, kw_only=True)
class NumberedNotes(NoteKind[T, P]):
    """Notes of one kind with numbers from 0, each a file of its own; the name of the file is ``{number}.json``."""

    def folder(self, place: P) -> Address:
        """The folder of their files."""
        return self.path(place, 0).parent

    def path(self, place: P, number: int) -> Address:
        """The file of one."""
        return self._path(place, number=number)

    def numbers(self, place: P) -> list[int]:
        """Those that there are, ascending."""
        return self.folder(place).numbers(".json")

    def read(self, place: P, number: int) -> T | None:
        """What one says; None without it. Raises as `Note.read`."""
        return json_codec.read(self.path(place, number), self.content, self.repair)

    def read_as(self, place: P, number: int, kind: type[K]) -> K | None:
        """What one says, with more fields: those of a dataclass that is derived from `content`. Raises as `Note.read`."""
        return json_codec.read(self.path(place, number), kind, self.repair)

    def write(self, place: P, number: int, value: T) -> None:
        """Write one, or replace it."""
        json_codec.write(self.path(place, number), value)

    def clear(self, place: P, number: int) -> None:
        """Delete one, if it exists."""
        self.path(place, number).delete()


@dataclass(frozen=True, kw_only=True)
class NoteLines(NoteKind[T, P]):
    """A note of lines of JSON, to which lines are only appended."""

    def path(self, place: P) -> Address:
        """Its file."""
        return self._path(place)

    def read(self, place: P) -> list[T]:
        """Its lines, oldest first; none without it.

        Raises:
            DamagedFileError: A line is damaged.
        """
        try:
            return [json_codec.decode(line, self.content) for line in self.path(place).read().data.splitlines()]
        except FileNotFoundError:
            return []
        except ValueError as error:
            assert self.repair is not None
            raise DamagedFileError(self.path(place), str(error), self.repair) from None

    def append(self, place: P, value: T) -> None:
        """Append a line."""
        self.path(place).append((json_codec.encode(value) + "\n").encode())


AnyNote = NoteKind[Any, Any]
"""A kind of note, whatever it says."""
