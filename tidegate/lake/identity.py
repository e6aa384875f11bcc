"""Transaction ids (``app_id``) and the numbers that are counted under them.

A line of the ledger, of the verdicts or of the schema history has a transaction id and a number. Numbers count from 0
under each id: batches of a checkpoint, backfills and reingests of windows, replays of quarantined entries. A number
alone is ambiguous: backfill 3 is not batch 3.
"""

from __future__ import annotations

import re

WINDOW = "window"
"""Last part of the transaction id of backfills and reingests of windows, which belong to a checkpoint."""
REPLAY = "replay"
"""Last part of the transaction id of a flow's replays of quarantined entries."""
DECISION = "decision"
"""Suffix of the transaction id of decisions that close quarantined entries of a flow (waive, expire, retire)."""
UNDO = "undo"
"""Last part of the transaction id of a flow's undos of runs, for every checkpoint version; also the ``kind`` of their ledger lines."""
GAP = "gap"
"""Suffix of the transaction id of accepted gaps in a flow's topic; also the ``kind`` of their ledger lines."""

SNAPSHOT = "snapshot"
"""Last part of the transaction id of the snapshots beside the changes of a checkpoint; their numbers are those of the announcements."""

_SUFFIXES = (f"/{SNAPSHOT}", f"/{WINDOW}", f"/{REPLAY}", f"/{DECISION}", f"/{GAP}", f"/{UNDO}")
_DECISIONS = ("waive", "expire", "retire", "retire_waived")

BATCHES = ("append", "upsert", "recompute", "snapshot", "send", "emit")
"""The kinds of ledger lines of batches of a stream."""
IS_BATCH = f"kind IN {BATCHES} AND app_id NOT LIKE '%/{WINDOW}' AND app_id NOT LIKE '%/{SNAPSHOT}'"
"""SQL condition on the ledger for lines of stream batches; the same as `tidegate.reports.ledger_line.LedgerLine.is_batch`."""


def is_stream(app_id: str) -> bool:
    """Whether the transaction id is that of a checkpoint's streaming query, whose numbers are batch ids."""
    return not app_id.endswith(_SUFFIXES)


def checkpoint_of(app_id: str | None) -> tuple[int, int] | tuple[None, None]:
    """Version and refresh of the checkpoint to which a transaction id belongs; None of one of a flow."""
    match = re.search(r"/v(\d+)/(\d+)", app_id or "")
    return (int(match[1]), int(match[2])) if match else (None, None)


def stream_app_id(app_id: str) -> str:
    """The transaction id of the checkpoint's stream, for that of its backfills, reingests and snapshots."""
    return app_id.removesuffix(f"/{WINDOW}").removesuffix(f"/{SNAPSHOT}")


def is_decision(kind: str | None) -> bool:
    """Whether a ledger line of this kind is a decision that closed quarantined entries."""
    return kind in _DECISIONS


def label(app_id: str, number: int, kind: str | None = None) -> str:
    """The name shown to users: ``batch 3``, ``backfill 3``, ``reingest 3``, ``replay 3``, ``undo 3``, ``swap``, ``waive``.

    Args:
        kind: The ``kind`` of the ledger line; None for a verdict without line.
    """
    if kind == "swap":
        return kind
    if app_id.endswith(f"/{GAP}"):
        return GAP
    if app_id.endswith(f"/{DECISION}"):
        return kind or DECISION
    if app_id.endswith(f"/{UNDO}"):
        return f"{UNDO} {number}"
    if app_id.endswith(f"/{SNAPSHOT}"):
        return f"{SNAPSHOT} {number}"
    if app_id.endswith(f"/{WINDOW}"):
        if number < 0:
            return "dry run"
        # Only landing flows append to a window: they read its files or messages again.
        return f"reingest {number}" if kind == "append" else f"backfill {number}"
    return f"batch {number}" if is_stream(app_id) else f"replay {number}"
