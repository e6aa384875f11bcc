"""A Spark application on a lake in a bucket: ``spark_writer.py <name> <appends>``; prints what it has done as JSON.

It appends rows to the table ``shared``, each as a commit of its own.
"""

from __future__ import annotations

import json
import sys

from tidegate.environment import Environment
from tidegate.requests.launch import submit_conf
from tidegate.spark.driver.session import build_session
from tidegate.testing.session import ONE_TASK, SMALL_DATA_CONF


def main(name: str, appends: int) -> None:
    """Append."""
    environment = Environment.read()
    lake = str(environment.lake_at)
    spark = build_session(environment, name, {**submit_conf(environment, small=True), **SMALL_DATA_CONF, **ONE_TASK})
    for number in range(appends):
        # Without a Python worker: the commits are the test.
        row = spark.range(number, number + 1, 1, 1).selectExpr(f"'{name}' AS writer", "CAST(id AS INT) AS number")
        row.write.format("delta").mode("append").save(f"{lake}/shared")
    spark.stop()
    print(json.dumps({"appended": appends}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
