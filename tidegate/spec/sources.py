"""The kinds of source. A new kind is a folder in `tidegate.sources`, and one line in `SOURCES`.

Each folder has ``declare``, the class of the declaration; ``measure``, whose ``SOURCE`` says what is to be read, without a JVM
(`tidegate.status.source.MeasuredSource`); and where no flow writes the records, ``read``, whose ``BRONZE`` reads rows of the bronze
table (`tidegate.spark.intake.bronze.Bronze`). The job alone imports ``read``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.sources.files.declare import FileSource
from tidegate.sources.snapshots.declare import SnapshotFeed
from tidegate.sources.tables.declare import ChangeFeed
from tidegate.sources.topics.declare import KafkaSource

LandingSource = FileSource | KafkaSource
"""What a landing flow reads: records that no flow of the project writes."""
Source = LandingSource | ChangeFeed

SOURCES: Mapping[type[Source], str] = {
    FileSource: "files",
    KafkaSource: "topics",
    ChangeFeed: "tables",
    SnapshotFeed: "snapshots",
}
"""Every kind of source: its folder by the type of its declaration."""
