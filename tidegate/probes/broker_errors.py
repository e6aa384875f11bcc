"""What librdkafka reports, as errors of the source."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.advice import Advice, Edit, Either, OutsideAct
from tidegate.errors import SourceError, SourceUnavailableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from tidegate.environment.clusters import Cluster

_ALERT = re.compile(r"alert ([a-z ]+): SSL alert number (\d+)")
"""How OpenSSL names what the other side of a TLS connection refuses."""
_OF_CERTIFICATE = frozenset({41, 42, 43, 44, 45, 46, 48, 49, 116})
"""Alerts about the certificate of the client (RFC 8446, section 6.2; 41 is of TLS before 1.3)."""
_IDENTITY = "user and password"
"""What is refused of a client by its user, its client id or its token."""
_OF_SETTINGS = frozenset({40, 70, 71, 112})
"""Alerts about versions, ciphers and names: no common one."""


def failure(cluster: Cluster, topic: str, error: KafkaError, reported: Iterable[KafkaError] = ()) -> SourceError:
    """What librdkafka reports about a topic, as an error of the source.

    Args:
        error: What ended the request.
        reported: What librdkafka reported meanwhile about its connections. It tries a wrong password or certificate again and again, so
            that the request ends with a timeout.
    """
    from confluent_kafka import KafkaError

    for each in (error, *reported):
        if refused := refusal(each):
            return not_accepted(cluster, topic, *refused)
        if each.code() in (KafkaError._SSL, KafkaError.SECURITY_DISABLED):
            return not_accepted(cluster, topic, "the connection", each.str())
    if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
        return SourceError(
            f"cluster {cluster.name} of Kafka does not let the user read topic {topic!r}: {error.str()} ({cluster.servers})",
            OutsideAct("grant it Describe, Read and DescribeConfigs of the topic, then run again"),
        )
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID):
        return deleted(cluster, topic)
    if error.code() > 0:
        # The broker's own errors; those of librdkafka, such as a connection that breaks, are negative.
        return SourceUnavailableError(
            f"the Kafka broker at {cluster} reports for topic {topic!r}: {error.str()}",
            OutsideAct("remove the cause, then run again"),
        )
    return unavailable(cluster, topic, error.str())


def refusal(error: KafkaError) -> tuple[str, str] | None:
    """What of the client a broker refuses for good, and why; None for every other error.

    With TLS 1.3 a broker refuses the certificate of a client only after the handshake, which librdkafka reports as a broken connection.
    """
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
        return _IDENTITY, error.str()
    if alert := _ALERT.search(error.str()):
        if int(alert[2]) in _OF_CERTIFICATE:
            return "the certificate of the client", alert[1]
        if int(alert[2]) in _OF_SETTINGS:
            return "the connection", alert[1]
    return None


def not_accepted(cluster: Cluster, topic: str, what: str, why: str) -> SourceError:
    """A broker does not accept the client, or the client not the broker. A retry cannot succeed."""
    advice: Advice = Edit(
        f"correct the settings kafka.{cluster.name}.…, or what they refer to, then run again", "setting"
    )
    if what == _IDENTITY and cluster.uses_iam:
        what = "the token of AWS"
        advice = OutsideAct(
            f"let the identity of this process connect to the cluster of kafka.{cluster.name} (kafka-cluster:Connect in a policy of AWS), "
            "and check that s3.region (AWS_REGION) is its region, then run again"
        )
    return SourceError(
        f"topic {topic!r}: {what} failed at cluster {cluster.name} of Kafka, {cluster.servers}: {why}", advice
    )


def deleted(cluster: Cluster, topic: str) -> SourceUnavailableError:
    """The topic was deleted meanwhile."""
    return SourceUnavailableError(
        f"topic {topic!r} at {cluster} was deleted while its offsets were read",
        OutsideAct("run again when it exists"),
    )


def unavailable(cluster: Cluster, topic: str, reason: str) -> SourceUnavailableError:
    """No broker answers."""
    variable = "TIDEGATE_KAFKA" + ("" if cluster.name == "default" else f"__{cluster.name.upper()}")
    return SourceUnavailableError(
        f"no Kafka broker answers at {cluster} for topic {topic!r} ({reason})",
        Either(OutsideAct("start it"), Edit(f"correct {variable}, and run again", "setting")),
    )
