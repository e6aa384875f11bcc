"""The types of what a flow reads. Few modules need them at run time: `tidegate.spec.kinds` finds a kind of source without its class."""

from __future__ import annotations

from tidegate.sources.files import FileSource
from tidegate.sources.tables import ChangeFeed
from tidegate.sources.topics import KafkaSource

LandingSource = FileSource | KafkaSource
"""What a landing flow reads: records that no flow of the project writes."""
Source = LandingSource | ChangeFeed
