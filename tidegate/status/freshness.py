"""How new a table's data is: the newest event time, from the statistics in Delta's log. Starts no JVM.

Rows are read only of files that do not tell, and of those that hold a time which has not come yet.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from tidegate.ops import store

if TYPE_CHECKING:
    from pathlib import Path

SKEW = timedelta(minutes=15)
"""How far a clock elsewhere may be ahead of this one. An event time beyond that is a mistake, and none of the newest."""
_AHEAD = timedelta(hours=14)
"""A day begins so long before it does in UTC, in the zone that is ahead of all others."""


def newest(path: Path, column: str, now: datetime) -> datetime | None:
    """The newest value of a column that is not in the future; None where there is none, or no such column.

    Args:
        path: The Delta table.
        column: A checked name, of a date or a timestamp. A date stands for its midnight in UTC; of a timestamp the
            log knows milliseconds.
        now: The instant, with its zone.
    """
    table = store.opened(path)
    if table is None:
        return None
    from deltalake import QueryBuilder

    kind = next((str(getattr(each.type, "type", "")) for each in table.schema().fields if each.name == column), "")
    if kind not in _LITERAL:
        return None
    latest = (now + _AHEAD).date() if kind == "date" else now + SKEW
    best, doubtful = _by_statistics(table, column, latest)
    if doubtful:
        # So the files whose newest is known stay closed. The log cuts milliseconds off, and delta-rs knows that.
        beyond = best + timedelta(milliseconds=1) if isinstance(best, datetime) else best
        above = f' AND "{column}" > {_literal(kind, beyond)}' if best is not None else ""
        sql = f'SELECT max("{column}") AS newest FROM held WHERE "{column}" <= {_literal(kind, latest)}{above}'
        found: Any = QueryBuilder().register("held", table).execute(sql).read_all()
        [row] = found.to_struct_array().to_pylist()
        best = row["newest"] if row["newest"] is not None else best
    return _instant(best) if best is not None else None


def _by_statistics(table: Any, column: str, latest: date) -> tuple[Any, bool]:
    """The newest value that the log names, and whether there may be a newer one in a file that does not tell."""
    actions = table.get_add_actions(flatten=True)
    names = {"rows": "num_records", "empty": f"null_count.{column}", "newest": f"max.{column}"}
    if f"partition.{column}" in actions.schema.names:
        names = {"newest": f"partition.{column}", "rows": "num_records"}
    known = {name: place for name, place in names.items() if place in actions.schema.names}
    best, doubtful = None, False
    for file in actions.select(list(known.values())).to_struct_array().to_pylist():
        told = {name: file[place] for name, place in known.items()}
        value = told.get("newest")
        if value is None:
            # Nothing but NULL, or no statistics.
            doubtful |= told.get("rows") is None or told.get("empty") != told["rows"]
        elif (_instant(value) if isinstance(latest, datetime) else value) > latest:
            doubtful = True
        elif best is None or value > best:
            best = value
    return best, doubtful


_LITERAL = {"date": "DATE '{:%Y-%m-%d}'", "timestamp": "TIMESTAMP '{:%Y-%m-%dT%H:%M:%S.%fZ}'"}
_LITERAL["timestamp_ntz"] = _LITERAL["timestamp"].replace("Z", "")
"""By Delta's type. A timestamp without a zone is taken as UTC, as the jobs' sessions do."""


def _literal(kind: str, value: date) -> str:
    return _LITERAL[kind].format(value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value)


def _instant(value: date) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return datetime.combine(value, time(), UTC)
