"""Sends changes with a function of the project, called in the driver once for a batch."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, TimestampNTZType, TimestampType

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.changes import Change, WriteChanges
from tidegate.errors import SinkError, SinkUnavailableError
from tidegate.formatting import count
from tidegate.spark.functions import import_function
from tidegate.spec import FunctionSink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.spark.job import Job


def send(job: Job, changes: DataFrame) -> int:
    """Send changes, as from `tidegate.kinds.sinks.sends`.

    Returns:
        How many changes the function took.

    Raises:
        SpecError: The function does not exist.
        SinkError: It returned before it took all changes.
        SinkUnavailableError: It raised an exception, of which only the class is named: its text may quote data. Transient.
    """
    sink, name = job.flow.target, job.flow.name
    assert isinstance(sink, FunctionSink)
    write = cast(WriteChanges, import_function(sink.write, f"flow {name!r}: function of its sink {sink.name}"))
    number, failed = 0, list[Exception]()
    types = {column: changes.schema[column].dataType for column in ("key", "row")}
    # PySpark makes local times of instants: of two an hour apart, the same one where a clock is set back, and an error in the year 1.
    read = changes.withColumns({column: F.col(column).cast(_without_zone(kind)) for column, kind in types.items()})

    def take() -> Iterator[Change]:
        nonlocal number
        try:
            for each in read.toLocalIterator():
                number += 1
                values = each.asDict(recursive=True)
                yield Change(**values | {column: _with_zone(values[column], types[column]) for column in types})
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
        raise SinkUnavailableError(
            name,
            sink.name,
            f"{sink.write} raised {type(error).__name__}",
            Either(OutsideAct("see whether what it writes to answers"), Edit(f"correct {sink.write}", "transform")),
        ) from error
    if failed:
        # The function has caught the error, and does not know the changes that follow.
        raise failed[0]
    if next(left, None) is not None:
        raise SinkError(
            name,
            sink.name,
            f"{sink.write} returned after {count(number - 1, 'change')}, and others were left",
            Edit("let it take all changes", "transform"),
        )
    return number


def _without_zone(kind: DataType) -> DataType:
    """The type whose values are the times of a type in UTC, the zone of the session."""
    match kind:
        case TimestampType():
            return TimestampNTZType()
        case StructType():
            return StructType([StructField(each.name, _without_zone(each.dataType), each.nullable) for each in kind])
        case ArrayType():
            return ArrayType(_without_zone(kind.elementType), kind.containsNull)
        case MapType():
            return MapType(_without_zone(kind.keyType), _without_zone(kind.valueType), kind.valueContainsNull)
    return kind


def _with_zone(value: Any, kind: DataType) -> Any:
    """A value of `_without_zone` with the zone of its instants."""
    match kind:
        case TimestampType() if value is not None:
            return value.replace(tzinfo=UTC)
        case StructType() if value is not None:
            return {field.name: _with_zone(value[field.name], field.dataType) for field in kind.fields}
        case ArrayType() if value is not None:
            return [_with_zone(each, kind.elementType) for each in value]
        case MapType() if value is not None:
            return {_with_zone(name, kind.keyType): _with_zone(each, kind.valueType) for name, each in value.items()}
    return value
