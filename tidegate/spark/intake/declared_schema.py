"""Records how the declared schema of a flow changed between its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.lake.place import Place
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.schema.changes import SchemaChange
    from tidegate.spark.job import Run


def record_declared(place: Place, resolved: ResolvedFlow, run: Run) -> None:
    """Record in the history how the declared schema changed since the last run of the flow, and store the current one.

    Call it after `tidegate.checkpoints.checkpoint.check_compatible`, which refuses changes that need a new checkpoint version.
    """
    version, changes = checkpoint.schema_changes(place.layout, resolved)
    if changes:
        _record(place, resolved, run, version, changes)
    checkpoint.write_schema(place.layout, resolved)


def _record(place: Place, resolved: ResolvedFlow, run: Run, version: int, changes: Sequence[SchemaChange]) -> None:
    # Few runs find a change.
    from tidegate.ops import evolution

    lines = [
        evolution.SchemaHistoryLine(
            flow=place.flow,
            event="declared",
            change=change,
            decision="keep_checkpoint" if version == place.version else "new_version",
            version_before=version,
            version_after=place.version,
            breaks=() if change.keeps_checkpoint else resolved.readers,
            run_key=run.request.run_key,
        )
        for change in changes
    ]
    evolution.record(place.of_pipeline, lines)
