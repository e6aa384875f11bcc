"""The topics of the examples."""

from __future__ import annotations

from demo import clicks_feed, payments_feed
from devstack.broker import Broker
from tidegate.advice import OutsideAct
from tidegate.environment.clusters import Cluster
from tidegate.errors import SetupError, SourceUnavailableError
from tidegate.probes import kafka

TOPICS = (clicks_feed.TOPIC, payments_feed.TOPIC, payments_feed.ALERTS)
"""One for each feed, and the one to which alerts are sent."""
SECONDS_TO_WAIT = 60.0


def create_topics(broker: Broker) -> None:
    """Create those that do not exist."""
    for topic in TOPICS:
        broker.create_topic(topic, clicks_feed.PARTITIONS)


def create_topics_of(cluster: Cluster) -> None:
    """Create those that do not exist on brokers that are not the demo's, with the number of replicas that is theirs.

    Raises:
        SetupError: One has messages, which the demo would take for its own.
        SourceUnavailableError: The brokers do not answer, or refuse.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({**cluster.librdkafka(), "log_level": 0})
    wanted = [NewTopic(topic, num_partitions=clicks_feed.PARTITIONS) for topic in TOPICS]
    for topic, created in admin.create_topics(wanted, request_timeout=SECONDS_TO_WAIT).items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SourceUnavailableError(
                    f"The brokers at {cluster.servers} did not create the topic {topic!r}: {error}",
                    OutsideAct("see whether they run, and whether the user may create topics"),
                ) from error
            if any(kafka.end_offsets(cluster, topic, SECONDS_TO_WAIT).values()):
                raise SetupError(
                    f"The topic {topic!r} at {cluster.servers} has messages, which the demo would take for its own",
                    OutsideAct("delete it, or name brokers without it"),
                ) from None
