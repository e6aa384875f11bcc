"""Sample batches of the pipeline ``flights``, written to ledger and verdicts without a driver."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import evolution
from tidegate.ops.evolution import SchemaHistoryLine
from tidegate.ops.ledger import LEDGER, VERDICTS, RecordedLine, RecordedVerdict, RunOrigin
from tidegate.project import registry
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.verdict import ExpectationResult, Verdict
from tidegate.schema.changes import SchemaChange
from tidegate.spec import Pipeline

FIRST = datetime(2013, 2, 1, 6, 30, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One batch in one attempt."""

    flow: str
    batch_id: int
    run_key: str
    at: datetime
    record: LedgerLine | None
    """None if it was refused."""
    verdict: Verdict | None
    checkpoint_version: int = 1
    refresh: int = 0


def fill(layout: Layout, *samples: Sample) -> None:
    """Append the verdicts and the ledger lines of batches, each table in one commit."""
    place = PipelinePlace(layout, "flights")
    judged = [RecordedVerdict(**vars(each.verdict), **vars(_origin(each))) for each in samples if each.verdict]
    lines = [RecordedLine(**vars(each.record), **vars(_origin(each))) for each in samples if each.record]
    VERDICTS.append(place, judged)
    LEDGER.append(place, lines)


def change(layout: Layout, **fields: Any) -> None:
    """Append a line to the schema history; by default silver's batch 1 has a new field ``gate``."""
    names = {field.name for field in dataclasses.fields(SchemaChange)}
    plain = {"kind": "addition", "field": "gate", "after": "STRING"} | fields
    line: dict[str, Any] = {
        **{"flow": "silver", "event": "observed", "decision": "rescue", "version_before": 1, "version_after": 1},
        **{"app_id": "flights/silver/v1/0", "batch_id": 1, "run_key": "run-2"},
        **{name: value for name, value in plain.items() if name not in names},
    }
    own = SchemaChange(**{name: value for name, value in plain.items() if name in names})
    evolution.record(PipelinePlace(layout, "flights"), [SchemaHistoryLine(change=own, **line)])


def _origin(sample: Sample) -> RunOrigin:
    return RunOrigin(
        run_key=sample.run_key,
        attempt=f"a-{sample.batch_id:05d}",
        mode="incremental",
        checkpoint_version=sample.checkpoint_version,
        refresh=sample.refresh,
        recorded_at=sample.at,
    )


def flights() -> Pipeline:
    return registry.load("flights")


def record(number: int, flow: str = "silver", **counts: Any) -> LedgerLine:
    """A ledger line that balances; its counts depend on the number."""
    read = 9_600 + (number * 1_103) % 3_300
    quarantined = counts.pop("quarantined", _refused(number))
    filtered = {"cancelled_twice": 3 + number % 4}
    superseded = (number * 7) % 60
    written = read - quarantined - sum(filtered.values()) - superseded
    plain = {
        "flow": flow,
        "batch_id": number,
        "app_id": f"flights/{flow}/v1/0",
        "kind": "upsert",
        "read": read,
        "written": written,
        "quarantined": quarantined,
        "filtered": filtered,
        "superseded": superseded,
        "rules": {
            rule: rows
            for rule, rows in (
                ("required(origin)", quarantined - quarantined // 4 - 1),
                ("wrong_type(dep_delay)", quarantined // 4),
                ("between(dep_delay)", 1),
            )
            if quarantined
        },
        "target_version": number + 1,
        "seconds": 6.0 + number % 5,
    }
    line = LedgerLine(**{**plain, **counts})
    assert line.imbalance() == 0
    return line


def _refused(number: int) -> int:
    """Number of quarantined rows: 0 in a third of the batches, high in a few."""
    if number % 3 == 2:
        return 0
    return (8 + (number * 13) % 45) * (4 if number % 14 == 1 else 1)


def verdict(number: int, outcome: Any = "split", flow: str = "silver") -> Verdict:
    results = (
        ExpectationResult(
            expectation="expect_column_values_to_not_be_null",
            rule="not_null(carrier)",
            severity="critical",
            success=outcome != "refused",
            evaluated=11_794,
            unexpected=0 if outcome != "refused" else 2_208,
            mostly=0.99,
            sentence="carrier values must not be null, at least 99 % of the time.",
        ),
        ExpectationResult(
            expectation="expect_column_values_to_be_between",
            rule="between(dep_delay)",
            severity="warning",
            success=outcome == "passed",
            evaluated=11_580,
            unexpected=0 if outcome == "passed" else 1,
            mostly=1.0,
            sentence="dep_delay values must be greater than or equal to -120 and less than or equal to 2000.",
        ),
        ExpectationResult(
            expectation="expect_table_row_count_to_be_between",
            rule="row_count_between",
            severity="info",
            success=True,
            sentence="Must have greater than or equal to 1 rows.",
        ),
    )
    return Verdict(
        flow=flow,
        app_id=f"flights/{flow}/v1/0",
        batch_id=number,
        suite="flights/silver",
        suite_fingerprint="s",
        code_fingerprint="c",
        outcome=outcome,
        results=results,
    )


def batch(number: int, flow: str = "silver", *, outcome: str = "split", **counts: Any) -> Sample:
    """A batch in its own run, six hours after the previous one."""
    line = record(number, flow, **counts) if outcome != "refused" else None
    if line is not None and not line.quarantined:
        outcome = "passed"
    return Sample(
        flow=flow,
        batch_id=number,
        run_key=f"scheduled-{number:05d}-1a2b3c4d",
        at=FIRST + timedelta(hours=6 * number),
        record=line,
        verdict=verdict(number, outcome, flow) if flow == "silver" else None,
    )


def bronze(number: int, **counts: Any) -> Sample:
    plain = record(
        number, "bronze", quarantined=0, superseded=0, filtered={}, rules={}, kind="append", written=0, read=0
    )
    read = 9_600 + (number * 1_103) % 3_300
    quarantined = 1 if number % 9 == 4 else 0
    line = dataclasses.replace(
        plain,
        read=read,
        written=read,
        files_listed=12,
        files_opened=12 - quarantined,
        files_quarantined=quarantined,
        rules={"corrupt_compression": quarantined} if quarantined else {},
        **counts,
    )
    return dataclasses.replace(batch(number, "bronze"), record=line, verdict=None)


def gold(number: int) -> Sample:
    line = LedgerLine(
        flow="gold",
        batch_id=number,
        app_id="flights/gold/v1/0",
        kind="recompute",
        read=9_000 + number * 17,
        groups=180 + number % 11,
        upserted=150 + number % 11,
        deleted=number % 3,
        unchanged=30 - number % 3,
        target_version=number,
        seconds=5.5 + number % 3,
    )
    return dataclasses.replace(batch(number, "gold"), record=line, verdict=None)
