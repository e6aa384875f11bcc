"""The fields of a dataclass are the columns of its table, and its lines survive the table, also those of earlier releases."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import arrow
from tidegate.ops.alert_history import ALERTS
from tidegate.ops.attempts import ATTEMPTS
from tidegate.ops.evolution import EVOLUTION, SchemaHistoryLine
from tidegate.ops.ledger import LEDGER, VERDICTS, RecordedLine, RecordedVerdict
from tidegate.ops.metrics import PROGRESS
from tidegate.ops.table import OwnTable, line_of, row_of
from tidegate.reports.ledger_line import Kind
from tidegate.reports.verdict import ExpectationResult
from tidegate.schema.changes import SchemaChange
from tidegate.store import Address
from tidegate.times import dates

pytestmark = pytest.mark.slow

INSTANT, COUNTS = pa.timestamp("us", tz="UTC"), pa.map_(pa.string(), pa.int64())
OTHER_TYPES: dict[str, dict[str, Any]] = {
    "ledger": {
        **dict.fromkeys(("flow", "kind", "app_id", "suite_fingerprint", "code_fingerprint", "undoes"), pa.string()),
        **dict.fromkeys(("run_key", "mode", "requested_by", "attempt"), pa.string()),
        **dict.fromkeys(("filtered", "rules", "source_versions"), COUNTS),
        **dict.fromkeys(("watermark", "planned_at", "recorded_at"), INSTANT),
        **{"checkpoint_version": pa.int32(), "refresh": pa.int32(), "seconds": pa.float64()},
    },
    "verdicts": {
        **{"batch_id": pa.int64(), "checkpoint_version": pa.int32(), "refresh": pa.int32(), "recorded_at": INSTANT},
    },
    "evolution": {
        **{"version_before": pa.int32(), "version_after": pa.int32(), "batch_id": pa.int64()},
        **{"recorded_at": INSTANT, "breaks": pa.list_(pa.string())},
    },
    "attempts": {"requests": COUNTS, "recorded_at": INSTANT},
    "alerts": {"opened_at": INSTANT, "recorded_at": INSTANT},
    "progress": {
        **dict.fromkeys(("started_at", "recorded_at", "watermark"), INSTANT),
        **dict.fromkeys(("flow", "app_id", "run_key", "attempt", "mode", "start_offset", "end_offset"), pa.string()),
        **{"state_operator": pa.string(), "duration_ms": COUNTS},
        **dict.fromkeys(("input_rows_per_second", "processed_rows_per_second", "watermark_lag_seconds"), pa.float64()),
    },
}
"""The types of columns in lakes that exist, except those that most columns of a table have."""

NUMBERS = st.integers(0, 2**53)
MAPS = st.dictionaries(st.text(), NUMBERS, max_size=3)
INSTANTS = st.integers(0, 7 * 10**15).map(dates.from_micros)
TEXTS = st.none() | st.text()
RUN = {
    **dict.fromkeys(("run_key", "mode", "requested_by", "attempt"), TEXTS),
    **dict.fromkeys(("checkpoint_version", "refresh"), st.none() | st.integers(0, 99)),
    "recorded_at": INSTANTS,
}
LINES: st.SearchStrategy[RecordedLine] = st.builds(
    RecordedLine,
    kind=st.sampled_from(get_args(Kind)),
    **{name: NUMBERS for name, kind in LEDGER.columns.items() if kind == "BIGINT"},
    **{name: MAPS for name, kind in LEDGER.columns.items() if kind.startswith("MAP")},
    **dict.fromkeys(("suite_fingerprint", "code_fingerprint", "undoes"), TEXTS),
    **dict.fromkeys(("watermark", "planned_at"), st.none() | INSTANTS),
    **{"flow": st.text(), "app_id": st.text(), "seconds": st.floats(0, 1e9), **RUN},
)
OUTCOMES = st.sampled_from(("passed", "split", "refused", "dropped"))
RESULTS = st.builds(ExpectationResult, observed=st.none() | st.floats(-1e9, 1e9), mostly=st.none() | st.floats(0, 1))
VERDICT_LINES: st.SearchStrategy[RecordedVerdict] = st.builds(
    RecordedVerdict, outcome=OUTCOMES, results=st.lists(RESULTS, max_size=2).map(tuple), batch_id=NUMBERS, **RUN
)
SCHEMA_LINES: st.SearchStrategy[SchemaHistoryLine] = st.builds(
    SchemaHistoryLine,
    change=st.builds(SchemaChange, before=TEXTS, after=TEXTS, formerly=TEXTS),
    breaks=st.lists(st.text(), max_size=2).map(tuple),
    app_id=TEXTS,
    **dict.fromkeys(("version_before", "version_after"), st.integers(0, 99)),
    batch_id=st.none() | NUMBERS,
    recorded_at=INSTANTS,
)


@pytest.mark.parametrize(
    "table", [LEDGER, VERDICTS, EVOLUTION, ALERTS, PROGRESS, ATTEMPTS], ids=lambda table: table.name
)
def test_columns_have_the_types_that_they_have_in_lakes_that_exist(table: OwnTable[Any]) -> None:
    most = pa.int64() if table in (LEDGER, PROGRESS) else pa.string()
    expected = {name: OTHER_TYPES[table.name].get(name, most) for name in table.columns}
    assert {field.name: field.type for field in pa.table(arrow.table(table.columns, ())).schema} == expected


# The first example imports the types, which may take longer than the deadline.
@settings(max_examples=40)
@given(
    st.one_of(
        st.tuples(st.just(LEDGER), LINES),
        st.tuples(st.just(VERDICTS), VERDICT_LINES),
        st.tuples(st.just(EVOLUTION), SCHEMA_LINES),
    )
)
def test_a_line_survives_the_types_of_its_table(of_table: tuple[OwnTable[Any], Any]) -> None:
    table, line = of_table
    (row,) = arrow.table(table.columns, [row_of(line)]).to_struct_array().to_pylist()
    assert line_of(table.line, row) == line


@given(LINES, st.sets(st.sampled_from([each.name for each in dataclasses.fields(RecordedLine)])))
def test_columns_that_a_line_of_an_earlier_release_lacks_have_their_defaults(
    line: RecordedLine, lacking: set[str]
) -> None:
    lacking -= {"flow", "kind", "app_id", "batch_id", "recorded_at"}
    plain = RecordedLine(**{name: value for name, value in vars(line).items() if name not in lacking})
    row = row_of(line)
    assert line_of(RecordedLine, {name: value for name, value in row.items() if name not in lacking}) == plain
    assert line_of(RecordedLine, row | dict.fromkeys(lacking)) == plain


def test_lines_are_read_in_the_order_in_which_they_were_recorded_whatever_the_clocks_said(tmp_path: Any) -> None:
    place = PipelinePlace(Layout(Address.local(tmp_path / "lake"), Address.local(tmp_path / "landing")), "orders")
    line = RecordedLine(flow="silver", kind="upsert", app_id="a", batch_id=0)
    assert LEDGER.read(place) == []
    LEDGER.append(place, [])
    assert not LEDGER.address(place).exists()
    for number, year in enumerate((2026, 2024, 2025)):
        recorded_at = datetime(year, 1, 1, tzinfo=UTC)
        LEDGER.append(place, [dataclasses.replace(line, batch_id=number, recorded_at=recorded_at)], ("a", number))
    LEDGER.append(place, [line], ("a", 2))
    assert [each.batch_id for each in LEDGER.read(place)] == [0, 1, 2]
    assert [each.batch_id for each in LEDGER.read(place, last=2)] == [1, 2]
    assert [each.batch_id for each in LEDGER.read(place, "batch_id < 2", last=1)] == [1]
