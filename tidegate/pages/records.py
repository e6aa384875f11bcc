"""Batches as the lake's own tables tell of them: ledger, verdicts and changes of schema, read with delta-rs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate import identity
from tidegate.layout import Layout
from tidegate.ops import store
from tidegate.pages.batch import Batch, Judgement
from tidegate.report import BatchRecord, ExpectationResult, Verdict

_Identity = tuple[str, int]
"""Transaction id and number: what all tables call a batch."""

_CHANGE = ("field", "formerly", "kind", "before", "after", "event", "decision", "decided_by", "breaks")
"""What is told of a change of schema, in this order: names, types and decisions."""


def batches(layout: Layout, pipeline: str) -> list[Batch]:
    """Every batch of a pipeline that was recorded, judged, or refused by its contract, the oldest first.

    Replays have numbers of their own, and are none.

    Args:
        layout: The lake.
        pipeline: Its name.
    """
    judged = _by_batch(_lines(layout.ops(pipeline, "verdicts")), pipeline)
    evolved = _lines(layout.ops(pipeline, "evolution"))
    found = []
    recorded = set()
    for line in _lines(layout.ops(pipeline, "ledger")):
        own = _identity(line, pipeline)
        if not identity.is_stream(own[0]):
            continue
        swap = line["kind"] == "swap"
        told = [] if swap else judged.pop(own, [])
        recorded.add(own)
        found.append(_batch(line, BatchRecord.from_json(line), told))
    found += [_batch(told[-1], None, told) for told in judged.values()]
    recorded |= set(judged)
    found += _drifted(evolved, pipeline, recorded)
    return [
        dataclasses.replace(batch, changes=_changes(evolved, pipeline, batch))
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
    batch = dataclasses.replace(batch, changes=_changes(_lines(layout.ops(pipeline, "evolution")), pipeline, batch))
    lines = _lines(layout.ops(pipeline, "verdicts"), batch) if judged else []
    told = _by_batch(lines, pipeline).get(_own(pipeline, batch))
    if not told:
        return batch
    return dataclasses.replace(batch, verdict=_verdict(told[-1]), judgements=tuple(_judgement(line) for line in told))


def _lines(path: Path, of: Batch | None = None) -> list[dict[str, Any]]:
    """The lines of one table, the oldest first; none when there is no table."""
    wanted = "true"
    if of is not None:
        number = f"checkpoint_version = {of.checkpoint_version} AND refresh = {of.refresh} AND batch_id = {of.batch_id}"
        wanted = f"flow = '{of.flow}' AND {number}"
    # Not in SQL: what was recorded at one moment stays in the order in which it was written.
    return sorted(store.select(path, f"SELECT * FROM held WHERE {wanted}"), key=lambda line: line["recorded_at"])


def _by_batch(lines: Sequence[Mapping[str, Any]], pipeline: str) -> dict[_Identity, list[Mapping[str, Any]]]:
    """Lines of the stream's batches; those of replays are left out."""
    found: dict[_Identity, list[Mapping[str, Any]]] = {}
    for line in lines:
        own = _identity(line, pipeline)
        if identity.is_stream(own[0]):
            found.setdefault(own, []).append(line)
    return found


def _identity(line: Mapping[str, Any], pipeline: str) -> _Identity:
    return identity.app_id(line, pipeline), line["batch_id"]


def _own(pipeline: str, batch: Batch) -> _Identity:
    return _identity(vars(batch), pipeline)


def _drifted(lines: Sequence[Mapping[str, Any]], pipeline: str, others: Container[_Identity]) -> Iterator[Batch]:
    """Batches that a frozen contract refused, of which nothing else is recorded."""
    refused: dict[_Identity, Mapping[str, Any]] = {}
    for line in lines:
        app_id = line.get("app_id")
        # Older lines do not say whose batch it was: a refresh has a batch of the same number.
        if line.get("event") == "refused" and app_id is not None and identity.is_stream(app_id):
            refused[app_id, line["batch_id"]] = line
    for own, line in refused.items():
        if own not in others:
            version, refresh = own[0].removeprefix(f"{pipeline}/{line['flow']}/v").split("/")
            yield Batch(
                flow=line["flow"],
                checkpoint_version=int(version),
                refresh=int(refresh),
                batch_id=line["batch_id"],
                run_key=line["run_key"],
                attempt="",
                at=_instant(line["recorded_at"]),
                record=None,
                drift=line["drift"],
            )


def _batch(
    line: Mapping[str, Any],
    record: BatchRecord | None,
    told: Sequence[Mapping[str, Any]],
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
        verdict=_verdict(told[-1]) if told else None,
        judgements=tuple(_judgement(one) for one in told),
    )


def _verdict(line: Mapping[str, Any]) -> Verdict:
    known = {field.name for field in dataclasses.fields(ExpectationResult)}
    plain = json.loads(line["results"])
    results = tuple(ExpectationResult(**{k: v for k, v in one.items() if k in known}) for one in plain)
    names = {field.name for field in dataclasses.fields(Verdict)} - {"app_id", "results"}
    return Verdict(**{name: line[name] for name in names}, app_id=line.get("app_id") or "", results=results)


def _judgement(line: Mapping[str, Any]) -> Judgement:
    return Judgement.of(_verdict(line), _instant(line["recorded_at"]), line["run_key"])


def _changes(lines: Sequence[Mapping[str, Any]], pipeline: str, batch: Batch) -> tuple[dict[str, str], ...]:
    """The changes of schema that came with a batch; what none of them tells is left out."""
    if batch.record is not None and batch.record.kind == "swap":
        return ()
    own = [line for line in lines if _brought(line, pipeline, batch)]
    told = [name for name in _CHANGE if any(_text(line.get(name)) for line in own)]
    return tuple({name: _text(line.get(name)) for name in told} for line in own)


def _brought(line: Mapping[str, Any], pipeline: str, batch: Batch) -> bool:
    """Whether a change came with a batch; a line of an older version does not say in which refresh."""
    if batch.drift and line.get("drift") == batch.drift:
        return True
    if line.get("app_id"):
        return (line["app_id"], line["batch_id"]) == _own(pipeline, batch)
    told = (line["flow"], line["version_after"], line["batch_id"])
    return told == (batch.flow, batch.checkpoint_version, batch.batch_id)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    return "" if value is None else str(value)


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
