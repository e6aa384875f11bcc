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
    from tidegate.spark.context import FlowContext


@contextmanager
def leased_flow(context: FlowContext, *, work: str, holder: str) -> Iterator[None]:
    """Hold the leases of the flow's checkpoint and target; at the end set seconds and target version in its report.

    Args:
        work: Names the work in error messages: ``flow 'silver'``.
        holder: Names the holder of the leases to other processes: ``attempt a1 of flights``.

    Raises:
        LeaseHeldError: Another run has the lease of the flow or of its target. Transient.
        TidegateError: What the work raised; any other exception is translated to one (`tidegate.spark.driver.failures`).
    """
    started = time.monotonic()
    resources = (
        checkpoint_resource(context.pipeline.name, context.flow.name),
        table_resource(context.flow.target.name),
    )
    try:
        with lease.hold(context.spark, context.layout, resources, what=holder):
            yield
    except TidegateError:
        raise
    except Exception as error:
        # The work may have opened a new refresh.
        folder = checkpoint.current(context.layout, context.pipeline, context.flow).checkpoint
        feeds = [str(path) for path in context.source_paths]
        raise translate(error, what=work, checkpoint=str(folder), feeds=feeds) from error
    finally:
        context.report.seconds = round(time.monotonic() - started, 3)
        # Only shown: an error here replaces none of the work.
        with contextlib.suppress(Exception):
            if tables.exists(context.live):
                context.report.target_version = tables.version(context.spark, context.live)
