"""The lag of a flow: what it has still to read, and what it waits for. Starts no JVM and takes no lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.reports.report import ErrorReport
from tidegate.status.reading import Reading
from tidegate.status.source import Backlog

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedFlow


def measure(environment: Environment, resolved: ResolvedFlow) -> Reading:
    """A reading of one flow in which it is known what waits; raises as `Reading.measure`."""
    return Reading.of(environment, resolved).measure()


def to_json(reading: Reading) -> dict[str, Any]:
    """The lag as `tidegate lag` prints it and run reports store it, without the intervals, which may be many."""
    is_known, lag = reading.lag is not None, reading.lag or _UNKNOWN
    waits = reading.wait if is_known else None
    left = is_known and waits is None
    return {
        "flow": reading.flow,
        "kind": reading.source_kind,
        "rows": lag.rows,
        "bytes": lag.size,
        "rows_exact": lag.rows_exact,
        "bytes_exact": lag.size_exact,
        "behind": lag.behind,
        "pending_batch": reading.progress.pending_batch if is_known else None,
        "has_work": reading.has_work,
        "refused": waits is not None,
        "refused_by": waits.by if waits is not None else None,
        "written": left and reading.written,
        "refresh_pending": is_known and reading.refresh_pending,
        "switched_off": reading.switched_off is not None,
        "reason": reading.reason,
        "position": lag.position,
        "first": is_known and reading.committed is None,
        "reads": reading.reads if is_known else "",
        "unfinished": reading.unfinished if left else "",
        "remarks": reading.remarks if is_known else "",
        "ahead": lag.ahead,
        "rewritten": lag.rewritten,
        "touched": lag.touched,
        "ignored": lag.ignored,
        "first_offsets": lag.first_offsets,
        "unread": lag.unread,
        "unread_until_ms": lag.unread_until_ms,
        "unread_since_ms": lag.unread_since_ms,
        "error": None if reading.error is None else ErrorReport.of(reading.error).to_json(),
    }


_UNKNOWN = Backlog(what="", behind=0, rows=None, size=None, position="", has_data=False)
