"""The changes of tables: those in no committed batch, and the whole tables, which a manual run reads. Needs no JVM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.advice import Either, OutsideAct, recover_command
from tidegate.checkpoints import vector
from tidegate.checkpoints.progress import DeltaPosition, PlannedBatch
from tidegate.errors import OffsetsExpiredError
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.probes import delta, delta_log
from tidegate.status.source import NOTHING_READ, Backlog, Extent, MeasuredSource, absent, together, total_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegate.environment import Environment
    from tidegate.lake.place import Place
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.requests.request import RunRequest
    from tidegate.spec import ChangeFeed, Flow, Pipeline
    from tidegate.status.checkpoint_reading import CheckpointReading
    from tidegate.store import Address


def _backlog(reading: CheckpointReading) -> Backlog:
    return _with_lakes(
        backlog_of(reading.resolved, reading.place, reading.committed), reading.layout, reading.resolved.flow
    )


def _with_lakes(backlog: Backlog, layout: Layout, flow: Flow) -> Backlog:
    """The backlog, which names the environments in whose lakes the tables are read, or could be."""
    if layout.source is None:
        return backlog
    read = {layout.of_table(table).owner.environment for table in flow.source_tables}
    if others := sorted(read - {layout.owner.environment}):
        return replace(backlog, what=f"{backlog.what} (in {', '.join(others)})")
    for table in flow.source_tables:
        above = layout.source.of_table(table)
        if table in layout.written and not layout.table(table).exists() and above.table(table).exists():
            hint = f"to read that of {above.owner.environment}, do not run the flow that writes it"
            return replace(backlog, what=f"{backlog.what}; {hint}")
    return backlog


def backlog_of(resolved: ResolvedFlow, place: Place, committed: PlannedBatch | None) -> Backlog:
    """What a flow has not read of its tables; raises as `of_table`."""
    flow = resolved.flow
    beats = resolved.heartbeats(place.layout)
    if beats is not None:
        return of_stateful(place.layout, flow.feeds[0], beats, committed)
    return of_tables(place.layout, flow.feeds, committed, vector.starts(place))


def of_table(address: Address, source: ChangeFeed, committed: PlannedBatch | None) -> Backlog:
    """Changes of a Delta table that are in no committed batch; for an unused checkpoint, the whole table.

    Raises:
        OffsetsExpiredError: The table's log was cleaned up past the next version, VACUUM removed a file that is to be read,
            or the table was deleted or replaced.
        CheckpointCorruptError: A file of the checkpoint's offset log is truncated.
    """
    position = None if committed is None else committed.delta
    _check_first_load(address, source, committed, position)
    return _of_position(address, source, position)


def of_tables(
    layout: Layout, feeds: Sequence[ChangeFeed], committed: PlannedBatch | None, starts: Mapping[str, int]
) -> Backlog:
    """Changes of the tables of all feeds that are in no committed batch.

    Args:
        feeds: The first is read from its whole table on.
        committed: The last committed batch.
        starts: The version after which each other table is read (`tidegate.checkpoints.vector`); empty before the checkpoint
            begins, which is then the newest version.

    Raises:
        TidegateError: As `of_table`.
    """
    if len(feeds) == 1:
        return of_table(layout.read_table(feeds[0].table), feeds[0], committed)
    positions = (None,) * len(feeds) if committed is None else committed.delta_positions(len(feeds))
    backlogs = []
    for number, (feed, position) in enumerate(zip(feeds, positions, strict=True)):
        path = layout.read_table(feed.table)
        newest = delta.current_version(path)
        if not number:
            _check_first_load(path, feed, committed, position)
        if position is None and number and newest is not None:
            first = starts.get(feed.table, newest) + 1
            position = DeltaPosition(table_id=delta.table_id(path), version=first, index=-1, of_snapshot=False)
        backlogs.append(_of_position(path, feed, position))
        if newest is None:
            # Nothing is read before all tables exist.
            return backlogs[-1]
    return _together(feeds, backlogs)


def of_stateful(layout: Layout, feed: ChangeFeed, beats: Address, committed: PlannedBatch | None) -> Backlog:
    """Rows of the source of a stateful flow that are in no committed batch, and unread heartbeats, which its query reads as well.

    Raises:
        TidegateError: As `of_table`.
    """
    beat, position = (None, None) if committed is None else committed.delta_positions(2)
    _check_first_load(layout.read_table(feed.table), feed, committed, position)
    rows = _of_position(layout.read_table(feed.table), feed, position)
    if rows.has_data or not has_unread_rows(beats, beat):
        return rows
    return replace(rows, has_data=True, what=f"a heartbeat of {feed.table}")


def has_unread_rows(address: Address, position: DeltaPosition | None) -> bool:
    """Whether a small table that is only appended to has rows after a position; False if it does not exist."""
    if delta.current_version(address) is None:
        return False
    if position is None:
        return bool(delta.snapshot_files(address))
    try:
        return any(commit.files for commit in delta.commits_since(address, position.version))
    except FileNotFoundError:
        # Spark then says what is missing.
        return True


def _together(feeds: Sequence[ChangeFeed], backlogs: Sequence[Backlog]) -> Backlog:
    """One backlog of several tables; its numbers are sums. A table that several feeds read counts once, with its larger backlog."""
    by_table: dict[str, Backlog] = {}
    for feed, backlog in zip(feeds, backlogs, strict=True):
        known = by_table.get(feed.table)
        by_table[feed.table] = backlog if known is None else max(known, backlog, key=lambda each: each.behind)
    return together(by_table)


def _check_first_load(
    address: Address, source: ChangeFeed, committed: PlannedBatch | None, position: DeltaPosition | None
) -> None:
    """Check that Spark can start again after the only batch of a checkpoint: it then opens the version up to which the batch read."""
    if committed is None or committed.batch_id > 0 or position is None or delta.current_version(address) is None:
        return
    # ``DeltaSource.extractStartingState``
    loaded = position.version if position.of_snapshot else position.version - 1
    if delta_log.oldest_version(address) > loaded >= 0:
        raise _expired_versions(
            source.table, f"its log no longer holds version {loaded}, which the first batch has read"
        )


def _of_position(address: Address, source: ChangeFeed, position: DeltaPosition | None) -> Backlog:
    newest = delta.current_version(address)
    if newest is not None:
        return (
            _full_table(address, source, newest)
            if position is None
            else _remaining_changes(address, source, newest, position)
        )
    if position is not None:
        raise _expired_versions(source.table, "it was deleted")
    return absent(f"waits: {source.table} does not exist yet")


def _full_table(address: Address, source: ChangeFeed, newest: int) -> Backlog:
    files_of_table = delta.snapshot_files(address)
    rows = total_or_none([file.rows for file in files_of_table])
    empty = not files_of_table or rows == 0
    return Backlog(
        what=f"{source.table} is empty" if empty else f"all of {source.table}, version {newest}",
        behind=0 if empty else newest + 1,
        rows=rows,
        size=sum(file.size for file in files_of_table),
        rows_exact=rows is not None,
        position=NOTHING_READ,
        has_data=not empty,
    )


def _remaining_changes(address: Address, source: ChangeFeed, newest: int, position: DeltaPosition) -> Backlog:
    if position.version > newest + 1:
        raise _expired_versions(
            source.table, f"it ends at version {newest}, but the checkpoint has read up to {position.version - 1}"
        )
    remaining: list[delta.ChangedFile] = []
    rows: list[int | None] = []
    try:
        if position.of_snapshot:
            remaining = delta.snapshot_files(address, position.version)[position.index + 1 :]
            rows = [file.rows for file in remaining]
        commits = delta.commits_since(address, position.version + position.of_snapshot)
    except FileNotFoundError:
        raise _expired_versions(source.table, f"its log no longer holds version {position.version}") from None
    # Where nothing is unread, the history of the table says whether it is the same one; so no table is opened.
    of_commits = {commit.table_id for commit in commits if commit.table_id}
    if (commits or position.of_snapshot) and position.table_id not in (of_commits or {delta.table_id(address)}):
        raise _expired_versions(source.table, "another table of that name replaced it")
    deleted = [] if delta.all_exist(address, remaining) else [position.version]
    ahead = [position.version] if remaining else []
    for commit in commits:
        partly_read = commit.version == position.version and position.index >= 0
        # Delta admits a commit with change files as a whole (`whole`), so a partly read one is complete.
        unread_files = (
            commit.files if not partly_read else () if commit.has_change_files else commit.files[position.index + 1 :]
        )
        if unread_files:
            if not delta.all_exist(address, unread_files):
                deleted.append(commit.version)
            ahead.append(commit.version)
            remaining += unread_files
            rows += [file.rows for file in unread_files] if partly_read else [commit.rows]
    if deleted:
        raise _expired_versions(
            source.table, f"files of {_version_range(deleted)} were removed by VACUUM before they were read"
        )
    total, behind = total_or_none(rows), len(ahead)
    since = delta.commit_ms(address, ahead[0]) if ahead else None
    return Backlog(
        what=f"{count(behind, 'new version')} of {source.table}" if behind else f"nothing new in {source.table}",
        behind=behind,
        rows=total,
        size=sum(file.size for file in remaining),
        rows_exact=total is not None,
        position=position.summary(),
        has_data=behind > 0,
        ahead=_version_range(ahead),
        unread_since_ms=since,
        unread_until_ms=None if since is None else delta.kept_until_ms(address, since),
    )


def _version_range(versions: Sequence[int]) -> str:
    if len(versions) < 2:
        return "".join(f"version {version}" for version in versions)
    return f"versions {versions[0]} to {versions[-1]}"


def _expired_versions(table: str, why: str) -> OffsetsExpiredError:
    return OffsetsExpiredError(
        f"table {table} no longer has the changes that the checkpoint reads next: {why}.",
        Either(OutsideAct("restore the table"), recover_command(table)),
    )


def extent(environment: Environment, _pipeline: Pipeline, flow: Flow, _request: RunRequest) -> Extent:
    """The source tables, which a manual run reads completely, whatever its window."""
    layout, tables = Layout.of(environment), flow.source_tables
    whats, sizes = [], [rows_and_bytes(layout.read_table(table)) for table in tables]
    for table in tables:
        version = delta.current_version(layout.read_table(table))
        whats.append(f"{table}, which does not exist yet" if version is None else f"{table} at version {version}")
    rows, size = ([each for each in counts if each is not None] for counts in zip(*sizes, strict=True))
    known = len(tables)
    return Extent(
        what="; ".join(whats),
        rows=sum(rows) if len(rows) == known else None,
        size=sum(size) if len(size) == known else None,
    )


def rows_and_bytes(address: Address) -> tuple[int | None, int | None]:
    """Rows and bytes of a table by its log; None without the table, or if a file has no statistics."""
    if delta.current_version(address) is None:
        return None, None
    data_files = delta.snapshot_files(address)
    rows = None if any(file.rows is None for file in data_files) else sum(file.rows or 0 for file in data_files)
    return rows, sum(file.size for file in data_files)


SOURCE = MeasuredSource(backlog=_backlog, extent=extent)
