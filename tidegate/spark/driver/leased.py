"""Runs the work of a flow under its leases: measures its time and translates its exceptions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint
from tidegate.checkpoints.lease import checkpoint_resource, table_resource
from tidegate.errors import TidegateError
from tidegate.spark.driver import lease
from tidegate.spark.driver.failures import translate
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.project.resolution import ResolvedFlow
    from tidegate.spark.job import Run


@contextmanager
def leased_flow(
    spark: SparkSession, resolved: ResolvedFlow, run: Run, *, work: str, role: str = "attempt"
) -> Iterator[None]:
    """Hold the leases of the flow's checkpoint and target; at the end set seconds and target version in its report.

    Args:
        work: Names the work in error messages: ``flow 'silver'``.
        role: Names the holder of the leases to other processes, with the attempt: ``attempt a1 of flights``.

    Raises:
        LeaseHeldError: Another run has the lease of the flow or of its target. Transient.
        TidegateError: What the work raised; any other exception is translated to one (`tidegate.spark.driver.failures`).
    """
    started, pipeline, flow, layout = time.monotonic(), resolved.pipeline, resolved.flow, run.place.layout
    live = layout.table(flow.target.name)
    holder = f"{role} {run.place.attempt} of {pipeline.name}"
    resources = (
        checkpoint_resource(pipeline.name, flow.name),
        table_resource(flow.target.name),
    )
    try:
        with lease.hold(spark, layout, resources, what=holder):
            yield
    except TidegateError:
        raise
    except Exception as error:
        # The work may have opened a new refresh.
        folder = checkpoint.current(resolved.place(layout), flow.checkpoint_version).checkpoint
        feeds = [str(layout.table(table)) for table in flow.source_tables]
        raise translate(error, what=work, checkpoint=str(folder), feeds=feeds) from error
    finally:
        run.report.seconds = round(time.monotonic() - started, 3)
        # Only shown: an error here replaces none of the work.
        with contextlib.suppress(Exception):
            if tables.exists(live):
                run.report.target_version = tables.version(spark, live)
