"""What `tidegate.ops.journal` keeps in memory of the platform's tables."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidegate.lake import identity
from tidegate.ops import evolution, ledger
from tidegate.ops.store import SEQUENCE, SEQUENCED, newest_first
from tidegate.ops.table_cache import CachedTable

TREND = 30
"""Length of a trend, in batches."""
NEWEST_FIRST = newest_first((*SEQUENCED, "batch_id"))
"""SQL after ORDER BY, of lines of one pipeline's table."""


def _chosen(columns: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: columns[name] for name in names} | {SEQUENCE: "BIGINT"}


LEDGER = CachedTable(name="ledger", columns={**ledger.LEDGER.columns, SEQUENCE: "BIGINT"}, key=("app_id", "batch_id"))
RECENT = CachedTable(
    name="recent",
    columns=_chosen(
        ledger.LEDGER.columns,
        *("flow", "kind", "app_id", "batch_id", "checkpoint_version", "refresh", "read", "quarantined", "recorded_at"),
    ),
    # The newest batches of all files are among the newest batches of each set of files.
    only=f"WHERE {identity.IS_BATCH} QUALIFY recorded_at > now() - INTERVAL '1 day' "
    f"OR row_number() OVER (PARTITION BY flow ORDER BY {NEWEST_FIRST}) <= {TREND}",
)
"""Of the ledger, what the summaries need; the whole ledger of a pipeline is read when one of its pages is opened."""


def _unmet(results: str) -> str:
    """The rules of the expectations that were not met, of the results of a verdict; both as JSON."""
    return json.dumps([each["rule"] for each in json.loads(results) if not each["success"]])


VERDICTS = CachedTable(
    name="verdicts",
    columns={
        **{name: kind for name, kind in ledger.VERDICTS.columns.items() if name != "results"},
        SEQUENCE: "BIGINT",
        "unmet": "VARCHAR[]",
    },
    derived={"unmet": ("results", _unmet)},
)
EVOLUTION = CachedTable(
    name="evolution",
    columns=_chosen(
        evolution.EVOLUTION.columns,
        *("flow", "event", "app_id", "run_key", "schema_change_id", "batch_id", "recorded_at"),
    ),
)

ALL = (RECENT, LEDGER, VERDICTS, EVOLUTION)
