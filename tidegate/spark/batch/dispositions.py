"""The dispositions of rows, as the numbers in the column ``_disposition``."""

from __future__ import annotations

NAMES = ("quarantined", "late", "written", "superseded", "deduplicated", "filtered")
"""In order of precedence: a source row with several output rows takes the first that one of them has."""

QUARANTINED, LATE, WRITTEN, SUPERSEDED, DEDUPLICATED, FILTERED = range(len(NAMES))
