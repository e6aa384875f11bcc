"""When a pipeline runs: by the clock, or after others."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.errors import FieldError
from tidegate.spec.fields import check_once, check_table, fits

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")
_CRON = re.compile(r"\S+ \S+ \S+ \S+ \S+")


@dataclass(frozen=True, init=False)
class AfterTables:
    """A schedule: a run whenever another pipeline has written new rows to one of these tables.

    ``AfterTables("silver.flights", "silver.clicks")``. An increment without a new row starts nothing. What several
    increments wrote while a run went on is read by one run.
    """

    tables: tuple[str, ...]
    """Each as ``<layer>.<table>``."""

    def __init__(self, *tables: str) -> None:
        object.__setattr__(self, "tables", tables)
        if not tables:
            raise FieldError("AfterTables", "tables", tables, "one table or more, as in AfterTables('silver.flights')")
        for table in tables:
            check_table(self, "tables", table)
        check_once("AfterTables", "tables", list(tables), "tables")


def is_cron(value: object) -> bool:
    """Whether it is a text of five cron fields, each within its range."""
    if not isinstance(value, str) or not fits(_CRON, value):
        return False
    from croniter import croniter

    return bool(croniter.is_valid(value))
