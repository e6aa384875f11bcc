"""Freshness of a table: its newest event time, from the file statistics in Delta's log. Starts no JVM.

Rows are read only from files without statistics, and from files whose maximum is in the future.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from tidegate.probes import delta_table
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.store import Address

SKEW = timedelta(minutes=15)
"""Tolerated clock skew of event times. A later event time is considered wrong and ignored."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_UTC_OFFSET = timedelta(hours=14)
"""The largest UTC offset of any time zone (Pacific/Kiritimati): a date may begin this much before it does in UTC."""


def newest(address: Address, column: str, now: datetime) -> datetime | None:
    """The newest value of a column that is not in the future; None if there is no such value or column.

    Args:
        column: A validated name of a date or timestamp column. A date counts as midnight UTC; the log's statistics have
            millisecond precision.
        now: An aware datetime.
    """
    table = delta_table.find_log(address)
    if table is None:
        return None
    kind = next((str(getattr(each.type, "type", "")) for each in table.schema().fields if each.name == column), "")
    if kind not in ("date", "timestamp", "timestamp_ntz"):
        return None
    latest = (now + _MAX_UTC_OFFSET).date() if kind == "date" else now + SKEW
    best, uncertain = _by_statistics(table, column, latest)
    if uncertain:
        # The condition prunes files whose maximum is known. The log truncates to milliseconds; delta-rs accounts for that.
        lower = best + timedelta(milliseconds=1) if isinstance(best, datetime) else best
        above = f' AND "{column}" > {_literal(kind, lower)}' if best is not None else ""
        sql = f'SELECT max("{column}") AS newest FROM delta_table WHERE "{column}" <= {_literal(kind, latest)}{above}'
        rows = delta_table.find_small(address)
        assert rows is not None
        result: Any = delta_table.query_builder().register("delta_table", rows).execute(sql).read_all()
        [row] = result.to_struct_array().to_pylist()
        best = row["newest"] if row["newest"] is not None else best
    return _instant(best) if best is not None else None


def oldest(address: Address, column: str) -> datetime | None:
    """The oldest value of a timestamp column by the log's statistics, after 1970 began; None if they have none."""
    table = delta_table.find_log(address)
    if table is None:
        return None
    actions = table.get_add_actions(flatten=True)
    field = f"min.{column}"
    if field not in actions.schema.names:
        return None
    values = (file[field] for file in actions.select([field]).to_struct_array().to_pylist())
    instants = [_instant(value) for value in values if value is not None]
    # Kafka's time of a message without timestamp is one millisecond before 1970.
    return min((instant for instant in instants if instant.timestamp() > 0), default=None)


def spans(address: Address, column: str) -> list[tuple[datetime, datetime]]:
    """The oldest and the newest value of a timestamp column in each file of a table, by the log's statistics.

    Without files whose values are before 1970 or unknown; of one that has some, from 1970 on.
    """
    table = delta_table.find_log(address)
    if table is None:
        return []
    actions, bounds = table.get_add_actions(flatten=True), (f"min.{column}", f"max.{column}")
    if not set(bounds) <= set(actions.schema.names):
        return []
    files = actions.select(list(bounds)).to_struct_array().to_pylist()
    known = [
        [_instant(file[bound]) for bound in bounds]
        for file in files
        if all(file[bound] is not None for bound in bounds)
    ]
    # Kafka's time of a message without timestamp is one millisecond before 1970.
    return [(max(first, _EPOCH), last) for first, last in known if last > _EPOCH]


def _by_statistics(table: Any, column: str, latest: date) -> tuple[Any, bool]:
    """The newest value in the statistics, and whether a file without usable statistics may have a newer one."""
    actions = table.get_add_actions(flatten=True)
    names = {"rows": "num_records", "empty": f"null_count.{column}", "newest": f"max.{column}"}
    if f"partition.{column}" in actions.schema.names:
        names = {"newest": f"partition.{column}", "rows": "num_records"}
    available = {name: field for name, field in names.items() if field in actions.schema.names}
    best, uncertain = None, False
    for file in actions.select(list(available.values())).to_struct_array().to_pylist():
        statistics = {name: file[field] for name, field in available.items()}
        value = statistics.get("newest")
        if value is None:
            # Either all values are NULL, or there are no statistics.
            uncertain |= statistics.get("rows") is None or statistics.get("empty") != statistics["rows"]
        elif (_instant(value) if isinstance(latest, datetime) else value) > latest:
            uncertain = True
        elif best is None or value > best:
            best = value
    return best, uncertain


def _literal(kind: str, value: date) -> str:
    # A timestamp without a zone is read as UTC, as in the jobs' Spark sessions.
    return (
        dates.literal(value, zone=kind == "timestamp") if isinstance(value, datetime) else f"DATE '{value.isoformat()}'"
    )


def _instant(value: date) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return datetime.combine(value, time(), UTC)
