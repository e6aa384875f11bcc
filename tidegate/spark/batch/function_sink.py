"""Sends changes with a function of the project, called in the driver once for a batch."""

from __future__ import annotations

import importlib
from datetime import UTC
from typing import TYPE_CHECKING, Any, cast

from tidegate.changes import Change, WriteChanges
from tidegate.errors import SinkError, SinkUnavailableError, SpecError
from tidegate.formatting import count
from tidegate.spec import FunctionSink

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext


def send(context: FlowContext, changes: DataFrame) -> int:
    """Send changes, as from `tidegate.spark.batch.sends`.

    Returns:
        How many changes the function took.

    Raises:
        SpecError: The function does not exist.
        SinkError: It returned before it took all changes.
        SinkUnavailableError: It raised an exception, of which only the class is named: its text may quote data. Transient.
    """
    sink, name = context.flow.target, context.flow.name
    assert isinstance(sink, FunctionSink)
    write, number, failed = _function(name, sink), 0, list[Exception]()
    fields = changes.select("row.*").schema.fields
    times = {field.name for field in fields if field.dataType.typeName() == "timestamp"}

    def take() -> Iterator[Change]:
        nonlocal number
        try:
            for each in changes.toLocalIterator():
                number += 1
                values = each.asDict(recursive=True)
                yield Change(**values | {name: _with_zone(values[name], times) for name in ("key", "row")})
        except Exception as error:
            failed.append(error)
            raise

    left = take()
    try:
        write(left)
    except Exception as error:
        if failed:
            # Reading the batch failed, and not the sink.
            raise failed[0] from None
        raise SinkUnavailableError(name, sink.name, f"{sink.write} raised {type(error).__name__}") from error
    if failed:
        # The function has caught the error, and does not know the changes that follow.
        raise failed[0]
    if next(left, None) is not None:
        raise SinkError(
            name, sink.name, f"{sink.write} returned after {count(number - 1, 'change')}, and others were left"
        )
    return number


def _with_zone(values: dict[str, Any] | None, times: Collection[str]) -> dict[str, Any] | None:
    """The values of a row with times in UTC: PySpark gives them in the zone of the process, without naming it."""
    if values is None:
        return None
    return {
        name: value.astimezone(UTC) if name in times and value is not None else value for name, value in values.items()
    }


def _function(flow: str, sink: FunctionSink) -> WriteChanges:
    module, _, function = sink.write.partition(":")
    try:
        return cast(WriteChanges, getattr(importlib.import_module(f"spark_jobs.{module}"), function))
    except Exception as error:
        raise SpecError(
            f"flow {flow!r}: {sink.write!r} of its sink {sink.name} cannot be imported ({error}); correct spark_jobs/{module}.py"
        ) from error
