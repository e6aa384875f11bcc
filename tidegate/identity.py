"""Whose number a line of the ledger, of the verdicts or of the history of schemas carries.

Numbers are counted from 0 under each transaction id (``app_id``): the batches of a checkpoint, the replays of windows,
the replays of what was set aside. So a number alone names nothing: replay 3 is not batch 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WINDOW = "window"
"""Ends the transaction id of a checkpoint's replays of windows."""
REPLAY = "replay"
"""Ends the transaction id of a flow's replays of what was set aside."""
DECISION = "decision"
"""Ends the transaction id of what was decided about a flow's quarantined entries without judging them again."""
GAP = "gap"
"""Ends the transaction id of what was decided about messages of a flow's topic that are gone; also the kind of its lines."""

_OTHERS = (f"/{WINDOW}", f"/{REPLAY}", f"/{DECISION}", f"/{GAP}")
_DECISIONS = ("waive", "expire", "retire", "retire_waived")

IS_BATCH = f"kind IN ('append', 'upsert', 'recompute') AND app_id NOT LIKE '%/{WINDOW}'"
"""Which lines of the ledger are batches of a stream, in SQL: as `tidegate.report.BatchRecord.is_batch`."""


def app_id(line: Mapping[str, Any], pipeline: str) -> str:
    """The transaction id of a line; one that was written before lines had it is taken for a batch's.

    Args:
        line: With ``flow``, ``checkpoint_version``, ``refresh`` and, where it is known, ``app_id``.
        pipeline: Whose line it is.
    """
    own: str | None = line.get("app_id")
    return own or f"{pipeline}/{line['flow']}/v{line['checkpoint_version']}/{line['refresh']}"


def is_stream(app_id: str) -> bool:
    """Whether a transaction id is that of a checkpoint's own query, whose numbers are batches."""
    return not app_id.endswith(_OTHERS)


def of_stream(app_id: str) -> str:
    """The transaction id of the checkpoint beside whose query something wrote."""
    return app_id.removesuffix(f"/{WINDOW}")


def is_decision(kind: str | None) -> bool:
    """Whether a line of this kind tells what was decided about quarantined entries."""
    return kind in _DECISIONS


def called(app_id: str, number: int, kind: str | None = None) -> str:
    """What people call it: ``batch 3``, ``replay 3``, ``swap``, ``waive``.

    Args:
        app_id: The transaction id.
        number: Under that id.
        kind: Of the line in the ledger; None where there is none.
    """
    if kind == "swap":
        return kind
    if app_id.endswith(f"/{GAP}"):
        return GAP
    if app_id.endswith(f"/{DECISION}"):
        return kind or DECISION
    return f"batch {number}" if is_stream(app_id) else f"replay {number}"
