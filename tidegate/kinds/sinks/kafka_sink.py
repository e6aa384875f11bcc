"""Sends changes to a Kafka topic, with Spark's own writer: it returns when the brokers have acknowledged every record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.advice import OutsideAct
from tidegate.errors import SinkError, SinkUnavailableError, SourceError, SourceUnavailableError
from tidegate.probes import kafka
from tidegate.spark.intake.topic_reader import java_version
from tidegate.spark.lake.tables import JSON
from tidegate.spec import KafkaSink

if TYPE_CHECKING:
    from tidegate.spark.job import Job

_WRITER = {
    # Every replica in sync has a record before it counts as sent, and the records of a partition keep their order in retries.
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    # The topic's max.message.bytes says how large a record may be, and not the client (Kafka's default is 1 MiB). A record never
    # fits if it is larger than the client's buffer, whose default this is.
    "kafka.max.request.size": "33554432",
    # When no broker answers: for the metadata of the topic (Kafka's default is 60 s), for one request, for a record (120 s).
    "kafka.max.block.ms": "15000",
    "kafka.request.timeout.ms": "8000",
    "kafka.delivery.timeout.ms": "30000",
}
_PROBE_SECONDS = 10.0
_ERROR = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)")
_REFUSALS = re.compile(
    r"Record(Batch)?TooLarge|Authorization|Authentication|InvalidConfiguration|InvalidTopic|PolicyViolation|InvalidRecord"
)
"""Parts of the names of Kafka's exceptions after which a retry cannot succeed."""


def send(job: Job, changes: DataFrame) -> int:
    """Send changes, as from `tidegate.kinds.sinks.sends`.

    Raises:
        SinkError: The topic does not exist, or the brokers refuse a record.
        SinkUnavailableError: No broker answers, or not all records were acknowledged in time. Transient.
    """
    sink, name = job.flow.target, job.flow.name
    assert isinstance(sink, KafkaSink)
    _check_topic(job, sink)
    headers = (
        _header("tidegate-change", "id"),
        _header("tidegate-type", "type"),
        _header("tidegate-version", "version"),
    )
    records = changes.select(
        F.to_json("key", JSON).cast("binary").alias("key"),
        F.to_json("row", JSON).cast("binary").alias("value"),
        F.array(*headers).alias("headers"),
    )
    options = {
        **job.cluster.spark(java_version(job.spark)),
        "topic": sink.topic,
        "includeHeaders": "true",
        **_WRITER,
    }
    try:
        records.write.format("kafka").options(**options).save()
    except Exception as error:
        errors = _ERROR.findall(str(error))
        if not errors:
            raise
        refusal = next((each for each in errors if _REFUSALS.search(each)), None)
        if refusal is not None:
            raise SinkError(
                name, sink.name, f"Kafka refuses a record ({refusal})", OutsideAct("correct the topic")
            ) from error
        problem = f"the brokers at {job.cluster} did not acknowledge all records ({errors[0]})"
        raise SinkUnavailableError(name, sink.name, problem, OutsideAct("see whether the brokers run")) from error
    # Spark's writer counts nothing, and raises unless every record was acknowledged.
    return changes.count()


def _header(name: str, column: str) -> Column:
    return F.struct(F.lit(name).alias("key"), F.col(column).cast("string").cast("binary").alias("value"))


def _check_topic(job: Job, sink: KafkaSink) -> None:
    """Check that the topic exists: a broker may create it as soon as it is named, with settings that nobody chose."""
    try:
        kafka.topic_id(job.cluster, sink.topic, _PROBE_SECONDS)
    except SourceUnavailableError as error:
        raise SinkUnavailableError(job.flow.name, sink.name, error.problem, error.advice) from error
    except SourceError as error:
        raise SinkError(job.flow.name, sink.name, error.problem, error.advice) from error
