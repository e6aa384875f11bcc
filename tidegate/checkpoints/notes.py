"""The kinds of notes beside the checkpoints of every flow; `tidegate.status.notes` has those of some kinds of source as well."""

from __future__ import annotations

from tidegate.checkpoints.checkpoint import ORIGIN, SCHEMA, SIDECAR
from tidegate.checkpoints.derivation import DERIVATION
from tidegate.checkpoints.history import HISTORY, LAST_WRITTEN
from tidegate.checkpoints.landing_folder import MOVED_FILES
from tidegate.checkpoints.note import AnyNote
from tidegate.checkpoints.overrides import OVERRIDES
from tidegate.checkpoints.pending_jobs import CLAIM, UNDO, WINDOWS
from tidegate.checkpoints.refusal import DECISION, REFUSAL
from tidegate.checkpoints.rewrite import REWRITE
from tidegate.checkpoints.topic import TOPIC
from tidegate.checkpoints.vector import STARTS

NOTES: tuple[AnyNote, ...] = (
    *(SIDECAR, SCHEMA, TOPIC),
    *(ORIGIN, STARTS, HISTORY, LAST_WRITTEN, REFUSAL, DECISION),
    *(OVERRIDES, MOVED_FILES, REWRITE, DERIVATION, WINDOWS, CLAIM, UNDO),
)
"""Those of a version, of a checkpoint, and of a flow."""
