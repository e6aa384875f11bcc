"""Finds the code of a kind of flow, and has what several kinds share."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tidegate.spark.intake.change_feed import changes_of
from tidegate.spark.job import Job, Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spec import Flow


def load(flow: Flow) -> Kind:
    """The kind of a flow."""
    kind: Kind = importlib.import_module(flow.kind.code).KIND
    return kind


def change_feed(job: Job) -> DataFrame:
    """The changes of the flow's source table, as `tidegate.spark.intake.change_feed.changes_of`."""
    return changes_of(job.spark, job.place.layout, job.flow.feeds[0])
