"""The kinds of source: the modules that measure each, and parse its records. A new kind is one line in `SOURCES`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.spec.sources import ChangeFeed, FileSource, KafkaSource, SnapshotFeed, Source


@dataclass(frozen=True, kw_only=True)
class SourceKind:
    """One kind of source."""

    measured: str
    """The module whose ``SOURCE`` says what is to be read, without a JVM (`tidegate.status.sources.source.MeasuredSource`)."""
    bronze: str = ""
    """The module whose ``BRONZE`` reads rows of the bronze table (`tidegate.spark.intake.bronze.Bronze`); none for tables of flows.
    It is imported by the job only."""


SOURCES: Mapping[type[Source], SourceKind] = {
    FileSource: SourceKind(measured="tidegate.status.sources.files", bronze="tidegate.spark.intake.bronze_files"),
    KafkaSource: SourceKind(measured="tidegate.status.sources.topics", bronze="tidegate.spark.intake.bronze_messages"),
    ChangeFeed: SourceKind(measured="tidegate.status.sources.tables"),
    SnapshotFeed: SourceKind(measured="tidegate.status.sources.snapshots"),
}
"""Every kind of source, by the type of its declaration."""
