"""What a flow has still to read of its source, from its checkpoint and a probe of the source. Needs no JVM.

Only committed batches count as read: a batch that was planned and not committed is run again. `tidegate.status.lag` makes
sentences and decisions of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.checkpoints import progress
from tidegate.errors import OffsetsExpiredError
from tidegate.probes import delta, files
from tidegate.wording import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tidegate.checkpoints.progress import PlannedBatch
    from tidegate.spec import ChangeFeed, FileSource

_NAMED = 3
"""So many files are named, of however many there are."""
NOTHING_READ = "nothing read"


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """What is still to read."""

    what: str
    """In words: ``3 new files in flights``, or ``nothing new in flights``."""
    behind: int
    """Files, messages or versions of a table."""
    rows: int | None
    size: int | None
    """Bytes."""
    rows_exact: bool
    size_exact: bool
    position: str
    """Up to where everything is read and committed."""
    anything: bool
    """Whether a run would find rows."""
    ahead: str = ""
    """Exactly what is to be read: ``a.csv, b.csv``, ``offsets 0:15-19 1:10-14``, ``versions 3 to 5``; empty for nothing."""
    rewritten: int = 0
    """Files that changed after they were read; the file source does not see that."""
    ignored: int = 0
    """Files in the landing folder that are hidden, do not fit the glob, or are too old."""
    passed_over: str = ""
    """In words, such of them as somebody may miss; empty where there are none."""
    begins: Mapping[int, int] = field(default_factory=dict)
    """Of a topic: partition to the first offset that it holds."""
    unread: Mapping[int, int] = field(default_factory=dict)
    """Of a topic: partition to the offset that is read next, of those that hold one."""


def of_files(folder: Path, source: FileSource, checkpoint: Path, committed: PlannedBatch | None) -> Backlog:
    """Files of a landing folder that no committed batch listed.

    Raises:
        SourceError: The folder is missing or cannot be read.
        CheckpointCorruptError: The checkpoint's log of files cannot be read.
    """
    up_to = -1 if committed is None else committed.log_offset
    seen = {file.path: file.modified_ms for file in progress.source_files(checkpoint, up_to=up_to)}
    listing = files.list_files(folder, source.glob)
    new = tuple(file for file in listing.files if file.path not in seen)
    rewritten = sum(file.modified_ms != seen.get(file.path, file.modified_ms) for file in listing.files)
    return Backlog(
        what=f"{count(len(new), 'new file')} in {source.path}" if new else f"nothing new in {source.path}",
        behind=len(new),
        rows=_rows_of_files(new, source) if new else 0,
        size=sum(file.size for file in new),
        rows_exact=not new,
        size_exact=True,
        position=NOTHING_READ if committed is None else f"{count(len(seen), 'file')} read",
        # A crash between listing and planning leaves listed files that may have vanished since; the stream plans them.
        anything=bool(new) or progress.newest_log_batch(checkpoint) > up_to,
        ahead=_named([file.path.removeprefix(f"{folder}/") for file in new]),
        rewritten=rewritten,
        ignored=listing.ignored,
        passed_over=_passed_over(listing, source.glob),
    )


def _passed_over(listing: files.Listing, glob: str) -> str:
    """What lies in the folder and is not read, for people; empty for nothing."""
    left_out = []
    if listing.unfit:
        verb = "does" if listing.unfit == 1 else "do"
        left_out.append(f"{count(listing.unfit, 'file')} in the folder that {verb} not fit {glob}")
    if listing.special:
        verb = "is" if listing.special == 1 else "are"
        left_out.append(f"{listing.special:,} in the folder that {verb} no regular file (a pipe, a socket or a device)")
    return f"not read: {', '.join(left_out)}" if left_out else ""


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(sorted(names)[:_NAMED]) + more


def _rows_of_files(new: tuple[files.LandedFile, ...], source: FileSource) -> int | None:
    # The records of a Parquet or Avro file are no lines that could be counted from its beginning.
    if source.format in ("parquet", "avro"):
        return None
    return files.estimate_rows(new, has_header=source.format == "csv" and source.dialect.header)


def of_table(path: Path, source: ChangeFeed, committed: PlannedBatch | None) -> Backlog:
    """Changes of a Delta table that no committed batch holds; for a checkpoint never used, the whole table.

    Raises:
        OffsetsExpiredError: The table's log no longer goes back that far, VACUUM removed a file that is to be read, or the
            table is gone or was replaced.
        CheckpointCorruptError: The checkpoint's offsets are torn.
    """
    newest = delta.current_version(path)
    if newest is not None:
        return (
            _whole_table(path, source, newest) if committed is None else _rest_of_feed(path, source, newest, committed)
        )
    if committed is not None:
        raise _expired_versions(source.table, "it is gone")
    return Backlog(
        what=f"waits: {source.table} does not exist yet",
        behind=0,
        rows=0,
        size=0,
        rows_exact=True,
        size_exact=True,
        position=NOTHING_READ,
        anything=False,
    )


def _whole_table(path: Path, source: ChangeFeed, newest: int) -> Backlog:
    found = delta.snapshot_files(path)
    rows = _sum([file.rows for file in found])
    empty = not found or rows == 0
    return Backlog(
        what=f"{source.table} is empty" if empty else f"all of {source.table}, version {newest}, is to be read",
        behind=0 if empty else newest + 1,
        rows=rows,
        size=sum(file.size for file in found),
        rows_exact=rows is not None,
        size_exact=True,
        position=NOTHING_READ,
        anything=not empty,
    )


def _rest_of_feed(path: Path, source: ChangeFeed, newest: int, committed: PlannedBatch) -> Backlog:
    at = committed.delta
    if at.version > newest + 1:
        raise _expired_versions(
            source.table, f"it ends at version {newest}, the checkpoint read up to {at.version - 1}"
        )
    left: list[delta.ChangedFile] = []
    rows: list[int | None] = []
    try:
        if at.of_snapshot:
            left = delta.snapshot_files(path, at.version)[at.index + 1 :]
            rows = [file.rows for file in left]
        commits = delta.commits_since(path, at.version + at.of_snapshot)
    except FileNotFoundError:
        raise _expired_versions(source.table, f"its log no longer holds version {at.version}") from None
    if at.table_id not in ({commit.table_id for commit in commits if commit.table_id} or {delta.table_id(path)}):
        raise _expired_versions(source.table, "it was replaced by another table of that name")
    gone = [] if delta.are_there(path, left) else [at.version]
    ahead = [at.version] if left else []
    for commit in commits:
        begun = commit.version == at.version and at.index >= 0
        # A commit with change files is admitted whole, so one that was begun is done.
        rest = commit.files if not begun else () if commit.whole else commit.files[at.index + 1 :]
        if rest:
            if not delta.are_there(path, rest):
                gone.append(commit.version)
            ahead.append(commit.version)
            left += rest
            rows += [file.rows for file in rest] if begun else [commit.rows]
    if gone:
        raise _expired_versions(
            source.table, f"files of {_versions_told(gone)} were removed by VACUUM before they were read"
        )
    total, behind = _sum(rows), len(ahead)
    return Backlog(
        what=f"{count(behind, 'new version')} of {source.table}" if behind else f"nothing new in {source.table}",
        behind=behind,
        rows=total,
        size=sum(file.size for file in left),
        rows_exact=total is not None,
        size_exact=True,
        position=at.told(),
        anything=behind > 0,
        ahead=_versions_told(ahead),
    )


def _versions_told(versions: Sequence[int]) -> str:
    if len(versions) < 2:
        return "".join(f"version {version}" for version in versions)
    return f"versions {versions[0]} to {versions[-1]}"


def _sum(counts: list[int | None]) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)


def _expired_versions(table: str, why: str) -> OffsetsExpiredError:
    return OffsetsExpiredError(
        f"table {table} no longer holds what the checkpoint reads next: {why}. Restore the table, or raise "
        "checkpoint_version so that the flow derives its target anew from what the table holds now."
    )
