"""Schedules of pipelines: by time, or after other pipelines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.errors import FieldError
from tidegate.spec.checks import check_table, check_unique, fits

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")
_CRON = re.compile(r"\S+ \S+ \S+ \S+ \S+")


@dataclass(frozen=True, init=False)
class AfterTables:
    """A schedule: a run whenever another pipeline has written rows to one of these tables.

    ``AfterTables("silver.flights", "silver.clicks")``. An increment that wrote no row triggers no run. All increments
    that end during a run trigger one further run.
    """

    tables: tuple[str, ...]
    """Each as ``<layer>.<table>``."""
    intervals: bool = False
    """A run not for new rows, but for each complete interval of the source from which one of the tables was read. They are bronze
    tables whose source declares ``intervals``."""

    def __init__(self, *tables: str, intervals: bool = False) -> None:
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "intervals", intervals)
        if not isinstance(intervals, bool):
            raise FieldError("AfterTables", "intervals", intervals, "True or False")
        if not tables:
            raise FieldError("AfterTables", "tables", tables, "one table or more, as in AfterTables('silver.flights')")
        for table in tables:
            check_table(self, "tables", table)
        check_unique("AfterTables", "tables", list(tables), "tables")


def is_cron(value: object) -> bool:
    """Whether a value is a cron expression of five fields, each within its range."""
    if not isinstance(value, str) or not fits(_CRON, value):
        return False
    from croniter import croniter

    return bool(croniter.is_valid(value))
