"""Which files of a landing folder were read before it was moved or copied, or before their times changed. Starts no JVM.

Spark's log of source files has paths and times, so a file with another path or another time is another file to it. Here a file is its
key below the landing folder, its size and its checksum; only a file with another time is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.advice import Command, Edit, Either, OutsideAct
from tidegate.checkpoints import checkpoint, landing_folder, overrides, progress
from tidegate.checkpoints.landing_folder import MOVED_FILES, ComparedContent, LandingFolder, MovedFiles
from tidegate.checkpoints.overrides import Override
from tidegate.errors import MovedLandingFolderError, RequestError
from tidegate.formatting import count
from tidegate.probes import files
from tidegate.spec import FileSource, Flow
from tidegate.status.file_contents import FileContents

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout
    from tidegate.lake.place import FlowPlace, Place
    from tidegate.probes.files import LandedFile

_NAMED = 5
"""How many files are named; the others are only counted."""


@dataclass(kw_only=True)
class MovePlan:
    """What is known of each file that is in the landing folder now; files are named by their keys."""

    place: Place
    before: str
    """The folder of the files that the flow has read."""
    now: str
    same: int = 0
    """Files with the time and the size at which they were read."""
    recognised: dict[str, ComparedContent] = field(default_factory=dict)
    """Files with another time, and the size and the checksum that they were read with."""
    unproven: dict[str, list[int]] = field(default_factory=dict)
    """Files with another time and the size that they were read with, but without a checksum: as `MovedFiles.times`."""
    torn: list[str] = field(default_factory=list)
    """Files with the time at which they were read, and another size."""
    changed: list[str] = field(default_factory=list)
    """Files with another content than the one that was read last."""
    new: int = 0
    """Files of which nothing was read."""
    gone: int = 0
    """Files with rows or an entry that are not in the folder any more; these stay as they are."""
    compared_bytes: int = 0

    @property
    def is_needed(self) -> bool:
        """Whether there is something to accept."""
        return self.before != self.now or bool(self.recognised or self.unproven)

    def lines(self) -> Iterator[str]:
        """For people."""
        moved = f"moved from {self.before} to {self.now}" if self.before != self.now else f"still {self.now}"
        yield f"{self.place.pipeline}/{self.place.flow}: the landing folder is {moved}"
        known = f"{self.same:,} with the same time, {len(self.recognised):,} with another time and the same checksum"
        yield f"  read already: {known} ({self.compared_bytes:,} bytes compared)"
        yield f"  to read: {self.new:,} new, {count(len(self.changed), 'changed file')}{_named(self.changed)}"
        if self.gone:
            yield f"  not in the folder: {count(self.gone, 'file')} that the flow has read; what it has of them stays"
        if self.unproven:
            yield (
                f"  not proven: {count(len(self.unproven), 'file')} with another time and the same size, read before checksums were "
                f"stored{_named(self.unproven)}"
            )
        if self.torn:
            yield f"  torn: {count(len(self.torn), 'file')} with the same time and another size{_named(self.torn)}"

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "flow": self.place.flow,
            "before": self.before,
            "now": self.now,
            "same": self.same,
            "recognised": sorted(self.recognised),
            "unproven": sorted(self.unproven),
            "torn": self.torn,
            "changed": self.changed,
            "new": self.new,
            "gone": self.gone,
            "compared_bytes": self.compared_bytes,
        }


def plan(of_flow: FlowPlace, flow: Flow) -> MovePlan:
    """Compare the landing folder of a flow with what the flow has read.

    Raises:
        RequestError: The flow reads no files, or its source has another path below the landing zone.
        SourceError: The folder cannot be read.
        CheckpointCorruptError: The checkpoint's log of files cannot be read.
    """
    source = _source(flow)
    place = checkpoint.current(of_flow, flow.checkpoint_version)
    layout = place.layout
    folder = landing_folder.of(place, source)
    before = folder.path
    try:
        landing_folder.checked(place, source, progress.source_files(place.checkpoint))
    except MovedLandingFolderError as moved:
        before = moved.before
        if not before.endswith(f"/{source.path}"):
            raise RequestError(
                f"flow {flow.name!r} has read files below {before}, which is no folder of {source.path}",
                Edit(
                    "only the landing zone before the path of a source may be moved; set that path back", "declaration"
                ),
            ) from None
    earlier = tuple(dict.fromkeys((*folder.earlier, before)))
    folder = landing_folder.LandingFolder(
        folder.path, tuple(each for each in earlier if each != folder.path), folder.moved
    )
    made = MovePlan(place=place, before=before, now=folder.path)
    read = FileContents.read(folder, place, layout.table(flow.target.name))
    listed = files.list_files(layout.landing(source.path), source.glob).files
    for landed in listed:
        _judge(made, layout, folder, landed, read)
    made.gone = len(read.keys - {folder.key(file.path) for file in listed})
    return made


def accept(made: MovePlan, *, by: str, reason: str, unproven: int = 0) -> Override:
    """Record that the files which a plan recognised are those that the flow has read.

    Args:
        unproven: The number of files whose checksum is not known that are accepted by their names and sizes.

    Raises:
        RequestError: A copy is torn, the number of unproven files is another, or the reason is empty.
    """
    place = made.place
    if made.torn:
        raise RequestError(
            f"{place.pipeline}/{place.flow}: {count(len(made.torn), 'file')} with the time of a file that was read, and another size"
            f"{_named(made.torn)}",
            Either(
                OutsideAct("copy the landing folder again"), OutsideAct("give a file that was changed its own time")
            ),
        )
    if len(made.unproven) != unproven:
        raise RequestError(
            f"{place.pipeline}/{place.flow}: {count(len(made.unproven), 'file')} with another time and the same size, read before "
            f"checksums were stored{_named(made.unproven)}: accepted are {unproven:,}",
            Either(
                Command.tidegate(
                    *("landing", "moved", place.pipeline, place.flow, "--accept"),
                    *("--unproven", str(len(made.unproven)), "--reason", "…"),
                    says="accept them as they are named and as long as they are: {}",
                ),
                OutsideAct("copy the files with their times (`cp -p`, `rsync -a`)"),
            ),
        )
    if made.recognised or made.unproven:
        compared, times = made.recognised, made.unproven
        MOVED_FILES.update(place, lambda known: (known or MovedFiles()).with_compared(compared).with_times(times))
    return overrides.record(place, Override(act="move", by=by, reason=reason, moved_from=made.before))


def _judge(made: MovePlan, layout: Layout, folder: LandingFolder, landed: LandedFile, contents: FileContents) -> None:
    """Put one file where it belongs."""
    key = folder.key(landed.path)
    if not contents.of_key(key):
        made.new += 1
        return
    if named := contents.named(landed.id):
        if landed.size in {each.size for each in named}:
            made.same += 1
        else:
            made.torn.append(key)
        return
    newest = contents.newest(landed.id, landed.size)
    if known := {each.checksum for each in newest} - {None}:
        checksum = folder.checksum(landed.id)
        if checksum is None:
            made.compared_bytes += landed.size
            checksum = files.checksum(layout.landing_root.of_uri(landed.path))
        if checksum in known:
            made.recognised[key] = contents.compared(landed.id, checksum)
            return
    if unproven := [each for each in newest if each.checksum is None]:
        made.unproven[key] = sorted({*folder.times(unproven[0].file), landed.modified_ms})
    else:
        made.changed.append(key)


def _named(keys: list[str] | dict[str, list[int]]) -> str:
    more = ", …" if len(keys) > _NAMED else ""
    return f": {', '.join(sorted(keys)[:_NAMED])}{more}" if keys else ""


def _source(flow: Flow) -> FileSource:
    if not isinstance(flow.source, FileSource):
        raise RequestError(
            f"flow {flow.name!r} reads no landing folder", Edit("name a flow with a FileSource", "request")
        )
    return flow.source
