"""SQL of SQLite over what `tidegate.ops.journal_tables` keeps in memory."""

from __future__ import annotations

from tidegate.lake import identity
from tidegate.ops.journal_tables import NEWEST_FIRST, TREND
from tidegate.ops.ledger import RunOrigin
from tidegate.ops.store import SEQUENCE
from tidegate.ops.table import columns_of
from tidegate.reports.ledger_line import LedgerLine

SUMMARIES = f"""
SELECT * FROM (
    SELECT pipeline, flow, batch_id, checkpoint_version, refresh, read, quarantined,
        row_number() OVER (PARTITION BY pipeline, flow ORDER BY {NEWEST_FIRST}) AS nth,
        max(recorded_at) OVER flow AS recorded_at,
        sum(CASE WHEN recorded_at > ? THEN read ELSE 0 END) OVER flow AS read_today,
        sum(CASE WHEN recorded_at > ? THEN quarantined ELSE 0 END) OVER flow AS quarantined_today
    FROM recent WHERE pipeline IN (SELECT value FROM json_each(?))
    WINDOW flow AS (PARTITION BY pipeline, flow)
) WHERE nth <= {TREND} ORDER BY pipeline, flow, nth
"""

# A refused batch has no line in the ledger: only a verdict, or, if its contract refused it, a line in the schema history. A swap
# has the transaction id and the number of the batch before it.
_KEY = ("flow", "app_id", "batch_id")
EITHER = (*_KEY, *columns_of(RunOrigin))
_LINE = ", ".join(
    [
        *(f"coalesce(l.{name}, v.{name}) AS {name}" for name in EITHER),
        *(f"l.{name}" for name in columns_of(LedgerLine) if name not in _KEY),
        "v.suite, v.outcome AS judged, v.unmet, v.schema_change_id",
    ]
)
_OF_EVOLUTION = {name: name for name in (*_KEY, "run_key", "recorded_at")} | {
    "checkpoint_version": "checkpoint_version_of(app_id)",
    "refresh": "refresh_of(app_id)",
}
_LAST = f"""
CREATE TEMP TABLE last AS
WITH judged AS (
    SELECT {", ".join(EITHER)}, {SEQUENCE}, suite, outcome, unmet, NULL AS schema_change_id
    FROM verdicts WHERE pipeline = $pipeline AND ($flow IS NULL OR flow = $flow)
    UNION ALL
    SELECT {", ".join(_OF_EVOLUTION.get(name, "NULL") for name in EITHER)}, {SEQUENCE}, NULL, 'refused', NULL, schema_change_id
    FROM evolution WHERE pipeline = $pipeline AND ($flow IS NULL OR flow = $flow) AND event = 'refused'
)
SELECT * FROM (
    -- A batch is judged after its contract let it pass.
    SELECT *, row_number() OVER (
        PARTITION BY app_id, batch_id ORDER BY schema_change_id IS NULL DESC, {NEWEST_FIRST}) AS nth
    FROM judged
) WHERE nth = 1
"""
"""The last judgement of each batch. It is a table of its own because SQLite joins only with an index in a time that does not grow with the
square of the batches."""
JUDGEMENTS = (_LAST, "CREATE INDEX temp.last_key ON last (app_id, batch_id)")
_OF_LINE = "l.pipeline = $pipeline AND ($flow IS NULL OR l.flow = $flow)"
_SAME = "l.app_id = v.app_id AND l.batch_id = v.batch_id AND l.kind <> 'swap'"
_CHOICE = ", ".join(
    [
        "l.rowid AS line, v.rowid AS judgement, l.kind",
        *(
            f"coalesce(l.{name}, v.{name}) AS {name}"
            for name in (*_KEY, "run_key", "recorded_at", "checkpoint_version", "refresh")
        ),
    ]
)
LINES = f"""
WITH candidates AS (
    SELECT {_CHOICE} FROM ledger l LEFT JOIN last v ON {_SAME} WHERE {_OF_LINE}
    UNION ALL
    SELECT {_CHOICE} FROM last v LEFT JOIN ledger l ON {_SAME} AND {_OF_LINE} WHERE l.rowid IS NULL
), chosen AS (
    SELECT * FROM candidates
    WHERE ($run_key IS NULL OR run_key = $run_key)
        AND ($page IS NULL OR (is_stream(app_id) AND $page = printf('v%d-%d-%s-%d',
            checkpoint_version, refresh, CASE WHEN kind = 'swap' THEN kind ELSE 'batch' END, batch_id)))
        AND ($until IS NULL OR recorded_at <= $until)
        AND (NOT $batches OR (is_stream(app_id) AND kind IS NOT 'swap'))
    ORDER BY recorded_at DESC, batch_id DESC, flow
    LIMIT $limit OFFSET $offset
)
SELECT {_LINE} FROM chosen LEFT JOIN ledger l ON l.rowid = chosen.line LEFT JOIN last v ON v.rowid = chosen.judgement
ORDER BY chosen.recorded_at DESC, chosen.batch_id DESC, chosen.flow
"""

VERSIONS = f"""
SELECT checkpoint_version, refresh, count(*) AS batches, min(recorded_at) AS first_at, max(recorded_at) AS last_at
FROM ledger WHERE pipeline = ? AND flow = ? AND {identity.IS_BATCH}
GROUP BY checkpoint_version, refresh ORDER BY checkpoint_version DESC, refresh DESC
"""
