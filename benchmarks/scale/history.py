"""A table with a year of commits, one each minute, and a ledger to which each run appends: what a plan and an append cost.

Commits before the last thirty days are cleaned by Delta, so the log of a year is as long as that of thirty days.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.scale.arithmetic import MINUTES_OF_LOG
from benchmarks.scale.children import in_child, used

COMMITS = (1_000, 10_000, MINUTES_OF_LOG)
APPENDS = 400
_LAST = 90
"""Appends at either end of which the times are compared."""
_ROUNDS = 3


def measure() -> dict[str, Any]:
    """Plans by the length of the log, and appends by that of the ledger."""
    logs = []
    for commits in COMMITS:
        logs.append(in_child(_of_log, commits))
        print(f"  {commits:,} commits: {logs[-1]}", flush=True)
    ledger = in_child(_of_ledger, APPENDS)
    print(f"  ledger: {ledger}", flush=True)
    return {"logs": logs, "ledger": ledger}


def _of_log(commits: int) -> dict[str, Any]:
    from benchmarks.scale.bucket_project import bucket_project
    from tests.spark_files import add, delta_offset
    from tests.status.sample_project import SILVER

    with bucket_project() as (project, buckets):
        log = project.table("bronze.trips")
        for _ in range(commits):
            log.commit(add("f", 1))
        checkpoint = f"{commits - 10:020d}.checkpoint.parquet"
        (log.path / "_delta_log" / checkpoint).put(b"PAR1" + bytes(4) + (0).to_bytes(4, "little") + b"PAR1")
        (log.path / "_delta_log" / "_last_checkpoint").put(b'{"version": %d}' % (commits - 10))
        project.checkpoint("silver").run(0, delta_offset(commits))
        processor = []
        requests: Counter[str] = Counter()
        for _ in range(_ROUNDS):
            buckets.requests.clear()
            planned, use = used(lambda: project.plan(SILVER))
            assert not (planned.work or planned.errors), planned.reason
            processor.append(use.processor)
            requests = Counter(method for method, _ in buckets.requests)
            listings = sum(
                each == "LIST" and key.endswith("bronze/trips/_delta_log/") for each, key in buckets.requests
            )
    return {"commits": commits, "requests": dict(requests), "log_listings": listings, "processor": processor}


def _of_ledger(appends: int) -> dict[str, Any]:
    from benchmarks.pages import _ledger_line
    from tidegate.ops import ledger, store
    from tidegate.store import Address

    columns = ledger.LEDGER.columns
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger")
        for batch in range(appends):
            line = _ledger_line("silver", batch, list(columns))
            started = time.process_time()
            store.append(Address.local(path), columns, [line], (f"p/silver/v1/{batch % 3}", batch))
            seconds.append(time.process_time() - started)
        compacted = sorted(path.glob("compacted-*.parquet"), key=lambda each: each.stat().st_size)
        return {
            "appends": appends,
            "first_processor": statistics.median(seconds[10 : 10 + _LAST]),
            "last_processor": statistics.median(seconds[-_LAST:]),
            "compaction_processor": max(seconds[-store.MAX_FILES - 1 :]),
            "log_entries": len(list((path / "_delta_log").glob("*.json"))),
            "checkpoints": len(list((path / "_delta_log").glob("*.checkpoint.parquet"))),
            "row_bytes": compacted[-1].stat().st_size / _rows(compacted[-1]),
            "compactions": len(compacted),
        }


def _rows(file: Path) -> int:
    import pyarrow.parquet

    return int(pyarrow.parquet.read_metadata(file).num_rows)
