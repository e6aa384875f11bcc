"""The landing folder of a flow, which may have been moved: a file below an earlier folder is the file of that name below the present one.

Spark's log of source files has absolute paths, so that a stream reads all files of a moved folder again. A flow is stopped before it does,
until a person records where its folder was (`Override.act` ``move``). Then a new refresh of its checkpoint lists every file once more, and
reads those that neither bronze nor quarantine has below one of the folders.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.advice import Command, Edit
from tidegate.checkpoints import overrides, progress
from tidegate.checkpoints.overrides import Override
from tidegate.errors import MovedLandingFolderError, RequestError
from tidegate.lake.file_id import FileId
from tidegate.lake.place import FlowPlace, Place
from tidegate.spec import FileSource, Flow


@dataclass(frozen=True)
class LandingFolder:
    """The folder of a file source, and where it was before."""

    path: str
    earlier: tuple[str, ...] = ()

    def present(self, file: FileId) -> FileId:
        """The file below the present folder, for one below any of them."""
        return FileId(self.present_path(file.path), file.modified_ms)

    def present_path(self, path: str) -> str:
        """As `present`, for a path."""
        for folder in self.earlier:
            if path.startswith(f"{folder}/"):
                return self.path + path[len(folder) :]
        return path

    def names(self, file: FileId) -> list[FileId]:
        """A file as it is named in records of any time."""
        file = self.present(file)
        key = file.path.removeprefix(self.path)
        return [file, *(FileId(folder + key, file.modified_ms) for folder in self.earlier)]

    def has(self, path: str) -> bool:
        """Whether a file is below the present folder."""
        return path.startswith(f"{self.path}/")


def of(place: FlowPlace, source: FileSource) -> LandingFolder:
    """The landing folder of a flow that reads files."""
    path = str(place.layout.landing(source.path))
    earlier = dict.fromkeys(overrides.earlier_folders(place))
    return LandingFolder(path, tuple(folder for folder in earlier if folder != path))


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


def accept_move(place: Place, flow: Flow, before: str, *, by: str, reason: str) -> Override:
    """Record that the landing folder of a flow was moved here from another path.

    Raises:
        RequestError: The flow reads no files, has read none below that path, or the reason is empty.
    """
    if not isinstance(flow.source, FileSource):
        raise RequestError(
            f"flow {flow.name!r} reads no landing folder", Edit("name a flow with a FileSource", "request")
        )
    before = before.rstrip("/")
    read = progress.source_files(place.checkpoint)
    below = [file for file in read if file.path.startswith(f"{before}/")]
    is_moved = bool(below) and not LandingFolder(str(place.layout.landing(flow.source.path))).has(read[-1].path)
    # The path of the source is part of the checkpoint; only the landing zone before it may have been moved.
    if not is_moved or not before.endswith(f"/{flow.source.path}"):
        raise RequestError(
            f"flow {flow.name!r} of {place.pipeline!r} has not read its newest files below {before}",
            Command.tidegate(
                "plan", place.pipeline, says="`{}` says whether a landing folder was moved, and from where"
            ),
        )
    return overrides.record(place, Override(act="move", by=by, reason=reason, moved_from=before))


def _root(paths: Iterable[str], source_path: str) -> str:
    """The landing folder that these files were below: their common folder, up to the path of the source if that is part of it."""
    folders = [path.split("/")[:-1] for path in paths]
    equal = itertools.takewhile(lambda names: len({*names}) == 1, zip(*folders, strict=False))
    common = [names[0] for names in equal]
    candidates = ("/".join(common[:length]) for length in range(len(common), 0, -1))
    return next((each for each in candidates if each.endswith(f"/{source_path}")), "/".join(common))
