"""Batches as the lake's own tables tell of them: ledger, verdicts and changes of schema, read with delta-rs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate.layout import Layout
from tidegate.pages.batch import Batch, Judgement
from tidegate.report import BatchRecord, ExpectationResult, Verdict

_Identity = tuple[str, int, int, int]
"""Flow, checkpoint version, refresh, batch id: what ledger and verdicts call a batch."""

_REPLAYS = ("/replay", "/window")
"""How the transaction ids of replays end: those are no batches of the flow, and count from 0 themselves."""

_CHANGE = ("field", "formerly", "kind", "before", "after", "event", "decision", "decided_by", "breaks")
"""What is told of a change of schema, in this order: names, types and decisions."""


def batches(layout: Layout, pipeline: str) -> list[Batch]:
    """Every batch of a pipeline that was recorded or judged, the oldest first.

    Args:
        layout: The lake.
        pipeline: Its name.
    """
    judged = _by_batch(_lines(layout.ops(pipeline, "verdicts")))
    evolved = _lines(layout.ops(pipeline, "evolution"))
    found = []
    for line in _lines(layout.ops(pipeline, "ledger")):
        if line["app_id"].endswith(_REPLAYS):
            continue
        swap = line["kind"] == "swap"
        told = [] if swap else judged.pop(_identity(line), [])
        found.append(_batch(line, BatchRecord.from_json(line), told))
    found += [_batch(told[-1], None, told) for told in judged.values()]
    return [
        dataclasses.replace(batch, changes=_changes(evolved, batch))
        for batch in sorted(found, key=lambda batch: batch.at)
    ]


def complete(layout: Layout, pipeline: str, batch: Batch, *, judged: bool) -> Batch:
    """A batch with what only the tables know of it: the changes of schema, and its judgements if they are asked for.

    Args:
        layout: The lake.
        pipeline: Its name.
        batch: What the driver knows of it.
        judged: Whether an earlier attempt judged it, so that its verdict is to be read.
    """
    batch = dataclasses.replace(batch, changes=_changes(_lines(layout.ops(pipeline, "evolution")), batch))
    told = _lines(layout.ops(pipeline, "verdicts"), batch) if judged else []
    if not told:
        return batch
    return dataclasses.replace(batch, verdict=_verdict(told[-1]), judgements=tuple(_judgement(line) for line in told))


def _lines(path: Path, of: Batch | None = None) -> list[dict[str, Any]]:
    """The lines of one table, the oldest first; none when there is no table."""
    if not (path / "_delta_log").is_dir():
        return []
    from deltalake import DeltaTable

    table = DeltaTable(str(path))
    filters = None
    if of is not None:
        filters = [
            ("flow", "=", of.flow),
            ("checkpoint_version", "=", of.checkpoint_version),
            ("refresh", "=", of.refresh),
            ("batch_id", "=", of.batch_id),
        ]
    lines: list[dict[str, Any]] = table.to_pyarrow_table(filters=filters).to_pylist()
    lines.sort(key=lambda line: line["recorded_at"])
    for line in lines:
        for name in ("filtered", "rules"):
            if name in line:
                line[name] = dict(line[name] or ())
    return lines


def _by_batch(lines: Sequence[Mapping[str, Any]]) -> dict[_Identity, list[Mapping[str, Any]]]:
    found: dict[_Identity, list[Mapping[str, Any]]] = {}
    for line in lines:
        found.setdefault(_identity(line), []).append(line)
    return found


def _identity(line: Mapping[str, Any]) -> _Identity:
    return (line["flow"], line["checkpoint_version"], line["refresh"], line["batch_id"])


def _batch(
    line: Mapping[str, Any],
    record: BatchRecord | None,
    told: Sequence[Mapping[str, Any]],
) -> Batch:
    flow, version, refresh, batch_id = _identity(line)
    return Batch(
        flow=flow,
        checkpoint_version=version,
        refresh=refresh,
        batch_id=batch_id,
        run_key=line["run_key"],
        attempt=line["attempt"],
        at=_instant(line["recorded_at"]),
        record=record,
        verdict=_verdict(told[-1]) if told else None,
        judgements=tuple(_judgement(one) for one in told),
    )


def _verdict(line: Mapping[str, Any]) -> Verdict:
    known = {field.name for field in dataclasses.fields(ExpectationResult)}
    plain = json.loads(line["results"])
    results = tuple(ExpectationResult(**{k: v for k, v in one.items() if k in known}) for one in plain)
    names = (field.name for field in dataclasses.fields(Verdict) if field.name != "results")
    return Verdict(**{name: line[name] for name in names}, results=results)


def _judgement(line: Mapping[str, Any]) -> Judgement:
    return Judgement.of(_verdict(line), _instant(line["recorded_at"]), line["run_key"])


def _changes(lines: Sequence[Mapping[str, Any]], batch: Batch) -> tuple[dict[str, str], ...]:
    """The changes of schema that came with a batch; what none of them tells is left out."""
    if batch.record is not None and batch.record.kind == "swap":
        return ()
    own = [
        line
        for line in lines
        if (line["flow"], line["version_after"], line["batch_id"])
        == (batch.flow, batch.checkpoint_version, batch.batch_id)
    ]
    told = [name for name in _CHANGE if any(_text(line.get(name)) for line in own)]
    return tuple({name: _text(line.get(name)) for name in told} for line in own)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    return "" if value is None else str(value)


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
