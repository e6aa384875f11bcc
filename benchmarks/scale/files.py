"""A landing zone in a bucket with many files, all read: what a plan that finds nothing asks for, and what it costs.

The bucket is in memory, behind the store of real ones, and its requests are counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.scale.children import allocated, in_child, used

SIZES = (9_500, 29_500, 89_500)
_FOLDER = 1000
"""Files in a folder of a day."""
_INCREMENT = 100
"""New files."""


def measure() -> dict[str, Any]:
    """One idle plan, and one with new files, at each size."""
    points = []
    for size in SIZES:
        points.append(in_child(_measured, size))
        print(f"  {size:,} files: {points[-1]}", flush=True)
    return {"points": points, "increment": _INCREMENT}


def _measured(size: int) -> dict[str, Any]:
    from benchmarks.scale.bucket_project import bucket_project
    from tests.status.sample_project import BRONZE
    from tidegate.probes import files

    with bucket_project() as (project, buckets):
        _land(project.landing, 0, size)
        listed = {each.path: each.modified_ms for each in files.list_files(project.landing, "*.csv").files}
        checkpoint = project.checkpoint("bronze")
        checkpoint.compact(9, {9: listed})
        checkpoint.run(9, {"logOffset": 9})
        log = len((checkpoint.address / "sources" / "0" / "9.compact").read().data)
        del listed
        buckets.requests.clear()
        idle, idle_use = used(lambda: project.plan(BRONZE))
        requests = Counter(method for method, _ in buckets.requests)
        listings = sum(method == "LIST" and key.startswith("landing") for method, key in buckets.requests)
        assert not (idle.work or idle.errors), idle.reason
        memory = allocated(lambda: project.plan(BRONZE))
        _land(project.landing, size, _INCREMENT)
        buckets.requests.clear()
        busy, busy_use = used(lambda: project.plan(BRONZE))
        (lag,) = (each.lag for each in busy.readings)
        assert lag is not None and lag.behind == _INCREMENT, busy.reason
        busy_requests = Counter(method for method, _ in buckets.requests)
    return {
        "files": size,
        "log_bytes": log,
        "landing_lists": listings,
        "idle_requests": dict(requests),
        "idle_processor": idle_use.processor,
        "idle_memory": memory,
        "increment_requests": dict(busy_requests),
        "increment_processor": busy_use.processor,
    }


def _land(landing: Any, first: int, number: int) -> None:
    for each in range(first, first + number):
        (landing / f"day={each // _FOLDER:06}" / f"part-{each:08}.csv").put(b"a\n1\n")
