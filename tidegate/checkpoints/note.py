"""Notes: small records in files beside the checkpoints of a flow, which plans, pages and alerts read without a JVM.

Each kind of note is declared once, next to the dataclass of its content, and listed in `tidegate.checkpoints.notes`. A note is replaced
as a whole: a reader sees what was before or what is after.

A driver that was stopped may write after another one has taken its lease, and written the same note. So each write expects the content
that was read while this process was certain of its leases: it changes nothing that a later holder wrote. A note is not deleted, which no
object store does under a condition: one that is cleared says ``null``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Generic, TypeVar

from tidegate import json_codec
from tidegate.advice import Advice
from tidegate.checkpoints import lease
from tidegate.errors import DamagedFileError
from tidegate.lake.place import FlowPlace
from tidegate.store import Address, Content

T = TypeVar("T")
K = TypeVar("K")
P = TypeVar("P", bound=FlowPlace, contravariant=True)
CLEARED = json_codec.to_bytes(None)
"""The content of a note that was cleared."""


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
    """Who clears it, and when."""
    repair: Advice | None = None
    """What to do about a damaged one. Without it, a damaged one counts as absent."""

    def _path(self, place: FlowPlace, **numbers: int) -> Address:
        return place.checkpoints / self.file.format(**vars(place), **numbers)


def _content(address: Address) -> Content | None:
    try:
        return address.read()
    except FileNotFoundError:
        return None


def _replace(address: Address, make: Callable[[bytes | None], Any], read: Address | None = None) -> str:
    """Write what a note says, made of its content; returns the tag.

    Args:
        read: The same file in a reading that was made while this process was certain of its leases, by default none.

    Raises:
        LeaseLostError: This process is not certain of a lease any more that it held.
        WriteConflictError: Another process has written it since. Transient.
    """
    before = _content(address if read is None else read)
    # After the content was read: a later holder writes only after this moment, and then the content is another one.
    lease.expect_certain()
    data, tag = (None, None) if before is None else (before.data, before.tag)
    return address.put_if(json_codec.to_bytes(make(data)), tag)


def _clear(address: Address) -> None:
    before = _content(address)
    if before is not None and before.data != CLEARED:
        lease.expect_certain()
        address.put_if(CLEARED, before.tag)


@dataclass(frozen=True)
class Written(Generic[T]):
    """What this process has written to a note."""

    value: T
    tag: str
    """The note has this tag until another process writes it."""


@dataclass(frozen=True, kw_only=True)
class Note(NoteKind[T, P]):
    """A note that a flow, a version or a checkpoint has once."""

    def path(self, place: P) -> Address:
        """Its file."""
        return self._path(place)

    def exists(self, place: P) -> bool:
        """Whether there is one."""
        content = _content(self.path(place))
        return content is not None and content.data != CLEARED

    def read(self, place: P) -> T | None:
        """What it says; None without one.

        Raises:
            DamagedFileError: It is damaged, and does not count as absent.
            OSError: It cannot be read.
        """
        return json_codec.read(self.path(place), self.content, self.repair)

    def write(self, place: P, value: T, read: P | None = None) -> None:
        """Write it, or replace it, unless another process does; ``read`` is the place in a reading. Raises as `_replace`."""
        _replace(self.path(place), lambda _: value, None if read is None else self.path(read))

    def change(self, place: P, change: Callable[[T | None], T], read: P | None = None) -> Written[T]:
        """Replace it by what a function makes of it, of None without one; raises as `write`.

        Args:
            read: The place in a reading.
        """
        address, made = self.path(place), list[T]()

        def changed(data: bytes | None) -> T:
            known = None if data is None else json_codec.value_of(address, data, self.content, self.repair)
            made.append(change(known))
            return made[0]

        tag = _replace(address, changed, None if read is None else self.path(read))
        return Written(made[0], tag)

    def replace(self, place: P, written: Written[T], value: T) -> None:
        """Replace it if it still says what this process has written; raises as `write`."""
        lease.expect_certain()
        self.path(place).put_if(json_codec.to_bytes(value), written.tag)

    def update(self, place: P, change: Callable[[T | None], T]) -> None:
        """Replace it by what a function makes of it, of None without one; again while other processes are in between.

        For notes that are written without the lease of the flow.
        """
        address = self.path(place)

        def changed(data: bytes | None) -> bytes:
            known = None if data is None else json_codec.value_of(address, data, self.content, self.repair)
            return json_codec.to_bytes(change(known))

        address.update(changed)

    def read_as(self, place: P, kind: type[K]) -> K | None:
        """What it says, with the fields or the methods of a dataclass that is derived from `content`. Raises as `read`."""
        return json_codec.read(self.path(place), kind, self.repair)

    def clear(self, place: P) -> None:
        """Clear it, if there is one; raises as `write`."""
        _clear(self.path(place))


@dataclass(frozen=True, kw_only=True)
class NumberedNotes(NoteKind[T, P]):
    """Notes of one kind with numbers from 0, each a file of its own; the name of the file is ``{number}.json``.

    The number of one that was cleared is not given again: what was stored beside it may be deleted late.
    """

    def folder(self, place: P) -> Address:
        """The folder of their files."""
        return self.path(place, 0).parent

    def path(self, place: P, number: int) -> Address:
        """The file of one."""
        return self._path(place, number=number)

    def numbers(self, place: P) -> list[int]:
        """Those that there are, ascending."""
        return [number for number, size in self._sizes(place).items() if size != len(CLEARED)]

    def next_number(self, place: P) -> int:
        """The number of the next one."""
        return max(self._sizes(place), default=-1) + 1

    def _sizes(self, place: P) -> dict[int, int]:
        """The size of each file. No content is as short as that of a cleared one."""
        files = [(PurePosixPath(entry.name), entry) for entry in self.folder(place).list()]
        sizes = (
            (int(file.stem), entry.size) for file, entry in files if file.suffix == ".json" and file.stem.isdigit()
        )
        return dict(sorted(sizes))

    def read(self, place: P, number: int) -> T | None:
        """What one says; None without it. Raises as `Note.read`."""
        return json_codec.read(self.path(place, number), self.content, self.repair)

    def read_as(self, place: P, number: int, kind: type[K]) -> K | None:
        """What one says, with more fields: those of a dataclass that is derived from `content`. Raises as `Note.read`."""
        return json_codec.read(self.path(place, number), kind, self.repair)

    def write(self, place: P, number: int, value: T) -> None:
        """Write one, or replace it; raises as `Note.write`."""
        _replace(self.path(place, number), lambda _: value)

    def clear(self, place: P, number: int) -> None:
        """Clear one, if it exists; raises as `Note.write`."""
        _clear(self.path(place, number))


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
