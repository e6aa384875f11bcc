"""Transaction ids and the names of batches, backfills, replays and decisions."""

from __future__ import annotations

import duckdb
import pytest

from tidegate.lake import identity

STREAM = "flights/silver/v2/0"


@pytest.mark.parametrize("app_id", [f"{STREAM}/window", "flights/silver/replay", "flights/silver/decision", "a/b/gap"])
def test_only_the_id_of_a_checkpoint_is_a_stream(app_id: str) -> None:
    assert identity.is_stream(STREAM)
    assert not identity.is_stream(app_id)


def test_the_stream_of_a_backfill_is_that_of_its_checkpoint() -> None:
    assert identity.stream_app_id(f"{STREAM}/window") == identity.stream_app_id(STREAM) == STREAM


@pytest.mark.parametrize(
    ("app_id", "kind", "expected"),
    [
        (STREAM, "upsert", "batch 3"),
        (STREAM, None, "batch 3"),
        (STREAM, "swap", "swap"),
        (f"{STREAM}/window", "backfill", "backfill 3"),
        (f"{STREAM}/window", "recompute", "backfill 3"),
        (f"{STREAM}/window", "append", "reingest 3"),
        ("flights/silver/replay", "replay", "replay 3"),
        ("flights/silver/decision", "waive", "waive"),
        ("flights/silver/decision", None, "decision"),
        ("clicks/bronze/gap", "gap", "gap"),
    ],
)
def test_labels(app_id: str, kind: str | None, expected: str) -> None:
    assert identity.label(app_id, 3, kind) == expected


def test_kinds_that_are_decisions() -> None:
    assert [
        kind for kind in ("waive", "expire", "retire", "retire_waived", "replay", None) if identity.is_decision(kind)
    ] == [
        "waive",
        "expire",
        "retire",
        "retire_waived",
    ]


@pytest.mark.parametrize(
    ("app_id", "kind", "batch"),
    [
        (STREAM, "append", True),
        (STREAM, "upsert", True),
        (STREAM, "recompute", True),
        (STREAM, "swap", False),
        (f"{STREAM}/window", "recompute", False),
        (f"{STREAM}/snapshot", "snapshot", False),
        ("flights/silver/replay", "replay", False),
        ("flights/silver/decision", "waive", False),
        ("clicks/bronze/gap", "gap", False),
    ],
)
def test_the_sql_condition_selects_batches_of_streams(app_id: str, kind: str, batch: bool) -> None:
    with duckdb.connect() as connection:
        result = connection.execute(f"SELECT {identity.IS_BATCH} FROM (SELECT ? AS app_id, ? AS kind)", [app_id, kind])
        assert result.fetchall() == [(batch,)]
