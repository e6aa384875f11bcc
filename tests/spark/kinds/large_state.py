"""A process of its own, because the bound on the memory of state is one for all queries of a JVM: windows of many cards."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.spark.kinds.payments import Payments
from tidegate.environment import Environment
from tidegate.spark.driver.session import build_session

CARDS = 150_000
BOUND_MB = 4
"""Spark keeps to it but for a few MB: of a batch that is being written, and of blocks that are in use."""


class Operators(StreamingQueryListener):
    """Collects what Spark reports of the stateful operator in each batch.

    ``memory`` is that of RocksDB and ``tables`` the size of its SST files, both in bytes; ``blocks_read`` came from these files, because
    they were not in memory.
    """

    def __init__(self) -> None:
        self.batches: list[dict[str, int]] = []

    def onQueryStarted(self, event: Any) -> None:
        """Called by Spark, as the next ones."""

    def onQueryProgress(self, event: Any) -> None:
        for operator in json.loads(event.progress.json)["stateOperators"]:
            own = operator["customMetrics"]
            self.batches.append(
                {
                    "rows": operator["numRowsTotal"],
                    "memory": operator["memoryUsedBytes"],
                    "tables": own["rocksdbSstFileSize"],
                    "blocks_read": own["rocksdbReadBlockCacheMissCount"],
                }
            )

    def onQueryTerminated(self, event: Any) -> None:
        pass


def card(number: int) -> str:
    """Not compressible: of names that are alike, RocksDB would store a sixteenth of their size."""
    return hashlib.sha512(str(number).encode()).hexdigest()


def main(folder: Path) -> None:
    """Open a window for each card, close all of them, and print what the table and Spark's metrics say."""
    bound = {"spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": str(BOUND_MB)}
    spark = build_session(Environment.read(), "large state", bound)
    operators = Operators()
    spark.streams.addListener(operators)
    payments = Payments(spark, folder)
    payments.add(*((f"r{number}", card(number), number, 1.0) for number in range(CARDS)))
    payments.run()
    payments.add(("last", "c", 0, 60.0))
    payments.run()
    rows = payments.table()
    spark.stop()
    print(
        json.dumps({"windows": len(rows), "amount": sum(row["amount"] for row in rows), "batches": operators.batches})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
