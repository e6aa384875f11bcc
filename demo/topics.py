"""The topics of the examples."""

from __future__ import annotations

from demo import clicks_feed, payments_feed
from devstack.broker import Broker


def create_topics(broker: Broker) -> None:
    """Create the topics that do not exist: one for each feed, and the one to which alerts are sent."""
    for topic in (clicks_feed.TOPIC, payments_feed.TOPIC, payments_feed.ALERTS):
        broker.create_topic(topic, clicks_feed.PARTITIONS)
