"""Compares files that have another time than when they were read by checksum, before anything of them is read again.

A file that is the one that was read gets one more time (`tidegate.checkpoints.landing_folder.MOVED_FILES`), under the lease of the flow.
A process that dies before it is noted leaves nothing: the next one compares the file again. Also the checksum of a file that differs is
noted, so that no file is opened twice for one time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.checkpoints.landing_folder import MOVED_FILES, ComparedContent, MovedFiles
from tidegate.errors.classification import raise_machine
from tidegate.formatting import count
from tidegate.lake.file_id import FileId
from tidegate.probes import files
from tidegate.probes.files import LandedFile
from tidegate.spec import FileSource
from tidegate.spec.checks import in_bytes
from tidegate.status import changed_files

if TYPE_CHECKING:
    from tidegate.spark.job import Job
    from tidegate.status.file_contents import FileContents


def compare_touched(job: Job, times: Mapping[str, int], changed: list[LandedFile]) -> None:
    """Compare the landed files that the stream has read with another time, and will not read again.

    At most as many files and bytes as a micro-batch may have, but one file; the next run compares the others.

    Args:
        times: Of the files that the stream has read, by path, in milliseconds since 1970.
        changed: The landed files that have another time.

    Raises:
        MachineError: The machine does not let a file be read.
        WriteConflictError: A person has accepted files meanwhile. Transient.
    """
    unread = changed_files.unread(job.place, job.flow, times, changed)
    if unread.contents is None:
        return
    source = job.flow.source
    assert isinstance(source, FileSource)
    bounded = _bounded(unread.touched, source.max_files_per_trigger, in_bytes(source.max_bytes_per_trigger))
    same_files(job, [file.id for file in bounded], unread.contents)
    left = len(unread.touched) - len(bounded)
    if left:
        verb = "has" if left == 1 else "have"
        job.run.report.notes.append(
            f"{count(left, 'more file')} {verb} another time and the same size: the next run compares them"
        )


def same_files(job: Job, changed: Iterable[FileId], contents: FileContents) -> set[FileId]:
    """Those of some files that have the content which was read last; raises as `compare_touched`.

    Args:
        changed: Files that were not read with the times that they have now.
        contents: What was read of them.
    """
    landing_zone, folder = job.place.layout.landing_root, contents.folder
    same, compared = set[FileId](), dict[str, ComparedContent]()
    for file in changed:
        key = folder.key(file.path)
        if not contents.of_key(key):
            continue
        try:
            address = landing_zone.of_uri(file.path)
            entry = address.stat()
            known = {each.checksum for each in contents.newest(file, entry.size)} - {None}
            # Opening a pipe would block until another process writes to it.
            if not known or entry.kind != "content":
                continue
            checksum = folder.checksum(file) or files.checksum(address)
        except (OSError, ValueError) as error:
            # Who reads it says what is wrong with it.
            raise_machine(error)
            continue
        compared[key] = contents.compared(file, checksum)
        if checksum in known:
            same.add(file)
    if compared:
        MOVED_FILES.change(job.place, lambda known: (known or MovedFiles()).with_compared(compared))
        job.run.report.notes.append(
            f"{count(len(compared), 'file')} with another time and the same size compared: {len(same):,} the same as when read"
        )
    return same


def _bounded(touched: Sequence[LandedFile], most_files: int, most_bytes: int) -> list[LandedFile]:
    bounded, total = list[LandedFile](), 0
    for file in touched[:most_files]:
        total += file.size
        if bounded and total > most_bytes:
            break
        bounded.append(file)
    return bounded
