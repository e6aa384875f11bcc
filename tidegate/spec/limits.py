"""How much a rewrite of a table may take away, part of a pipeline's declaration."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import FieldError
from tidegate.reports.impact import WHATS, Impact, What


@dataclass(frozen=True, kw_only=True)
class RewriteLimits:
    """Limits of one flow, or of all flows of a pipeline without their own.

    A backfill, a full refresh and a new version are judged before they replace rows that readers have. Beyond a limit they are
    refused, unless the request accepts the number by name. Increments have no such limits, but one that compares a snapshot is
    judged for the rows that it deletes.
    """

    deleted_share: float = 0.1
    """A larger share of the table's rows, or of those of a backfill's keys, is deleted. 0 to 1; 1 refuses nothing."""
    quarantined_share: float = 0.1
    """A larger share of the source rows goes to quarantine, not counting those that an entry keeps out of the table already.
    0 to 1; 1 refuses nothing."""
    rows: int = 10
    """Up to this many rows are never too many, whatever their share, unless they are all rows."""

    def __post_init__(self) -> None:
        for name in ("deleted_share", "quarantined_share"):
            share = getattr(self, name)
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise FieldError("RewriteLimits", name, share, "a share from 0 to 1")
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 0:
            raise FieldError("RewriteLimits", "rows", self.rows, "a whole number from 0")

    def exceeded(self, impact: Impact) -> tuple[What, ...]:
        """What of the impact is beyond its limit."""
        return tuple(
            what
            for what in WHATS
            if impact.share(what) > self.share(what) and (getattr(impact, what) > self.rows or impact.share(what) == 1)
        )

    def share(self, what: What) -> float:
        """The limit of deleted, or quarantined, rows."""
        return self.deleted_share if what == "deleted" else self.quarantined_share
