"""What a flow declares that keeps the history of snapshots."""

from __future__ import annotations

from tidegate.advice import Edit, Then
from tidegate.errors import RequestError
from tidegate.kinds import snapshots
from tidegate.spec.kinds import DeclaredFlow, FlowKind


def _not_replayed(flow: DeclaredFlow) -> RequestError:
    return RequestError(
        f"entries of flow {flow.name!r} are not replayed: what a record of a snapshot means depends on the others of its key.",
        Then(
            Edit("correct the suite or the transform", "suite"),
            Edit("use mode='backfill' or 'full_refresh'", "request"),
        ),
    )


KIND = FlowKind(
    name="snapshot_histories",
    shapes=(("upsert", False), ("upsert", True)),
    holds_batches="that compares snapshots: a newer snapshot takes the place of a held one",
    follows_feed=False,
    superseded_by="a newer snapshot",
    not_there="its snapshot was not compared, or says of the key what the snapshot before it says",
    refuses={"take": snapshots.not_taken("end every version"), "replay": _not_replayed},
    check=snapshots.KIND.check,
    check_writer=snapshots.check_writer,
)
