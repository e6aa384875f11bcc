"""Reads the data of batches from Tidegate's tables (ledger, verdicts, evolution) with delta-rs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate import identity, json_codec
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.layout import Layout
from tidegate.ops import store
from tidegate.pages.batch import Batch, Judgement
from tidegate.report import BatchRecord, Verdict

_Key = tuple[str, int]
"""Transaction id and number: identifies a batch in all tables."""

_CHANGE = ("field", "formerly", "kind", "before", "after", "event", "decision", "decided_by", "breaks")
"""Columns of a schema change that a page shows, in this order: names, types and decisions."""


def batches(layout: Layout, pipeline: str) -> list[Batch]:
    """Every batch of a pipeline that was recorded, judged, or refused by its contract, the oldest first.

    Backfills and replays have numbers of their own, and are not batches.
    """
    verdicts = _by_batch(_lines(layout.ops(pipeline, "verdicts")))
    evolution = _lines(layout.ops(pipeline, "evolution"))
    batches = []
    recorded = set()
    for line in _lines(layout.ops(pipeline, "ledger")):
        key = _key(line)
        if not identity.is_stream(key[0]):
            continue
        swap = line["kind"] == "swap"
        judged = [] if swap else verdicts.pop(key, [])
        recorded.add(key)
        batches.append(_batch(line, BatchRecord.of_line(line), judged))
    batches += [_batch(judged[-1], None, judged) for judged in verdicts.values()]
    recorded |= set(verdicts)
    batches += _refused_by_contract(evolution, pipeline, recorded)
    return [
        dataclasses.replace(batch, changes=_changes(evolution, pipeline, batch))
        for batch in sorted(batches, key=lambda batch: batch.at)
    ]


def complete(layout: Layout, pipeline: str, batch: Batch, *, judged: bool) -> Batch:
    """A batch with the data that only the tables have: its schema changes, and earlier verdicts if requested.

    Args:
        batch: The batch with the driver's data.
        judged: Whether an earlier attempt judged the batch, so that its verdicts must be read.
    """
    batch = dataclasses.replace(batch, changes=_changes(_lines(layout.ops(pipeline, "evolution")), pipeline, batch))
    lines = _lines(layout.ops(pipeline, "verdicts"), batch) if judged else []
    verdicts = _by_batch(lines).get(_key_of(pipeline, batch))
    if not verdicts:
        return batch
    judgements = tuple(_judgement(line) for line in verdicts)
    return dataclasses.replace(batch, verdict=_verdict(verdicts[-1]), judgements=judgements)


def _lines(path: Path, of: Batch | None = None) -> list[dict[str, Any]]:
    """The lines of one table, the oldest first; none when there is no table."""
    condition = "true"
    if of is not None:
        number = f"checkpoint_version = {of.checkpoint_version} AND refresh = {of.refresh} AND batch_id = {of.batch_id}"
        condition = f"flow = '{of.flow}' AND {number}"
    # Not in SQL: this sort is stable, so lines with the same timestamp keep the order in which they were written.
    lines = store.select(path, f"SELECT * FROM delta_table WHERE {condition}")
    return sorted(lines, key=lambda line: line["recorded_at"])


def _by_batch(lines: Sequence[Mapping[str, Any]]) -> dict[_Key, list[Mapping[str, Any]]]:
    """Lines of the stream's batches; those of backfills and replays are left out."""
    by_batch: dict[_Key, list[Mapping[str, Any]]] = {}
    for line in lines:
        key = _key(line)
        if identity.is_stream(key[0]):
            by_batch.setdefault(key, []).append(line)
    return by_batch


def _key(line: Mapping[str, Any]) -> _Key:
    return line["app_id"], line["batch_id"]


def _key_of(pipeline: str, batch: Batch) -> _Key:
    ref = CheckpointRef(dag_id=pipeline, flow=batch.flow, version=batch.checkpoint_version, refresh=batch.refresh)
    return ref.app_id, batch.batch_id


def _refused_by_contract(lines: Sequence[Mapping[str, Any]], pipeline: str, others: Container[_Key]) -> Iterator[Batch]:
    """Batches that a frozen contract refused and that have neither a ledger line nor a verdict."""
    refused: dict[_Key, Mapping[str, Any]] = {}
    for line in lines:
        if line["event"] == "refused" and identity.is_stream(line["app_id"]):
            refused[_key(line)] = line
    for key, line in refused.items():
        if key not in others:
            version, refresh = key[0].removeprefix(f"{pipeline}/{line['flow']}/v").split("/")
            yield Batch(
                flow=line["flow"],
                checkpoint_version=int(version),
                refresh=int(refresh),
                batch_id=line["batch_id"],
                run_key=line["run_key"],
                attempt="",
                at=_instant(line["recorded_at"]),
                record=None,
                schema_change_id=line["schema_change_id"],
            )


def _batch(
    line: Mapping[str, Any],
    record: BatchRecord | None,
    verdicts: Sequence[Mapping[str, Any]],
) -> Batch:
    return Batch(
        flow=line["flow"],
        checkpoint_version=line["checkpoint_version"],
        refresh=line["refresh"],
        batch_id=line["batch_id"],
        run_key=line["run_key"],
        attempt=line["attempt"],
        at=_instant(line["recorded_at"]),
        record=record,
        verdict=_verdict(verdicts[-1]) if verdicts else None,
        judgements=tuple(_judgement(line) for line in verdicts),
    )


def _verdict(line: Mapping[str, Any]) -> Verdict:
    return json_codec.from_plain({**line, "results": json.loads(line["results"])}, Verdict)


def _judgement(line: Mapping[str, Any]) -> Judgement:
    return Judgement.of(_verdict(line), _instant(line["recorded_at"]), line["run_key"])


def _changes(lines: Sequence[Mapping[str, Any]], pipeline: str, batch: Batch) -> tuple[dict[str, str], ...]:
    """The schema changes in a batch; columns that are empty in all of them are omitted."""
    if batch.record is not None and batch.record.kind == "swap":
        return ()
    changes = [line for line in lines if _is_in(line, pipeline, batch)]
    columns = [name for name in _CHANGE if any(_text(line.get(name)) for line in changes)]
    return tuple({name: _text(line.get(name)) for name in columns} for line in changes)


def _is_in(line: Mapping[str, Any], pipeline: str, batch: Batch) -> bool:
    """Whether a change was in this batch, or refused it."""
    refused = batch.schema_change_id and line["schema_change_id"] == batch.schema_change_id
    return bool(refused) or _key(line) == _key_of(pipeline, batch)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    return "" if value is None else str(value)


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")
