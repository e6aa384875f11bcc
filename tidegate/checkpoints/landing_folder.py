"""The landing folder of a flow, which may have been moved: a file below an earlier folder is the file of that name below the present one.

Spark's log of source files has absolute paths, so that a stream reads all files of a moved folder again. A flow is stopped before it does,
until a person accepts the move (`Override.act` ``move``). Then a new refresh of its checkpoint lists every file once more, and reads those
that neither bronze nor quarantine has below one of the folders. A file whose content was compared has each of its times (`MOVED_FILES`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.advice import Either, OutsideAct
from tidegate.checkpoints import overrides, progress
from tidegate.checkpoints.note import Note
from tidegate.errors import MovedLandingFolderError
from tidegate.lake.file_id import FileId
from tidegate.lake.place import FlowPlace, Place
from tidegate.spec import FileSource


@dataclass(frozen=True)
class LandingFolder:
    """The folder of a file source, and where it was before."""

    path: str
    earlier: tuple[str, ...] = ()
    times: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """`MovedFiles.times`."""

    def present(self, file: FileId) -> FileId:
        """The file below the present folder with its present time, for one below any of them."""
        path = self.present_path(file.path)
        times = self._times(path, file.modified_ms)
        return FileId(path, times[-1])

    def present_path(self, path: str) -> str:
        """As `present`, for a path. One folder may be in another: a file is of the innermost."""
        folders = [each for each in (self.path, *self.earlier) if path.startswith(f"{each}/")]
        return self.path + path[len(max(folders, key=len)) :] if folders else path

    def names(self, file: FileId) -> list[FileId]:
        """A file as it is named in records of any time; first the present one."""
        file = self.present(file)
        if not self.has(file.path):
            return [file]
        key = file.path.removeprefix(self.path)
        times = self._times(file.path, file.modified_ms)
        return [FileId(folder + key, time) for time in reversed(times) for folder in (self.path, *self.earlier)]

    def has(self, path: str) -> bool:
        """Whether a file is below the present folder."""
        return path.startswith(f"{self.path}/")

    def key(self, path: str) -> str:
        """The name of a file below the folder, for one below any of them."""
        return self.present_path(path).removeprefix(f"{self.path}/")

    def _times(self, present_path: str, modified_ms: int) -> Sequence[int]:
        """All times of a file that had this one, the present one last."""
        times = self.times.get(present_path.removeprefix(f"{self.path}/"), ())
        return times if modified_ms in times else (modified_ms,)


@dataclass(frozen=True, kw_only=True)
class MovedFiles:
    """The files that got another time, but no other content."""

    times: dict[str, list[int]]
    """Key below the landing folder to each time that the file had with its content, the present one last: in milliseconds since 1970."""


MOVED_FILES: Note[MovedFiles, FlowPlace] = Note(
    name="moved files",
    file="moved_files.json",
    content=MovedFiles,
    says="the times of files that got another one, with the same content",
    absent="a file with another time is another file",
    written="`tidegate landing moved --accept`, for a person, before its decision",
    repair=Either(OutsideAct("restore it from a backup"), OutsideAct("delete it and accept the move again")),
)


def of(place: FlowPlace, source: FileSource) -> LandingFolder:
    """The landing folder of a flow that reads files."""
    path = str(place.layout.landing(source.path))
    earlier = dict.fromkeys(overrides.earlier_folders(place))
    # Without a decision there is no note to look for.
    moved = MOVED_FILES.read(place) if earlier else None
    return LandingFolder(
        path, tuple(folder for folder in earlier if folder != path), {} if moved is None else moved.times
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
