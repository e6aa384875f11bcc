"""Declarations of pipelines: frozen dataclasses, validated when they are created.

A declaration refers to everything by name: schemas are DDL strings, transforms are ``module:function`` in
``spark_jobs``, suites are files in ``expectations``. So a DAG file can import it without Spark, and a test resolves
every name. An invalid declaration fails at import with the field, its value and what is allowed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tidegate.schema.contract import Contract as Contract
from tidegate.sources.files import FileFormat as FileFormat
from tidegate.sources.files import FileSource as FileSource
from tidegate.sources.tables import ChangeFeed as ChangeFeed
from tidegate.spec.change_records import ChangeRecords as ChangeRecords
from tidegate.spec.change_records import debezium as debezium
from tidegate.spec.flow import Flow as Flow
from tidegate.spec.formats import Dialect as Dialect
from tidegate.spec.formats import Formats as Formats
from tidegate.spec.gate import Gate as Gate
from tidegate.spec.gate import Statistic as Statistic
from tidegate.spec.intervals import Intervals as Intervals
from tidegate.spec.intervals import TopicIntervals as TopicIntervals
from tidegate.spec.limits import RewriteLimits as RewriteLimits
from tidegate.spec.limits import Thresholds as Thresholds
from tidegate.spec.pipeline import AfterTables as AfterTables
from tidegate.spec.pipeline import Pipeline as Pipeline
from tidegate.spec.state import State as State
from tidegate.spec.state import Watermark as Watermark
from tidegate.spec.table import Table as Table
from tidegate.spec.table import TimeWindows as TimeWindows

__all__ = [
    "AfterTables", "ChangeFeed", "ChangeRecords", "Contract", "Dialect", "FileFormat", "FileSource", "Flow", "Formats",
    "FunctionSink", "Gate", "Intervals", "KafkaSink", "KafkaSource", "LandingSource", "Pipeline", "Resources",
    "RewriteLimits", "SnapshotFeed", "Source", "State", "Statistic", "Table", "Tables", "Target", "Thresholds", "TimeWindows",
    "TopicIntervals", "ValueFormat", "Watermark", "debezium",
]  # fmt: skip

if TYPE_CHECKING:
    from tidegate.sources.snapshots import SnapshotFeed as SnapshotFeed
    from tidegate.sources.topics import KafkaSource as KafkaSource
    from tidegate.sources.topics import ValueFormat as ValueFormat
    from tidegate.spec.resources import Resources as Resources
    from tidegate.spec.sinks import FunctionSink as FunctionSink
    from tidegate.spec.sinks import KafkaSink as KafkaSink
    from tidegate.spec.sinks import Target as Target
    from tidegate.spec.sources import LandingSource as LandingSource
    from tidegate.spec.sources import Source as Source
    from tidegate.spec.tables import Tables as Tables
else:
    _ON_DEMAND = {
        "SnapshotFeed": "tidegate.sources.snapshots",
        "KafkaSource": "tidegate.sources.topics",
        "ValueFormat": "tidegate.sources.topics",
        "Resources": "tidegate.spec.resources",
        "FunctionSink": "tidegate.spec.sinks",
        "KafkaSink": "tidegate.spec.sinks",
        "Target": "tidegate.spec.sinks",
        "LandingSource": "tidegate.spec.sources",
        "Source": "tidegate.spec.sources",
        "Tables": "tidegate.spec.tables",
    }
    """What few pipelines declare, by the module that has it, which is imported for those alone."""

    def __getattr__(name: str) -> Any:
        if name not in _ON_DEMAND:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_ON_DEMAND[name]), name)

    def __dir__() -> list[str]:
        return sorted(globals().keys() | _ON_DEMAND.keys())
