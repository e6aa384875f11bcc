"""The history of a pipeline's schemas: what changed, what was done about it, and who said so.

A Delta table per pipeline, ``_ops/<pipeline>/evolution``, written with delta-rs like the ledger: by jobs, by the DAG
`schema_approval` and by ``tidegate contract``. Lines are added and never changed. Starts no JVM.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import pendulum

from tidegate import registry
from tidegate.checkpoints import checkpoint, progress, refusal
from tidegate.errors import RequestError
from tidegate.fingerprints import fingerprint
from tidegate.ops import store
from tidegate.report import now
from tidegate.schema.contract import Action, Answer, Terms
from tidegate.schema.ddl import parse_ddl
from tidegate.schema.drift import Change

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from tidegate.layout import Layout
    from tidegate.spec import FileSource, Flow, KafkaSource, Pipeline

Event = Literal["declared", "observed", "refused", "answered"]
"""``declared``: a person changed the schema. ``observed``: a batch brought it, and the contract decided. ``refused``: the
batch waits for an answer. ``answered``: a person gave it."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One change, and what was done about it."""

    flow: str
    event: Event
    change: Change
    decision: Action | Literal["keep_checkpoint", "new_version"]
    """What was done; for ``declared``: whether the checkpoint version went on."""
    drift: str = ""
    """Which drift it is part of (`tidegate.schema.drift.fingerprint`); empty for a declared change."""
    decided_by: str = ""
    """Who answered; empty where the contract or the declaration decided."""
    version_before: int
    """Checkpoint version."""
    version_after: int
    breaks: tuple[str, ...] = ()
    """``<pipeline>/<flow>`` of those who read the flow's table and may rely on what changed."""
    app_id: str | None = None
    """Under which transaction id the batch counts (`tidegate.identity`); None in lines of older versions."""
    batch_id: int | None = None
    run_key: str = ""
    recorded_at: str = dataclasses.field(default_factory=now)

    def same_as(self, other: Line) -> bool:
        """Whether both say the same, whenever and by which batch."""
        aside = {"app_id": None, "batch_id": None, "run_key": "", "recorded_at": "", "breaks": ()}
        return dataclasses.replace(self, **aside) == dataclasses.replace(other, **aside)  # type: ignore[arg-type]  # known names


def read(layout: Layout, pipeline: str) -> list[Line]:
    """Every line, oldest first; none before the first change."""
    rows = store.select(_path(layout, pipeline), "SELECT * FROM held")
    # Not in SQL: what was recorded at one moment stays in the order in which it was written.
    return [_line(row) for row in sorted(rows, key=lambda row: cast("pendulum.DateTime", row["recorded_at"]))]


def record(layout: Layout, pipeline: str, lines: Iterable[Line]) -> list[Line]:
    """Add the lines that are not there yet, in one commit, and return those."""
    wanted = list(lines)
    held = read(layout, pipeline) if wanted else []
    fresh: list[Line] = []
    for line in wanted:
        if not any(line.same_as(other) for other in [*held, *fresh]):
            fresh.append(line)
    if fresh:
        store.append(_path(layout, pipeline), table_schema(), [_row(line) for line in fresh])
    return fresh


def terms(layout: Layout, pipeline: str, flow: str, source: FileSource | KafkaSource) -> Terms:
    """The contract of a flow's landing source, with what became of earlier drift."""
    columns = parse_ddl("schema", source.schema)
    declared = {column.name.lower() for column in columns}
    evolved: dict[str, str] = {}
    added: set[str] = set()
    answers: dict[str, Answer] = {}
    for line in read(layout, pipeline):
        if line.flow != flow:
            continue
        name = line.change.field
        if line.event == "observed" and line.decision == "evolve" and name.lower() not in declared:
            evolved.setdefault(name, line.change.after or "string")
        if line.change.kind in ("addition", "rename_suspect"):
            added.add(name)
        if line.event == "answered":
            answers[line.change.identity()] = cast("Answer", line.decision)
    return Terms(contract=source.contract, evolved=evolved, added=frozenset(added), answers=answers, columns=columns)


def waiting(layout: Layout, pipeline: Pipeline) -> dict[str, list[Line]]:
    """Drifts for whose answer a batch waits: the lines of each, by its name."""
    drifts = {waits_for(layout, pipeline, flow) for flow in pipeline.flows} - {None}
    found: dict[str, list[Line]] = {}
    for line in read(layout, pipeline.name) if drifts else ():
        if line.event == "refused" and line.drift in drifts:
            found.setdefault(line.drift, []).append(line)
    return found


def waits_for(layout: Layout, pipeline: Pipeline, flow: Flow) -> str | None:
    """The drift for whose answer a flow's pending batch waits; None when the next run tries it.

    A batch that was refused waits no more once its drift is answered, or the schema or contract that refused it changed.
    The refusal's note is a small file, so that asking costs little where nothing waits.
    """
    ref = checkpoint.current(layout, pipeline, flow)
    told = refusal.noted(layout, ref)
    if "drift" not in told or told.get("batch_id") != progress.read(ref.path(layout)).pending_batch:
        return None
    source = registry.landing_behind(flow, pipeline)
    if source is None or told.get("declared") != declared_fingerprint(source):
        return None
    drift = str(told["drift"])
    return None if is_answered(layout, pipeline.name, drift) else drift


def is_answered(layout: Layout, pipeline: str, drift: str) -> bool:
    """Whether a person has answered a drift."""
    return any(line.event == "answered" and line.drift == drift for line in read(layout, pipeline))


def answer(layout: Layout, pipeline: str, drift: str, given: Answer, by: str) -> Sequence[Line]:
    """Write down what a person decided about a drift; the flow's next run acts on it.

    Args:
        layout: The lake's.
        pipeline: Its name.
        drift: Which one.
        given: ``evolve`` or ``quarantine``.
        by: Who.

    Returns:
        The lines: none when the same was answered before.

    Raises:
        RequestError: There is no such drift, or it was answered otherwise before.
    """
    lines = read(layout, pipeline)
    earlier = [line for line in lines if line.event == "answered" and line.drift == drift]
    if any(line.decision != given for line in earlier):
        told = (
            f"{earlier[0].decided_by or 'somebody'} answered {earlier[0].decision!r} on {earlier[0].recorded_at[:16]}"
        )
        raise RequestError(
            f"drift {drift!r} of {pipeline!r} has its answer: {told}. To decide anew, change the source's contract."
        )
    if earlier:
        return []
    refused = [line for line in lines if line.event == "refused" and line.drift == drift]
    if not refused:
        answered = {line.drift for line in lines if line.event == "answered"}
        known = {line.drift: None for line in lines if line.event == "refused" and line.drift not in answered}
        told = ", ".join(known) or "none"
        raise RequestError(f"no batch of {pipeline!r} was refused for drift {drift!r}; without an answer: {told}.")
    moment = now()
    return record(
        layout,
        pipeline,
        [
            dataclasses.replace(line, event="answered", decision=given, decided_by=by, recorded_at=moment)
            for line in refused
        ],
    )


def declared_fingerprint(source: FileSource | KafkaSource) -> str:
    """Of what refuses a batch: the schema, its contract, and how values are written. When it changed, the same may pass."""
    declared = {"schema": source.schema, "contract": source.contract.to_json()}
    return fingerprint(declared | ({"formats": formats} if (formats := source.formats.to_json()) else {}))


def table_schema() -> pyarrow.Schema:
    """The columns of the table."""
    import pyarrow as pa

    texts = ["flow", "event", "kind", "field", "formerly", "before", "after", "decision", "drift", "decided_by"]
    return pa.schema(
        [
            ("recorded_at", pa.timestamp("us", tz="UTC")),
            *[(name, pa.string()) for name in texts],
            ("version_before", pa.int32()),
            ("version_after", pa.int32()),
            ("breaks", pa.list_(pa.string())),
            ("app_id", pa.string()),
            ("batch_id", pa.int64()),
            ("run_key", pa.string()),
        ]
    )


def _path(layout: Layout, pipeline: str) -> Path:
    return layout.ops(pipeline, "evolution")


def _row(line: Line) -> dict[str, Any]:
    plain = {name: getattr(line, name) for name in (field.name for field in dataclasses.fields(line))}
    del plain["change"]
    moment = pendulum.parse(line.recorded_at)
    return {**plain, **line.change.to_json(), "breaks": list(line.breaks), "recorded_at": moment}


def _line(row: dict[str, Any]) -> Line:
    names = {field.name for field in dataclasses.fields(Line)} - {"change"}
    plain: dict[str, Any] = {name: row.get(name) for name in names}
    plain["breaks"] = tuple(row["breaks"] or ())
    plain["recorded_at"] = pendulum.instance(row["recorded_at"]).to_iso8601_string()
    return Line(change=Change.from_json(row), **plain)
