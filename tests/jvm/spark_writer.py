"""A Spark application on a lake in a bucket: ``spark_writer.py <name> <appends> <stream>``; prints what it has done as JSON.

It appends rows to the table ``shared``, each as a commit of its own. With ``stream`` a query with state then copies the table to
``copy``, in two runs.
"""

from __future__ import annotations

import json
import sys

from tidegate.environment import Environment
from tidegate.requests.launch import submit_conf
from tidegate.spark.driver.session import build_session
from tidegate.testing.session import SMALL_DATA_CONF


def main(name: str, appends: int, stream: bool) -> None:
    """Append and copy."""
    environment = Environment.read()
    lake = str(environment.lake_at)
    spark = build_session(environment, name, {**submit_conf(environment, small=True), **SMALL_DATA_CONF})
    for number in range(appends):
        row = spark.createDataFrame([(name, number)], "writer STRING, number INT").coalesce(1)
        row.write.format("delta").mode("append").save(f"{lake}/shared")
    copied = 0
    for _ in range(2 if stream else 0):
        query = (
            spark.readStream.format("delta")
            .load(f"{lake}/shared")
            .dropDuplicates(["writer", "number"])
            .writeStream.format("delta")
            .option("checkpointLocation", f"{lake}/checkpoint")
            .trigger(availableNow=True)
            .start(f"{lake}/copy")
        )
        query.awaitTermination()
        copied = spark.read.format("delta").load(f"{lake}/copy").count()
    spark.stop()
    print(json.dumps({"appended": appends, "copied": copied}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "stream")
