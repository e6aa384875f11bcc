"""A flow's turn: it works under its leases, its time is taken, and what goes wrong has a name of ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate.checkpoints.lease import checkpoint_resource, table_resource
from tidegate.errors import TidegateError
from tidegate.spark.driver import lease
from tidegate.spark.driver.failures import translate
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext


@contextmanager
def turn(context: FlowContext, *, work: str, holder: str) -> Iterator[None]:
    """Hold the leases of the flow's checkpoint and of its target; at the end its report has seconds and target version.

    Args:
        context: The flow.
        work: What is done, for the message of an error: ``flow 'silver'``.
        holder: What whoever meets the leases is told: ``attempt a1 of flights``.

    Raises:
        LeaseHeldError: Somebody else works on the flow or writes its target. Transient.
        TidegateError: What the work raised; an exception that is not ours becomes one.
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
        feed = str(context.source_table or "")
        raise translate(error, what=work, checkpoint=str(context.checkpoint), feed=feed) from error
    finally:
        context.report.seconds = round(time.monotonic() - started, 3)
        if tables.exists(context.live):
            context.report.target_version = tables.version(context.spark, context.live)
