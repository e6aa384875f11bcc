"""All kinds of notes beside the checkpoints of a flow. The reference prints this table, and a test compares it with the code."""

from __future__ import annotations

from tidegate.checkpoints.note import AnyNote
from tidegate.checkpoints.notes import NOTES
from tidegate.spec.kinds import SOURCES
from tidegate.status.source import of_kind

ALL_NOTES: tuple[AnyNote, ...] = (*NOTES, *(note for folder in SOURCES for note in of_kind(folder).notes))
"""Those of every flow, and those of flows that read some kind of source."""
