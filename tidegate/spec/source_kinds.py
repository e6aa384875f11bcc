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


SOURCES: Mapping[type[Source], SourceKind] = {
    FileSource: SourceKind(measured="tidegate.status.sources.files"),
    KafkaSource: SourceKind(measured="tidegate.status.sources.topics"),
    ChangeFeed: SourceKind(measured="tidegate.status.sources.tables"),
    SnapshotFeed: SourceKind(measured="tidegate.status.sources.snapshots"),
}
"""Every kind of source, by the type of its declaration."""
