"""One fixed load of the pipeline `flights` on a standalone cluster with executors of one core each.

Lake and landing zone are in an S3 server. Each run begins with a new lake and a new cluster. Requests and bytes are counted in a run of
their own, through a proxy that slows it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from benchmarks.cost import Sampler
from demo import flights_feed
from devstack.s3_server import S3Process, built
from tests.standalone import standalone_cluster
from tests.store.proxy import Answer, S3Proxy

PROJECT = Path(__file__).parents[2]
EXECUTORS = (1, 2, 4)
ROUNDS = 1
_DAYS = 120
_FILES = 25
"""As many as the pipeline reads in a batch."""


class _CountingProxy(S3Proxy):
    """Counts bytes, too."""

    sent = received = 0

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        answer = super().pass_on(method, path, headers, body)
        with self._lock:
            self.sent += len(body)
            self.received += len(answer[2])
        return answer


def measure() -> dict[str, Any]:
    """The first load with each number of executors."""
    with tempfile.TemporaryDirectory(prefix="scale-") as temporary:
        folder = Path(temporary, "s3")
        folder.mkdir()
        server = S3Process(built(), folder)
        server.start()
        try:
            bucket = server.new_bucket()
            rows, size = _land(folder / "buckets" / bucket / "flights")
            # Other work on the machine meets all numbers of executors alike.
            rounds = [{number: _timed(server, bucket, number) for number in EXECUTORS} for _ in range(ROUNDS)]
            counted = {number: _counted(server, bucket, number) for number in EXECUTORS}
        finally:
            server.kill()
    points = [
        {"executors": number, "timed": [each[number] for each in rounds], "counted": counted[number]}
        for number in EXECUTORS
    ]
    return {"rows": rows, "bytes": size, "files": _FILES, "points": points}


def _land(folder: Path) -> tuple[int, int]:
    """Land the load; returns its rows and bytes."""
    days = list(flights_feed.days())[:_DAYS]
    rows = size = 0
    for number in range(_FILES):
        records = [record for day in days[number::_FILES] for record in flights_feed.days()[day]]
        content = flights_feed.as_csv(records)
        flights_feed.land(folder, f"flights_{number:02}.csv", content, len(records))
        rows, size = rows + len(records), size + len(content)
    return rows, size


def _counted(server: S3Process, landing: str, executors: int) -> dict[str, Any]:
    """As `_timed`, with the requests of driver and executors by method, and the bytes of their contents."""
    proxy = _CountingProxy(server.endpoint)
    with proxy.serving():
        run = _timed(server, landing, executors, AWS_ENDPOINT_URL_S3=proxy.endpoint)
    assert not proxy.refused, proxy.refused
    requests = Counter("LIST" if "list-type" in path else method for method, path in proxy.requests)
    return {**run, "requests": dict(sorted(requests.items())), "sent": proxy.sent, "received": proxy.received}


def _timed(server: S3Process, landing: str, executors: int, **variables: str) -> dict[str, float]:
    """Seconds of a run, and processor seconds of its processes by role."""
    with tempfile.TemporaryDirectory(prefix="scale-") as temporary:
        folder = Path(temporary)
        workers = [f"worker-{number}" for number in range(executors)]
        own = {**server.variables, "TIDEGATE_S3_CREDENTIALS": "environment", **variables}
        (folder / "cluster").mkdir()
        # Executors compile as those of a user do.
        with standalone_cluster(folder / "cluster", workers, **own, JAVA_TOOL_OPTIONS="") as cluster:
            environment = {
                **os.environ,
                **own,
                **cluster.variables,
                "TIDEGATE_PROJECT": str(PROJECT),
                "TIDEGATE_LAKE": f"s3://{server.new_bucket()}/lake",
                "TIDEGATE_LANDING": f"s3://{landing}",
                "TIDEGATE_DRIVER_MEMORY": "1g",
                "TIDEGATE_EXECUTORS": str(executors),
                "TIDEGATE_EXECUTOR_MEMORY": "900m",
            }
            return _run(folder / "run.log", environment)


def _run(log: Path, environment: Mapping[str, str]) -> dict[str, float]:
    started = time.monotonic()
    with log.open("wb") as output, Sampler(_role) as sampler:
        command = [str(PROJECT / ".venv" / "bin" / "tidegate"), "run", "flights"]
        done = subprocess.run(command, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
    wall = time.monotonic() - started
    if done.returncode:
        shutil.copy(log, "scale-executors.log")
        raise SystemExit(f"the run exited with {done.returncode}; see its log scale-executors.log")
    return {"wall": wall, **sampler.processor()}


def _role(process: psutil.Process) -> str:
    if process.name() == "versitygw":
        return "server"
    words = [word for each in (process, *process.parents()) for word in each.cmdline()]
    if any("CoarseGrainedExecutorBackend" in word for word in words):
        return "executors"
    return (
        "cluster"
        if any(word.startswith("org.apache.spark.deploy.") for word in words if "SparkSubmit" not in word)
        else "driver"
    )
