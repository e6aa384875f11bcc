"""The landing folder of a flow, and which of the files that were read are one file: of one key below the folder, size and checksum.

Spark's log of source files has absolute paths, so that a stream reads all files of a moved folder again. A flow is stopped before it does,
until a person accepts the move (`Override.act` ``move``). Then a new refresh of its checkpoint lists every file once more, and reads those
that neither bronze nor quarantine has below one of the folders. A file whose content was compared has each of its times (`MOVED_FILES`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import UNSET, UnsetType

from tidegate.advice import Either, OutsideAct
from tidegate.checkpoints import overrides, progress
from tidegate.checkpoints.note import Note
from tidegate.errors import MovedLandingFolderError
from tidegate.lake.file_id import FileId
from tidegate.lake.place import FlowPlace, Place
from tidegate.spec import FileSource


@dataclass(frozen=True, kw_only=True)
class ComparedContent:
    """What a file had when it was opened because of its time."""

    checksum: str
    times: Sequence[int]
    """All times at which the file had it, in milliseconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class MovedFiles:
    """What is known of files that got another time, by their keys below the landing folder."""

    times: dict[str, list[int]] = field(default_factory=dict)
    """The times of a content whose checksum is not known: a person accepted them. In milliseconds since 1970."""
    contents: dict[str, list[ComparedContent]] | UnsetType = UNSET
    """The contents that were compared. Each time is of one of them; one that came back after another was read is there twice."""

    def of_key(self, key: str) -> Sequence[ComparedContent]:
        """The contents of a file that were compared."""
        return () if self.contents is UNSET else self.contents.get(key, ())

    def with_times(self, times: dict[str, list[int]]) -> MovedFiles:
        """The same with times that a person accepted."""
        return MovedFiles(times=self.times | times, contents=self.contents)

    def with_compared(self, compared: Mapping[str, ComparedContent]) -> MovedFiles:
        """The same with files that were compared, by key."""
        contents = {} if self.contents is UNSET else dict(self.contents)
        for key, content in compared.items():
            others = (
                replace(each, times=[time for time in each.times if time not in content.times])
                for each in contents.get(key, ())
            )
            contents[key] = [*(each for each in others if each.times), content]
        return MovedFiles(times=self.times, contents=contents)


@dataclass(frozen=True)
class LandingFolder:
    """The folder of a file source, where it was before, and what is known of files with several times."""

    path: str
    earlier: tuple[str, ...] = ()
    moved: MovedFiles = field(default_factory=MovedFiles)

    def identity(self, file: FileId) -> FileId:
        """The one name of a file, whichever of its names is given: its path below the present folder, and the first of its times."""
        path = self.present_path(file.path)
        return FileId(path, min(self._times(path, file.modified_ms)))

    def present_path(self, path: str) -> str:
        """The path below the present folder. One folder may be in another: a file is of the innermost."""
        folders = [each for each in (self.path, *self.earlier) if path.startswith(f"{each}/")]
        return self.path + path[len(max(folders, key=len)) :] if folders else path

    def names(self, file: FileId) -> list[FileId]:
        """A file as it is named in records of any time."""
        path = self.present_path(file.path)
        if not self.has(path):
            return [file]
        key = path.removeprefix(self.path)
        times = self._times(path, file.modified_ms)
        return [FileId(folder + key, time) for time in times for folder in (self.path, *self.earlier)]

    def has(self, path: str) -> bool:
        """Whether a file is below the present folder."""
        return path.startswith(f"{self.path}/")

    def key(self, path: str) -> str:
        """The name of a file below the folder, for one below any of them."""
        return self.present_path(path).removeprefix(f"{self.path}/")

    def checksum(self, file: FileId) -> str | None:
        """The checksum that the file had at this time, if it was compared."""
        contents = self.moved.of_key(self.key(file.path))
        return next((each.checksum for each in contents if file.modified_ms in each.times), None)

    def times(self, file: FileId) -> Sequence[int]:
        """All times of a file, this one included."""
        return self._times(self.present_path(file.path), file.modified_ms)

    def _times(self, present_path: str, modified_ms: int) -> Sequence[int]:
        key = present_path.removeprefix(f"{self.path}/")
        known = [each.times for each in self.moved.of_key(key)]
        for times in (*known, self.moved.times.get(key, ())):
            if modified_ms in times:
                return times
        return (modified_ms,)


MOVED_FILES: Note[MovedFiles, FlowPlace] = Note(
    name="moved files",
    file="moved_files.json",
    content=MovedFiles,
    says="the checksums and times of files that got another time",
    absent="no file was compared",
    written="a run that has compared files; `tidegate landing moved --accept`, for a person, before its decision",
    repair=Either(
        OutsideAct("restore it from a backup"), OutsideAct("delete it, so that the next run compares the files again")
    ),
)


def of(place: FlowPlace, source: FileSource) -> LandingFolder:
    """The landing folder of a flow that reads files."""
    path = str(place.layout.landing(source.path))
    earlier = dict.fromkeys(overrides.earlier_folders(place))
    return LandingFolder(
        path, tuple(folder for folder in earlier if folder != path), MOVED_FILES.read(place) or MovedFiles()
    )


def is_moved(place: Place, source: FileSource) -> bool:
    """Whether the stream of a checkpoint has read files below an earlier folder, so that only a new refresh can go on.

    Raises:
        MovedLandingFolderError: Nobody has recorded that the folder was moved.
        CheckpointCorruptError: The log of files cannot be read.
    """
    read = progress.newest_source_files(place.checkpoint)
    folder = checked(place, source, read)
    return bool(read) and not folder.has(read[-1].path)


def checked(place: Place, source: FileSource, read: Sequence[progress.ListedFile]) -> LandingFolder:
    """The landing folder of a flow whose stream has read these files.

    All files of a stream are below one folder, because the flow stops when that is moved; so the last one tells.

    Raises:
        MovedLandingFolderError: Nobody has recorded that the folder was moved.
    """
    folder = of(place, source)
    if read and not folder.has(folder.present_path(read[-1].path)):
        before = _root([file.path for file in read if not folder.has(file.path)], source.path)
        raise MovedLandingFolderError(place.pipeline, place.flow, before=before, now=folder.path)
    return folder


def _root(paths: Iterable[str], source_path: str) -> str:
    """The landing folder that these files were below: their common folder, up to the path of the source if that is part of it."""
    folders = [path.split("/")[:-1] for path in paths]
    equal = itertools.takewhile(lambda names: len({*names}) == 1, zip(*folders, strict=False))
    common = [names[0] for names in equal]
    candidates = ("/".join(common[:length]) for length in range(len(common), 0, -1))
    return next((each for each in candidates if each.endswith(f"/{source_path}")), "/".join(common))
