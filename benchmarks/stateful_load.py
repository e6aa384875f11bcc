"""The load that a stateful flow carries: payments arrive for two minutes, ten times as many as the demo's first wave.

``python benchmarks/stateful_load.py`` starts a broker and makes a lake, both in a temporary folder. One increment of the first
wave comes before the clock starts. Then payments arrive at an even rate, with the present time as event time, while increments of the whole
pipeline `payments` follow each other without a pause (``tidegate run payments``, a new application each time), until everything is
read. For each increment it prints how long it took, and of its stateful flow: rows and rows per second of its batches, the
longest batch, rows, files and memory of the state, how far the watermark was behind, and the messages that waited when it ended.

At the end every payment must have a disposition, and no row may be late that arrived in order.

``--times``    how many times the demo's first wave; 10 by default
``--seconds``  for how long they arrive; 120 by default
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo import clicks_feed, payments_feed
from devstack.broker import Broker
from tidegate import formatting
from tidegate.environment import Environment
from tidegate.environment.clusters import Cluster
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import store
from tidegate.probes import kafka
from tidegate.processes import exit_now
from tidegate.runtime import jars

PROJECT = Path(__file__).parents[1]
FLOW = "decisions"
_SECONDS_AT_ONCE = 1.0


class Feed(threading.Thread):
    """Sends payments at an even rate, from when it is started.

    Args:
        number: Payments in total.
        seconds: For how long.
    """

    def __init__(self, bootstrap: str, number: int, seconds: float) -> None:
        super().__init__(name="feed", daemon=True)
        self.bootstrap, self.number, self.seconds = bootstrap, number, seconds
        self.sent = 0
        """Messages, of which some are duplicates and reversals."""

    def run(self) -> None:
        """Send them; called by `start`."""
        steps = round(self.seconds / _SECONDS_AT_ONCE)
        begun = time.monotonic()
        for step in range(steps):
            payments = self.number * (step + 1) // steps - self.number * step // steps
            # Above the numbers of the first wave.
            first = 1_000_000 + self.number * step // steps
            messages = payments_feed.live(first, datetime.now(UTC), payments)
            clicks_feed.produce(Cluster(servers=self.bootstrap), messages, payments_feed.TOPIC)
            self.sent += len(messages)
            time.sleep(max(begun + (step + 1) * _SECONDS_AT_ONCE - time.monotonic(), 0))


class Load:
    """A lake of the pipeline `payments`."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder, self.bootstrap = folder, bootstrap
        variables = {"PROJECT": PROJECT, "LAKE": folder / "lake", "LANDING": folder / "landing", "KAFKA": bootstrap}
        self.environ = {**os.environ, **{f"TIDEGATE_{name}": str(value) for name, value in variables.items()}}
        self.layout = Layout.of(Environment.read(self.environ))
        self.known: set[tuple[str, int]] = set()

    def increment(self) -> float:
        """Run one increment; the seconds that it took."""
        started = time.monotonic()
        command = [str(Path(sys.executable).parent / "tidegate"), "run", "payments"]
        with (self.folder / "runs.log").open("ab") as log:
            code = subprocess.run(command, env=self.environ, stdout=log, stderr=log, check=False).returncode
        if code:
            raise SystemExit(f"an increment ended with {code}:\n{(self.folder / 'runs.log').read_text()[-4000:]}")
        return time.monotonic() - started

    def batches(self) -> list[dict[str, Any]]:
        """Spark's progress of the stateful flow in the batches since the last call, oldest first."""
        sql = f"SELECT * FROM delta_table WHERE flow = '{FLOW}' ORDER BY started_at"
        lines = store.select(PipelinePlace(self.layout, "payments").ops("progress"), sql)
        new = [line for line in lines if (line["app_id"], line["batch_id"]) not in self.known]
        self.known |= {(line["app_id"], line["batch_id"]) for line in new}
        return new

    def waiting(self) -> int:
        """Messages that bronze has not read."""
        read: int = sum(line["read"] for line in self._ledger("bronze"))
        sent: int = sum(kafka.end_offsets(Cluster(servers=self.bootstrap), payments_feed.TOPIC).values())
        return sent - read

    def dispositions(self) -> Mapping[str, int]:
        """What became of the rows of bronze in the flow that has the watermark."""
        lines = self._ledger("silver")
        counts = {name: sum(line[name] or 0 for line in lines) for name in ("read", "written", "quarantined", "late")}
        filtered = sum(number for line in lines for _, number in line["filtered"] or ())
        return counts | {"filtered": filtered}

    def _ledger(self, flow: str) -> list[dict[str, Any]]:
        sql = f"SELECT * FROM delta_table WHERE flow = '{flow}'"
        return store.select(PipelinePlace(self.layout, "payments").ops("ledger"), sql)


def measure(load: Load, feed: Feed) -> None:
    """Run increments until all payments are decided, and print a line for each."""
    begun, rows, busy = time.monotonic(), 0, 0.0
    feed.start()
    last = False
    while not last:
        last = not feed.is_alive()
        took, waiting = load.increment(), load.waiting()
        batches = load.batches()
        if not batches:
            continue
        newest = batches[-1]
        own = sum(line["input_rows"] for line in batches)
        seconds = sum(line["trigger_ms"] for line in batches) / 1000
        rows, busy = rows + own, busy + seconds
        lag = "none" if newest["watermark_lag_seconds"] is None else f"{newest['watermark_lag_seconds'] / 60:.1f} min"
        print(
            f"{time.monotonic() - begun:6.0f} s: increment {took:5.1f} s; {own:7,} rows in {len(batches)} batches, "
            f"{own / seconds:7,.0f} rows/s, longest {max(line['trigger_ms'] for line in batches) / 1000:5.1f} s; "
            f"state {newest['state_rows']:7,} rows, {formatting.size(newest['state_bytes'])} in files, "
            f"{formatting.size(newest['state_memory_bytes'])} memory; watermark {lag} behind; {waiting:,} messages wait",
            flush=True,
        )
    total = time.monotonic() - begun
    print(
        f"{feed.sent:,} messages in {feed.seconds:.0f} s were decided after {total:.0f} s: {feed.sent / total:,.0f} per second "
        f"through the whole pipeline, {rows / busy:,.0f} rows per second in the batches of {FLOW}"
    )


def check(load: Load, sent: int) -> None:
    """Compare the messages with their dispositions.

    Raises:
        SystemExit: A message has none.
    """
    counts = load.dispositions()
    print(", ".join(f"{number:,} {name}" for name, number in counts.items()))
    if counts["read"] != sent or counts["read"] != sum(counts.values()) - counts["read"]:
        raise SystemExit(f"{sent:,} messages were sent, and not all have a disposition")


def main() -> None:
    """Run the load and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=120)
    given = parser.parse_args()
    first = payments_feed.wave_one()
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder) / "broker", class_path=jars.class_path(PROJECT, "broker")) as broker,
    ):
        for topic in (payments_feed.TOPIC, payments_feed.ALERTS):
            broker.create_topic(topic, partitions=clicks_feed.PARTITIONS)
        load = Load(Path(folder), broker.bootstrap)
        clicks_feed.produce(Cluster(servers=broker.bootstrap), first, payments_feed.TOPIC)
        print(f"the first increment, of {len(first):,} messages, took {load.increment():.1f} s")
        load.batches()
        feed = Feed(broker.bootstrap, given.times * len(first), given.seconds)
        measure(load, feed)
        check(load, len(first) + feed.sent)


if __name__ == "__main__":
    main()
    exit_now(0)
