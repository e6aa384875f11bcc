"""Whose number a line carries."""

from __future__ import annotations

import duckdb
import pytest

from tidegate import identity

STREAM = "flights/silver/v2/0"
LINE = {"flow": "silver", "checkpoint_version": 2, "refresh": 0}


def test_a_line_that_says_nothing_of_its_transaction_is_taken_for_a_batch() -> None:
    assert identity.app_id(LINE, "flights") == STREAM
    assert identity.app_id(LINE | {"app_id": None}, "flights") == STREAM
    assert identity.app_id(LINE | {"app_id": "flights/silver/replay"}, "flights") == "flights/silver/replay"


@pytest.mark.parametrize("app_id", [f"{STREAM}/window", "flights/silver/replay", "flights/silver/decision", "a/b/gap"])
def test_only_a_checkpoints_own_query_counts_batches(app_id: str) -> None:
    assert identity.is_stream(STREAM)
    assert not identity.is_stream(app_id)


def test_a_replay_of_a_window_stands_beside_the_query_of_its_checkpoint() -> None:
    assert identity.of_stream(f"{STREAM}/window") == identity.of_stream(STREAM) == STREAM


@pytest.mark.parametrize(
    ("app_id", "kind", "called"),
    [
        (STREAM, "upsert", "batch 3"),
        (STREAM, None, "batch 3"),
        (STREAM, "swap", "swap"),
        (f"{STREAM}/window", "rederive", "replay 3"),
        ("flights/silver/replay", "replay", "replay 3"),
        ("flights/silver/decision", "waive", "waive"),
        ("flights/silver/decision", None, "decision"),
        ("clicks/bronze/gap", "gap", "gap"),
    ],
)
def test_people_call_it_by_what_it_was(app_id: str, kind: str | None, called: str) -> None:
    assert identity.called(app_id, 3, kind) == called


def test_a_decision_is_known_by_its_kind() -> None:
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
        ("flights/silver/replay", "replay", False),
        ("flights/silver/decision", "waive", False),
        ("clicks/bronze/gap", "gap", False),
    ],
)
def test_sql_takes_the_same_lines_for_batches(app_id: str, kind: str, batch: bool) -> None:
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {identity.IS_BATCH} FROM (SELECT ? AS app_id, ? AS kind)", [app_id, kind])
        assert found.fetchall() == [(batch,)]
