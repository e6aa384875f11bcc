"""Reads the state store of a stateful flow with Spark's state source. Writes only a file beside the report, takes no lease.

The state is read from the files of the checkpoint, as of its last committed batch. A run that works meanwhile changes none of
the files that this batch needs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from tidegate import json_codec
from tidegate.advice import Command, Edit
from tidegate.checkpoints import progress
from tidegate.errors import RequestError, TidegateError
from tidegate.reports.stored_state import StateTable, StoredState
from tidegate.spark.driver.failures import translate
from tidegate.spark.runs import RunCode

if TYPE_CHECKING:
    from tidegate.spark.job import Job

_KINDS = {"ValueState": "value", "ListState": "list", "MapState": "map", "TimerState": "timer"}
"""Spark's types of state variables."""
_PARTITION = "partition_id"
_STRUCTS = ("key", "value", "list_element", "user_map_key", "user_map_value")
"""Columns of Spark's state source whose fields are shown."""
_TIMES = {
    "expiration_timestamp_ms": ("expires_at", 1_000),
    "ttlExpirationMs": ("kept_until", 1_000),
    "expiresAtMicros": ("kept_until", 1),
}
"""Times of Spark, with the names under which they are shown and their unit in microseconds."""


def show(job: Job) -> None:
    """Write some rows of the state to a file beside the report.

    Raises:
        RequestError: No batch of the checkpoint is committed, or a key has no such field, or not such a value.
        TidegateError: The state cannot be read.
    """
    started = time.monotonic()
    job.run.report.dry_run = True
    try:
        state = _read(job)
        json_codec.write(job.run.place.stored_state(job.flow.name), state)
    except TidegateError:
        raise
    except Exception as error:
        raise translate(error, what=f"state of flow {job.flow.name!r}", checkpoint=str(job.place.checkpoint)) from error
    finally:
        job.run.report.seconds = round(time.monotonic() - started, 3)


def _read(job: Job) -> StoredState:
    batch_id = progress.read(job.place.checkpoint).last_committed
    if batch_id is None:
        raise RequestError(
            f"flow {job.flow.name!r} has no state yet, because no batch of it is complete.",
            Command.tidegate("run", job.place.pipeline, "--flow", job.flow.name, says="run it first: {}"),
        )
    # Makes Spark's coordinator of state stores, which no store can be read without; otherwise the first query of a session does.
    _ = job.spark.streams
    operator = _operator(job)
    properties = json.loads(operator["operatorProperties"] or "{}")
    tables = [_table(job, rows, *part) for *part, rows in _parts(job, batch_id, properties.get("stateVariables") or [])]
    return StoredState(
        operator=operator["operatorName"],
        batch_id=batch_id,
        partitions=operator["numPartitions"],
        tables=tuple(tables),
    )


def _operator(job: Job) -> dict[str, Any]:
    """What the checkpoint says about its one stateful operator."""
    operators = job.spark.read.format("state-metadata").load(str(job.place.checkpoint)).collect()
    return dict(operators[0].asDict())


def _parts(job: Job, batch_id: int, variables: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, DataFrame]]:
    """Name, kind and rows of each part of the state."""

    def read(**options: str) -> DataFrame:
        reader = job.spark.read.format("statestore").option("batchId", batch_id)
        return reader.options(**options).load(str(job.place.checkpoint))

    if not variables:
        yield "", "", read()
    for each in variables:
        name, kind = each["stateName"], _KINDS.get(each["stateVariableType"], "value")
        if kind == "timer":
            yield "timers", kind, read(readRegisteredTimers="true")
        else:
            yield name, kind, read(stateVarName=name)


def _table(job: Job, rows: DataFrame, name: str, kind: str) -> StateTable:
    limit = job.run.request.limit or 0
    named = [
        (F.to_json(column) if isinstance(type_, _nested()) else column.cast("string"), each)
        for column, each, type_ in _columns(rows)
    ]
    # By position, because a field of the value may have the name of a field of the key.
    texts = rows.where(_wanted(job, rows)).select(*[column for column, _ in named]).limit(limit + 1).collect()
    return StateTable(
        name=name,
        kind=kind,
        columns=tuple(each for _, each in named),
        rows=tuple(tuple(row) for row in texts[:limit]),
        more=len(texts) > limit,
    )


def _columns(rows: DataFrame) -> Iterator[tuple[Column, str, DataType]]:
    """The fields of keys and values, each with its name and its type."""
    for field in rows.schema.fields:
        if field.name != _PARTITION:
            yield from _fields(F.col(f"`{field.name}`"), field.name, field.dataType)


def _fields(column: Column, name: str, type_: DataType) -> Iterator[tuple[Column, str, DataType]]:
    if isinstance(type_, StructType) and name in _STRUCTS:
        for field in type_.fields:
            yield from _fields(column.getField(field.name), field.name, field.dataType)
    elif name in _TIMES:
        shown, unit = _TIMES[name]
        yield F.timestamp_micros(column * unit), shown, TimestampType()
    else:
        yield column, name, type_


def _wanted(job: Job, rows: DataFrame) -> Column:
    """The condition on the key that the request names; raises `RequestError` for a field or a value that it cannot have."""
    key = rows.schema["key"].dataType
    assert isinstance(key, StructType)
    types = {field.name: field.dataType for field in key.fields if not isinstance(field.dataType, _nested())}
    condition = F.lit(True)
    for each in job.run.request.keys:
        name, _, text = each.partition("=")
        if name not in types:
            raise RequestError(
                f"key {name!r} is not allowed",
                Edit(f"the state of flow {job.flow.name!r} has {', '.join(types)}", "request"),
            )
        value = F.lit(text).try_cast(types[name])
        if job.spark.range(1).where(value.isNull()).count():
            raise RequestError(
                f"key {each!r} is not allowed",
                Edit(f"{text!r} is no {types[name].simpleString()}, the type of {name!r}", "request"),
            )
        condition &= F.col("key").getField(name) == value
    return condition


def _nested() -> tuple[type[DataType], ...]:
    return StructType, ArrayType, MapType


RUN = RunCode(run=show, dry_run=show)
