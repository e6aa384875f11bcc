"""The history of a pipeline's schema changes, with the decision about each change and who made it.

A Delta table per pipeline, ``_ops/<pipeline>/evolution``, written with delta-rs like the ledger: by jobs, by the DAG
`schema_approval` and by ``tidegate contract``. Lines are only appended. Starts no JVM.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from tidegate import json_codec
from tidegate.advice import Edit
from tidegate.checkpoints import checkpoint, progress
from tidegate.checkpoints.refusal import REFUSAL
from tidegate.errors import RequestError
from tidegate.errors.refusals import ContractRefusal
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops.table import OwnTable, Small
from tidegate.project.fingerprints import fingerprint
from tidegate.schema.changes import SchemaChange
from tidegate.schema.contract import Action, Answer, Terms
from tidegate.schema.ddl import parse_ddl

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout
    from tidegate.project.resolution import ResolvedFlow, ResolvedPipeline
    from tidegate.spec import LandingSource

Event = Literal["declared", "observed", "refused", "answered"]
"""``declared``: the declared schema changed. ``observed``: a batch has the change, and the contract decided. ``refused``: the
contract refused a batch with the change, which waits for an answer. ``answered``: a person answered."""


@dataclass(frozen=True, kw_only=True)
class SchemaHistoryLine:
    """One change of a schema, and the decision about it."""

    flow: str
    """The flow that parses."""
    event: Event
    """``declared``, ``observed``, ``refused`` or ``answered``."""
    change: SchemaChange
    decision: Action | Literal["keep_checkpoint", "new_version"]
    """The action of the contract or the answer; for ``declared``, whether the change needed a new checkpoint version."""
    schema_change_id: str = ""
    """Id of the refused schema change that this change is part of (`tidegate.schema.changes.fingerprint`); else empty."""
    decided_by: str = ""
    """The person who answered; empty if the contract or the declaration decided."""
    version_before: Small
    """Checkpoint version."""
    version_after: Small
    breaks: tuple[str, ...] = ()
    """``<pipeline>/<flow>`` of the flows that read the flow's table and may depend on the changed field."""
    app_id: str | None = None
    """The transaction id that ``batch_id`` belongs to (`tidegate.lake.identity`); None, like it, for a declared change."""
    batch_id: int | None = None
    run_key: str = ""
    recorded_at: datetime = dataclasses.field(default_factory=lambda: datetime.now(UTC))

    def same_as(self, other: SchemaHistoryLine) -> bool:
        """Whether both describe the same change and decision, regardless of the time and, unless it was refused, of the batch.

        Each refused batch has lines of its own: they are all that is recorded about it.
        """
        ignored: dict[str, Any] = {"run_key": "", "recorded_at": other.recorded_at, "breaks": ()}
        if self.event != "refused":
            ignored |= {"app_id": None, "batch_id": None}
        return dataclasses.replace(self, **ignored) == dataclasses.replace(other, **ignored)


EVOLUTION = OwnTable("evolution", SchemaHistoryLine)
read = EVOLUTION.read


def record(place: PipelinePlace, lines: Iterable[SchemaHistoryLine]) -> list[SchemaHistoryLine]:
    """Append the lines that the table does not have yet, in one commit, and return them."""
    wanted = list(lines)
    existing = read(place) if wanted else []
    new: list[SchemaHistoryLine] = []
    for line in wanted:
        if not any(line.same_as(other) for other in [*existing, *new]):
            new.append(line)
    EVOLUTION.append(place, new)
    return new


def terms(place: FlowPlace, source: LandingSource) -> Terms:
    """The contract of a flow's landing source, with the decisions about earlier schema changes."""
    columns = parse_ddl("schema", source.schema)
    declared = {column.name.lower() for column in columns}
    evolved: dict[str, str] = {}
    added: set[str] = set()
    answers: dict[str, Answer] = {}
    for line in read(place.of_pipeline):
        if line.flow != place.flow:
            continue
        name = line.change.field
        if line.event == "observed" and line.decision == "evolve" and name.lower() not in declared:
            evolved.setdefault(name, line.change.after or "string")
        if line.change.kind in ("addition", "rename_suspect"):
            added.add(name)
        if line.event == "answered":
            answers[line.change.identity()] = cast("Answer", line.decision)
    return Terms(contract=source.contract, evolved=evolved, added=frozenset(added), answers=answers, columns=columns)


def open_schema_changes(layout: Layout, resolved: ResolvedPipeline) -> dict[str, list[SchemaHistoryLine]]:
    """The refused schema changes for whose answer a batch waits: id to the lines of the change."""
    ids = {open_schema_change(layout, flow) for flow in resolved.flows} - {None}
    lines: dict[str, list[SchemaHistoryLine]] = {}
    for line in read(resolved.place(layout)) if ids else ():
        if line.event == "refused" and line.schema_change_id in ids:
            lines.setdefault(line.schema_change_id, []).append(line)
    return {schema_change_id: _newest(each) for schema_change_id, each in lines.items()}


def _newest(lines: Iterable[SchemaHistoryLine]) -> list[SchemaHistoryLine]:
    """The newest line of each change: several batches may have been refused for it."""
    return list({line.change: line for line in lines}.values())


def open_schema_change(layout: Layout, resolved: ResolvedFlow) -> str | None:
    """The id of the schema change for whose answer a flow's pending batch waits; None if the next run tries the batch.

    A refused batch no longer waits once its schema change is answered, or the schema or contract that refused it has changed.
    The refusal is recorded in a small file, so the check is cheap when nothing waits.
    """
    place = checkpoint.current(resolved.place(layout), resolved.flow.checkpoint_version)
    refused = REFUSAL.read(place)
    if not isinstance(refused, ContractRefusal):
        return None
    if refused.batch_id != progress.read(place.checkpoint).pending_batch:
        return None
    if resolved.landing is None or refused.declared != declared_fingerprint(resolved.landing):
        return None
    schema_change_id = refused.schema_change_id
    return None if is_answered(place.of_pipeline, schema_change_id) else schema_change_id


def is_answered(place: PipelinePlace, schema_change_id: str) -> bool:
    """Whether a person has answered a schema change."""
    return bool(answers(place, schema_change_id))


def answers(place: PipelinePlace, schema_change_id: str) -> list[SchemaHistoryLine]:
    """The answer to a schema change, one line for each of its changes; none before a person has answered."""
    lines = read(place)
    return [line for line in lines if line.event == "answered" and line.schema_change_id == schema_change_id]


def answer(place: PipelinePlace, schema_change_id: str, decision: Answer, by: str) -> Sequence[SchemaHistoryLine]:
    """Record a person's answer to a refused schema change; the flow's next run applies it.

    Args:
        decision: ``evolve`` or ``quarantine``.

    Returns:
        The appended lines; none if the same answer was given before.

    Raises:
        RequestError: There is no such schema change, or it already has a different answer.
    """
    earlier = answers(place, schema_change_id)
    if any(line.decision != decision for line in earlier):
        decided_by, at = earlier[0].decided_by or "a person", f"{earlier[0].recorded_at:%Y-%m-%dT%H:%M}"
        raise RequestError(
            f"schema change {schema_change_id!r} of {place.pipeline!r} has been answered: {decided_by} answered "
            f"{earlier[0].decision!r} on {at}.",
            Edit("to decide differently, change the source's contract", "request"),
        )
    if earlier:
        return []
    refused = refusals(place, schema_change_id)
    recorded_at = datetime.now(UTC)
    return record(
        place,
        [
            dataclasses.replace(line, event="answered", decision=decision, decided_by=by, recorded_at=recorded_at)
            for line in refused
        ],
    )


def refusals(place: PipelinePlace, schema_change_id: str) -> list[SchemaHistoryLine]:
    """The changes of a refused schema change, as a contract recorded them.

    Raises:
        RequestError: No batch was refused for it; the message names those that wait for an answer.
    """
    lines = read(place)
    refused = [line for line in lines if line.event == "refused" and line.schema_change_id == schema_change_id]
    if not refused:
        answered = {line.schema_change_id for line in lines if line.event == "answered"}
        open_ids = {
            line.schema_change_id: None
            for line in lines
            if line.event == "refused" and line.schema_change_id not in answered
        }
        raise RequestError(
            f"no batch of {place.pipeline!r} was refused for schema change {schema_change_id!r}",
            Edit(f"schema changes without an answer: {', '.join(open_ids) or 'none'}", "request"),
        )
    return _newest(refused)


def declared_fingerprint(source: LandingSource) -> str:
    """Hash of the schema, its renames, contract, formats, metadata and change records. When it has changed, a refused batch may pass."""
    parts = {name: json_codec.changed_fields(getattr(source, name)) for name in ("contract", "formats")}
    if source.changes is not None:
        parts["changes"] = json_codec.to_plain(source.changes)
    if source.fields:
        parts["fields"] = {"renamed": source.fields}
    # Of messages alone.
    if metadata := getattr(source, "metadata", None):
        parts["metadata"] = dict(metadata)
    return fingerprint({"schema": source.schema, **parts})
