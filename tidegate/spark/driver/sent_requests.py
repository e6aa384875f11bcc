"""The requests to object stores that an attempt sends: its own, and those of the JVM of its driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.runtime.s3a import SENT_REQUESTS
from tidegate.store.counted import SENT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SentRequests:
    """Counts from now on: a process may make several attempts, in tests."""

    def __init__(self) -> None:
        self._platform = Counter(SENT.count())
        self._spark: SparkSession | None = None
        self._of_spark: Counter[str] = Counter()

    def of_session(self, spark: SparkSession) -> None:
        """Count also what the JVM of a session sends from now on."""
        self._spark, self._of_spark = spark, _sent_by(spark)

    def count(self) -> dict[str, int]:
        """The numbers, as `tidegate.ops.attempts.AttemptLine.requests`."""
        by = {"platform": Counter(SENT.count()) - self._platform}
        if self._spark is not None:
            by["spark"] = _sent_by(self._spark) - self._of_spark
        return {f"{who} {kind}": number for who, sent in by.items() for kind, number in sorted(sent.items())}


def _sent_by(spark: SparkSession) -> Counter[str]:
    jvm: Any = spark.sparkContext._jvm
    sent: Mapping[str, int] = getattr(jvm, SENT_REQUESTS).count()
    return Counter(dict(sent))
