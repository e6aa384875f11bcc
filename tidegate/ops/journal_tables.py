"""What `tidegate.ops.journal` keeps in memory of the platform's tables."""

from __future__ import annotations

from tidegate import identity
from tidegate.ops.ledger import COUNTS
from tidegate.ops.store import SEQUENCE, SEQUENCED, newest_first
from tidegate.ops.table_cache import CachedTable

TREND = 30
"""Length of a trend, in batches."""
NEWEST_FIRST = newest_first((*SEQUENCED, "batch_id"))
"""SQL after ORDER BY, of lines of one pipeline's table."""

_ATTEMPT = {
    **dict.fromkeys(("run_key", "mode", "requested_by", "attempt"), "VARCHAR"),
    "checkpoint_version": "INTEGER",
    "refresh": "INTEGER",
    SEQUENCE: "BIGINT",
    "recorded_at": "TIMESTAMPTZ",
}
LEDGER = CachedTable(
    name="ledger",
    columns={
        **dict.fromkeys(("flow", "kind", "app_id"), "VARCHAR"),
        **dict.fromkeys(("batch_id", *COUNTS, "target_version"), "BIGINT"),
        **dict.fromkeys(("filtered", "rules"), "MAP(VARCHAR, BIGINT)"),
        "seconds": "DOUBLE",
        **_ATTEMPT,
    },
)
RECENT = CachedTable(
    name="recent",
    columns={
        **dict.fromkeys(("flow", "kind", "app_id"), "VARCHAR"),
        **dict.fromkeys(("batch_id", "checkpoint_version", "refresh", "read", "quarantined", SEQUENCE), "BIGINT"),
        "recorded_at": "TIMESTAMPTZ",
    },
    # The newest batches of all files are among the newest batches of each set of files.
    only=f"WHERE {identity.IS_BATCH} QUALIFY recorded_at > now() - INTERVAL 1 DAY "
    f"OR row_number() OVER (PARTITION BY flow ORDER BY {NEWEST_FIRST}) <= {TREND}",
)
"""Of the ledger, what the summaries need; the whole ledger of a pipeline is read when one of its pages is opened."""
_RESULTS = """from_json(results, '[{"rule": "VARCHAR", "success": "BOOLEAN"}]')"""
VERDICTS = CachedTable(
    name="verdicts",
    columns={
        **dict.fromkeys(("flow", "app_id", "suite", "outcome"), "VARCHAR"),
        "batch_id": "BIGINT",
        **_ATTEMPT,
        "unmet": "VARCHAR[]",
    },
    derived={"unmet": f"list_transform(list_filter({_RESULTS}, lambda x: NOT x.success), lambda x: x.rule)"},
)
EVOLUTION = CachedTable(
    name="evolution",
    columns={
        **dict.fromkeys(("flow", "event", "app_id", "run_key", "schema_change_id"), "VARCHAR"),
        **dict.fromkeys(("batch_id", SEQUENCE), "BIGINT"),
        "recorded_at": "TIMESTAMPTZ",
    },
)

ALL = (RECENT, LEDGER, VERDICTS, EVOLUTION)
