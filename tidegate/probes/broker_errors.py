"""What librdkafka reports, as errors of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import SourceUnavailableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


def failure(bootstrap: str, topic: str, error: KafkaError) -> SourceUnavailableError:
    """What librdkafka reports about a topic, as an error of the source."""
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID):
        return deleted(bootstrap, topic)
    if error.code() > 0:
        # The broker's own errors; those of librdkafka, such as a connection that breaks, are negative.
        return SourceUnavailableError(
            f"the Kafka broker at {bootstrap} reports for topic {topic!r}: {error.str()}",
            OutsideAct("remove the cause, then run again"),
        )
    return unavailable(bootstrap, error.str())


def deleted(bootstrap: str, topic: str) -> SourceUnavailableError:
    """The topic was deleted meanwhile."""
    return SourceUnavailableError(
        f"topic {topic!r} at {bootstrap} was deleted while its offsets were read",
        OutsideAct("run again when it exists"),
    )


def unavailable(bootstrap: str, reason: str) -> SourceUnavailableError:
    """No broker answers."""
    return SourceUnavailableError(
        f"no Kafka broker answers at {bootstrap} ({reason})",
        Either(OutsideAct("start it"), Edit("correct TIDEGATE_KAFKA, and run again", "setting")),
    )
