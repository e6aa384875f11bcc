"""What a flow that compares snapshots declares."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.advice import Edit, Either, OutsideAct, Then
from tidegate.errors import FieldError, RequestError, SpecError
from tidegate.sources.files import FileSource
from tidegate.sources.snapshots import SnapshotFeed
from tidegate.spec.kinds import DeclaredFlow, FlowKind
from tidegate.spec.table import SNAPSHOT_AT, Table


def _check(owner: str, flow: DeclaredFlow) -> None:
    """Refuse a target whose rows cannot be compared with a snapshot by their keys alone, and that is no history of them."""
    source, target = flow.source, flow.target
    if not isinstance(source, SnapshotFeed):
        return
    if isinstance(target, Table) and target.history and target.sequence_by == (SNAPSHOT_AT,):
        return
    if not isinstance(target, Table) or target.write_mode != "recompute" or target.replace_by or target.windows:
        allowed = (
            "a table with keys alone for snapshots, without sequence_by, replace_by, history and windows: its rows are those of one; or "
            f"one with keys, sequence_by=({SNAPSHOT_AT!r},) and history='scd2'"
        )
        raise FieldError(owner, "target", target.name, allowed)
    if source.valid_from is not None:
        allowed = "None, or a target with history, whose versions begin there"
        raise FieldError(owner, "source.valid_from", source.valid_from, allowed)


def check_writer(_flow: DeclaredFlow, writer: DeclaredFlow, *, in_pipeline: bool) -> None:
    """Check that the files of the source say which of them are a snapshot, and when it is complete."""
    source, table = writer.source, writer.target.name
    if not in_pipeline:
        raise SpecError(
            f"its source {table!r} is written by another pipeline",
            Edit("declare the landing flow of the snapshots in this one", "declaration"),
        )
    if not isinstance(source, FileSource) or source.intervals is None or source.intervals.quiet_hours is not None:
        raise SpecError(
            f"nothing says when a snapshot in its source {table!r} is complete, so that rows which have not "
            "landed yet would be deleted",
            Edit(
                f"flow {writer.name!r} needs FileSource(…, intervals=Intervals(…)) with marker, manifest or "
                "files; a quiet period is a guess",
                "declaration",
            ),
        )
    if source.changes is not None:
        raise SpecError(
            f"the records of its source {table!r} are changes, which say themselves what they delete, and no "
            "rows of a snapshot",
            Either(Edit("read it with ChangeFeed", "declaration"), Edit("remove changes", "declaration")),
        )


def not_taken(consequence: str) -> Callable[[DeclaredFlow], RequestError]:
    """The refusal to quarantine a snapshot as a whole.

    Args:
        consequence: What a snapshot without its rows would do.
    """

    def refusal(flow: DeclaredFlow) -> RequestError:
        return RequestError(
            f"flow {flow.name!r} compares snapshots, and a snapshot without its rows would {consequence}",
            Either(
                Edit("correct its suite or its transform", "suite"),
                OutsideAct("land a newer snapshot, which takes the place of the refused one"),
            ),
        )

    return refusal


def _not_replayed(flow: DeclaredFlow) -> RequestError:
    return RequestError(
        f"entries of flow {flow.name!r} are not replayed: they are records of a snapshot, and only a whole one is compared.",
        Either(
            Then(Edit("correct the suite or the transform", "suite"), Edit("use mode='full_refresh'", "request")),
            OutsideAct("land the next snapshot"),
        ),
    )


KIND = FlowKind(
    name="snapshots",
    shapes=(("recompute", False), ("recompute", True)),
    holds_batches="that compares snapshots: a newer snapshot takes the place of a held one",
    follows_feed=False,
    # No row of a snapshot has a time: its flow derives the whole table, or compares the next one.
    derives_keys=False,
    superseded_by="a newer snapshot",
    # Bronze has the records of all snapshots, and none of a row that was deleted.
    instead_for_history="read the bronze table with SnapshotFeed",
    not_there="its snapshot was not compared, or the row was the same in an earlier one, or is another in a later one",
    refuses={"take": not_taken("empty the table"), "replay": _not_replayed},
    unit="key",
    check=_check,
    check_writer=check_writer,
)
