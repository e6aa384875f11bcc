"""What is known of the history of the tables that a checkpoint reads and writes, before their logs are read. Starts no JVM.

The note beside the checkpoint says it. Where the note is missing or older than the checkpoint, the commits of the flow do, which carry
the same positions; and the ledger and Spark's own files say which batch the table must have.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.checkpoints import history, progress
from tidegate.errors import CheckpointCorruptError, TidegateError
from tidegate.probes import delta, delta_history
from tidegate.spec import FileSource
from tidegate.table_history import Doubt

if TYPE_CHECKING:
    from tidegate.checkpoints.history import History
    from tidegate.checkpoints.progress import DeltaPosition, Progress
    from tidegate.layout import Layout
    from tidegate.place import Place
    from tidegate.spec import Flow, Pipeline


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of the tables of a checkpoint."""

    known: History
    doubt: Doubt | None = None
    """A batch that the target must have and lacks."""


def read(layout: Layout, pipeline: Pipeline, flow: Flow, ref: Place) -> Evidence:
    """The evidence about the tables of one checkpoint.

    Raises:
        TableUnreadableError: A file of the log of a table is damaged.
    """
    note = history.read(ref)
    try:
        state = progress.read(ref.checkpoint)
    except CheckpointCorruptError:
        # An error of the flow itself, not of those that read its table.
        return Evidence(known=note or history.History())
    committed = state.last_committed
    if committed is None or (note is not None and note.batch is not None and note.batch >= committed):
        return Evidence(known=note or history.History())
    positions = {} if note is None else dict(note.positions)
    for path in own_tables(layout, pipeline, flow, ref):
        last = delta_history.last_of(path, ref.app_id)
        carried = {} if last is None else {**last.stands_on, history.key(layout, path): last.position}
        for name, position in carried.items():
            if name not in positions or position.version > positions[name].version:
                positions[name] = position
    known = history.History(batch=committed, positions=positions, foreign=() if note is None else note.foreign)
    return Evidence(known=known, doubt=None if flow.kind.sends else _lost_batch(layout, pipeline, flow, ref, state))


def own_tables(layout: Layout, pipeline: Pipeline, flow: Flow, ref: Place) -> tuple[Path, ...]:
    """The tables that a flow writes, with the staging table of its checkpoint and the live one last; some may not exist."""
    if flow.kind.sends:
        return ()
    names = (pipeline.name, flow.name)
    staging = layout.staging(*names, ref.version, ref.refresh)
    return (layout.quarantine(*names), layout.late(*names), staging, layout.table(flow.target.name))


def _lost_batch(layout: Layout, pipeline: Pipeline, flow: Flow, ref: Place, state: Progress) -> Doubt | None:
    """The target lacks a batch that the ledger has, or that the checkpoint has committed and that had rows."""
    *_, staging, live = own_tables(layout, pipeline, flow, ref)
    batches = [delta.transaction_version(path, ref.app_id) for path in (staging, live)]
    written = max((batch for batch in batches if batch is not None), default=-1)
    recorded = delta.transaction_version(layout.ops(pipeline.name, "ledger"), ref.app_id)
    evidence = "the ledger has"
    if recorded is None or recorded <= written:
        recorded, evidence = (
            _last_with_rows(layout, pipeline, flow, ref, state, written),
            "the checkpoint has committed",
        )
    if recorded is None:
        return None
    newest = delta.current_version(live)
    lacks = (
        "which does not exist"
        if newest is None
        else "which lacks it"
        if written < 0
        else f"whose last batch is {written}"
    )
    return Doubt(
        table=flow.target.name,
        reason="lost",
        what=f"{evidence} batch {recorded} of {ref.app_id} in this table, {lacks}",
        version=0 if newest is None else newest + 1,
    )


def _last_with_rows(
    layout: Layout, pipeline: Pipeline, flow: Flow, ref: Place, state: Progress, written: int
) -> int | None:
    """The last committed batch behind ``written`` that certainly had rows; None if none is known to have had any.

    A batch without rows writes nothing. Offsets of a topic count also messages that no reader sees, and those of a join or of a stateful
    flow do not say whether it wrote.
    """
    assert state.last_committed is not None
    folder = ref.checkpoint
    try:
        for batch in range(state.last_committed, max(written, progress.oldest_planned(folder, written + 1) - 1), -1):
            if _had_rows(layout, pipeline, flow, folder, batch):
                return batch
    except (TidegateError, FileNotFoundError):
        # Logs that are cleaned or damaged prove nothing; where they matter, others say so.
        return None
    return None


def _had_rows(layout: Layout, pipeline: Pipeline, flow: Flow, folder: Path, batch: int) -> bool:
    """Whether a committed batch certainly had rows, so that the target has a commit of it."""
    if isinstance(flow.source, FileSource):
        return any(not Path(file.path).name.startswith("_") for file in progress.batch_files(folder, batch))
    if len(flow.feeds) != 1 or flow.state is not None or flow.target.windows is not None or flow.kind.snapshots:
        return False
    table = flow.feeds[0].table
    writer = pipeline.writer_of(table)
    is_keyed = writer is not None and bool(writer.target.keys)
    if flow.kind.has_groups and (writer is None or (writer.target.replace_by and writer.target.sequence_by)):
        # Tombstones of scopes name no group.
        return False
    before = progress.planned_batch(folder, batch - 1).delta if batch else None
    return _has_rows(layout.table(table), before, progress.planned_batch(folder, batch).delta, is_keyed=is_keyed)


def _has_rows(path: Path, before: DeltaPosition | None, until: DeltaPosition, *, is_keyed: bool) -> bool:
    """Whether the feed of a table has rows between two positions; of a commit that was read in part, the first files have some."""
    if before is None:
        return any(file.rows for file in delta.snapshot_files(path, until.pin))
    first = before.version + (before.of_snapshot or before.index >= 0)
    behind = until.version + (until.index >= 0 and not until.of_snapshot)
    commits = (delta.read_commit(path, version) for version in range(first, behind))
    # Of a table without keys, rows that were changed or deleted are not read.
    return any(
        commit.rows and (is_keyed or (not commit.has_change_files and delta.only_adds(path, commit.version)))
        for commit in commits
    )
