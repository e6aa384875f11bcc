"""Which files of a landing folder were read before it was moved or copied, or before their times changed. Starts no JVM.

Spark's log of source files has paths and times, so a file with another path or another time is another file to it. Here a file is its
key below the landing folder, its size and its checksum; only a file with another time is opened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.advice import Command, Edit, Either, OutsideAct
from tidegate.checkpoints import checkpoint, landing_folder, overrides, progress
from tidegate.checkpoints.landing_folder import MOVED_FILES, LandingFolder, MovedFiles
from tidegate.checkpoints.overrides import Override
from tidegate.errors import MovedLandingFolderError, RequestError
from tidegate.formatting import count
from tidegate.lake.file_id import FileId
from tidegate.ops import query, store
from tidegate.probes import files
from tidegate.spec import FileSource, Flow

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout
    from tidegate.lake.place import FlowPlace, Place
    from tidegate.probes.files import LandedFile
    from tidegate.store import Address

_NAMED = 5
"""How many files are named; the others are only counted."""
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class _Content:
    """A file as it was read."""

    file: FileId
    size: int
    checksum: str | None
    """None where an earlier version of Tidegate read it, or it could not be read."""


@dataclass(kw_only=True)
class MovePlan:
    """What is known of each file that is in the landing folder now; files are named by their keys."""

    place: Place
    before: str
    """The folder of the files that the flow has read."""
    now: str
    same: int = 0
    """Files with the time and the size at which they were read."""
    times: dict[str, list[int]] = field(default_factory=dict)
    """Files with another time, and the size and the checksum that they were read with: as `MovedFiles.times`."""
    unproven: dict[str, list[int]] = field(default_factory=dict)
    """Likewise, but the checksum that they were read with is not known."""
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
        return self.before != self.now or bool(self.times or self.unproven)

    def lines(self) -> Iterator[str]:
        """For people."""
        moved = f"moved from {self.before} to {self.now}" if self.before != self.now else f"still {self.now}"
        yield f"{self.place.pipeline}/{self.place.flow}: the landing folder is {moved}"
        known = f"{self.same:,} with the same time, {len(self.times):,} with another time and the same checksum"
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
            "recognised": sorted(self.times),
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
        folder.path, tuple(each for each in earlier if each != folder.path), folder.times
    )
    made = MovePlan(place=place, before=before, now=folder.path)
    read = _contents(folder, layout.table(flow.target.name), place.quarantine)
    listed = files.list_files(layout.landing(source.path), source.glob).files
    for landed in listed:
        _judge(made, layout, folder, landed, read.get(folder.key(landed.path), []))
    made.gone = len(read.keys() - {folder.key(file.path) for file in listed})
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
    times = made.times | made.unproven
    if times:
        MOVED_FILES.update(place, lambda known: MovedFiles(times=(known.times if known is not None else {}) | times))
    return overrides.record(place, Override(act="move", by=by, reason=reason, moved_from=made.before))


def _judge(made: MovePlan, layout: Layout, folder: LandingFolder, landed: LandedFile, read: list[_Content]) -> None:
    """Put one file where it belongs.

    Args:
        read: Its contents that were read, the last one last.
    """
    key = folder.key(landed.path)
    if not read:
        made.new += 1
        return
    if named := [each for each in read if landed.id in folder.names(each.file)]:
        if landed.size in {each.size for each in named}:
            made.same += 1
        else:
            made.torn.append(key)
        return
    last = read[-1]
    if last.size != landed.size:
        made.changed.append(key)
        return
    known = [name.modified_ms for name in reversed(folder.names(last.file)) if name.path == folder.path + f"/{key}"]
    times = [*(time for time in known if time != landed.modified_ms), landed.modified_ms]
    if last.checksum is None:
        made.unproven[key] = times
        return
    made.compared_bytes += landed.size
    if _checksum(layout.landing_root.of_uri(landed.path)) == last.checksum:
        made.times[key] = times
    else:
        made.changed.append(key)


def _contents(folder: LandingFolder, bronze: Address, quarantine: Address) -> dict[str, list[_Content]]:
    """By key what was read of each file, the last one last: what bronze has, or else the entries in quarantine."""
    entries: dict[str, list[_Content]] = {}
    of_files = "SELECT source FROM delta_table WHERE level = 'file' ORDER BY quarantined_at"
    for row in store.select(quarantine, of_files):
        source = json.loads(row["source"])
        file = FileId(source["path"], source["modified_ms"])
        content = _Content(file, source["size"], source["sha256"] or None)
        entries.setdefault(folder.key(file.path), []).append(content)
    stored: dict[str, list[_Content]] = {}
    columns = query.columns(bronze)
    checksum = hidden.CHECKSUM if hidden.CHECKSUM in columns else "NULL"
    by_file = (
        f"SELECT {hidden.PATH}, {hidden.MODIFIED_AT}, _size, {checksum} AS checksum, max({hidden.INGESTED_AT}) AS read_at "
        f"FROM delta_table GROUP BY {hidden.PATH}, {hidden.MODIFIED_AT}, _size, checksum ORDER BY read_at"
    )
    for row in store.select(bronze, by_file) if columns else ():
        file = FileId.of_bronze(row[hidden.PATH], row[hidden.MODIFIED_AT])
        stored.setdefault(folder.key(file.path), []).append(_Content(file, row["_size"], row["checksum"]))
    return entries | stored


def _checksum(address: Address) -> str:
    """Of the stored bytes, as `tidegate.formats.reader.CheckedFile.sha256`."""
    digest = hashlib.sha256()
    with address.open() as content:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _named(keys: list[str] | dict[str, list[int]]) -> str:
    more = ", …" if len(keys) > _NAMED else ""
    return f": {', '.join(sorted(keys)[:_NAMED])}{more}" if keys else ""


def _source(flow: Flow) -> FileSource:
    if not isinstance(flow.source, FileSource):
        raise RequestError(
            f"flow {flow.name!r} reads no landing folder", Edit("name a flow with a FileSource", "request")
        )
    return flow.source
