"""What earlier runs left unfinished, in words."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.checkpoints.pending_jobs import PendingReplay, PendingUndo, PendingWindow
from tidegate.status import unfinished

NOTHING: dict[str, Any] = {"batch": None, "quarantined_whole": False, "written": False, "staged": False, "jobs": ()}
PIECE = PendingWindow(number=0, window={}, planned_at_ms=0, requested_by="ada")
UNDO = PendingUndo(number=0, undoes="r", commits=(), planned_at_ms=0, run_id="u", requested_by="ada")


@pytest.mark.parametrize(
    ("left", "sentence"),
    [
        ({"batch": 3}, "batch 3 was planned and not committed"),
        ({"batch": 3, "written": True}, "batch 3 is written and not recorded yet; its next run records it"),
        ({"batch": 3, "quarantined_whole": True}, "batch 3 was refused and goes to quarantine whole"),
        ({"staged": True}, "a full refresh waits to be swapped in"),
        ({"jobs": (PIECE,)}, "backfill or reingest 0 is half-written and will be finished first"),
        (
            {"jobs": (PendingReplay(by="ada"),)},
            "a replay of its quarantine was interrupted and will be finished or released first",
        ),
        ({"jobs": (UNDO,)}, "an undo was interrupted and will be finished first if it has written anything"),
    ],
)
def test_what_is_unfinished_is_a_sentence(left: dict[str, Any], sentence: str) -> None:
    assert unfinished.summary(**(NOTHING | left)) == sentence


def test_nothing_unfinished_has_no_words() -> None:
    assert unfinished.summary(**NOTHING) == ""
