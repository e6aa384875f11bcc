"""A process of its own, because the bound on the memory of state is one for all queries of a JVM: windows of many cards."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.spark.kinds.payments import Payments
from tidegate.environment import Environment
from tidegate.spark.driver.session import build_session

CARDS = 300_000
BOUND_MB = 4


def main(folder: Path) -> None:
    """Open a window for each card, close all of them, and print what the ledger says."""
    bound = {"spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": str(BOUND_MB)}
    spark = build_session(Environment.read(), "large state", bound)
    payments = Payments(spark, folder)
    payments.add(*((f"r{number}", f"card {number:032}", number, 1.0) for number in range(CARDS)))
    payments.run()
    payments.add(("last", "c", 0, 60.0))
    payments.run()
    rows = payments.table()
    stored = sum(file.stat().st_size for file in (payments.context().checkpoint / "state").rglob("*") if file.is_file())
    print(json.dumps({"windows": len(rows), "amount": sum(row["amount"] for row in rows), "stored": stored}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
