"""Computes the expected tables with DuckDB, from the landing zone and the topic alone.

Deliberately independent of the Spark code: another reader, another engine, and the rules written again in SQL. An answer is
a connection with these tables:

- ``ids(_row_id)``: all records of readable files, or all messages;
- ``bad_files(path)``: files that cannot be read completely;
- ``quarantined(_row_id)``: records that break a type, a NOT NULL or an expectation;
- ``filtered(_row_id)``: records that a named rule filters;
- ``silver``: the columns of the silver table that the transform produces, and ``_deleted``;
- ``gold``, for clickstream ``sessions``, and after `add_delays` the tables of the delays pipeline: the columns of these tables.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import re
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.advice import OutsideAct
from tidegate.environment.clusters import Cluster
from tidegate.errors import SourceUnavailableError
from tidegate.formatting import count
from tidegate.probes import kafka
from tidegate.store import Address

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FLIGHT_FIELDS = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("flight", "air_time", "distance", "hour", "minute", "time_hour", "published_on"),
    *("carrier", "tailnum", "origin", "dest"),
)
WEATHER_FIELDS = ("origin", "time_hour", "wind_speed", "visib", "published_on")
AIRLINE_FIELDS = ("carrier", "name", "published_on")
CLICK_FIELDS = ("event_id", "sequence", "kind", "occurred_at", "user_id", "page", "duration_ms", "agent")

_COORDINATES = ("_row_id", "_at1", "_at2", "_at3", "_malformed", "_rescued")
"""``_at1`` to ``_at3`` order the records of one key that have the same sequence."""
_MACROS = """
SET TimeZone = 'UTC';
CREATE MACRO whole(text) AS CASE WHEN regexp_full_match(text, '[+-]?[0-9]+') THEN TRY_CAST(text AS INT) END;
CREATE MACRO is_instant(text) AS regexp_full_match(
    text, '[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6}0*)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?'
);
CREATE MACRO instant(text) AS CASE WHEN is_instant(text) THEN TRY_CAST(text AS TIMESTAMPTZ) END;
CREATE MACRO wrong(text, value) AS text IS NOT NULL AND value IS NULL;
"""


@dataclass(frozen=True)
class Message:
    """One message of a topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    source: str = "clickstream"
    """The topic's name, a slash, and Kafka's id of the topic."""


def flights(landing: Path | Address) -> DuckDBPyConnection:
    """The expected result of the flights pipeline for the folder ``flights`` of a landing zone."""
    records, bad = _read_files(landing / "flights", FLIGHT_FIELDS)
    return _answer("flights", FLIGHT_FIELDS, records, bad)


def add_delays(answer: DuckDBPyConnection, landing: Path | Address) -> None:
    """Add the expected tables of the delays pipeline to an answer of `flights`: ``weather``, ``airlines``, ``delays``."""
    for folder, names in (("weather", WEATHER_FIELDS), ("airlines", AIRLINE_FIELDS)):
        records, _ = _read_files(landing / folder, names)
        _fill(answer, f"{folder}_records", (*_COORDINATES, *names), records)
    answer.execute(_sql("delays"))


def clickstream(messages: Iterable[Message]) -> DuckDBPyConnection:
    """The expected result of the clickstream pipeline for the messages of its topic."""
    records: list[tuple[str | None, ...]] = []
    for message in messages:
        texts = _json_texts(message.value)
        fields = texts or {}
        records.append(
            (
                f"{message.source}/{message.partition}/{message.offset}",
                *(str(message.timestamp_ms), str(message.partition), str(message.offset)),
                "true" if texts is None else "false",
                _rescued(fields, CLICK_FIELDS),
                *(fields.get(name) for name in CLICK_FIELDS),
            )
        )
    return _answer("clickstream", CLICK_FIELDS, records, [])


def read_topic(cluster: Cluster, topic: str = "clickstream", *, patience: float = 30.0) -> list[Message]:
    """Read all messages of a topic, with a consumer that commits nothing.

    Args:
        patience: Seconds to wait for the broker.

    Raises:
        SourceUnavailableError: The broker did not deliver all messages in time.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    # The client requires a group id, but joins no group and commits nothing.
    group = {"group.id": "tidegate-recompute", "enable.auto.commit": False}
    consumer = Consumer({**cluster.librdkafka(), "log_level": 3, **group})
    try:
        partitions = consumer.list_topics(topic, timeout=patience).topics[topic].partitions
        ranges = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=patience) for p in partitions}
        consumer.assign([TopicPartition(topic, p, low) for p, (low, _) in ranges.items()])
        wanted = sum(high - low for low, high in ranges.values())
        source = f"{topic}/{kafka.topic_id(cluster, topic, patience)}"
        messages: list[Message] = []
        until = time.monotonic() + patience
        while len(messages) < wanted and time.monotonic() < until:
            for message in consumer.consume(10_000, timeout=0.5):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                partition, offset = int(message.partition() or 0), int(message.offset() or 0)
                if offset < ranges[partition][1]:
                    content = (message.timestamp()[1], message.key(), message.value())
                    messages.append(Message(partition, offset, *content, source))
    except KafkaException as error:
        raise SourceUnavailableError(
            f"The broker at {cluster.servers} did not deliver the topic {topic!r}: {error}",
            OutsideAct("see whether the broker runs, and run again"),
        ) from error
    finally:
        consumer.close()
    if len(messages) < wanted:
        raise SourceUnavailableError(
            f"The broker at {cluster.servers} delivered {len(messages)} of {count(wanted, 'message')} in {patience:g} s.",
            OutsideAct("see whether the broker runs, and run again"),
        )
    return messages


def differences(answer: DuckDBPyConnection, table: str, columns: Sequence[str], rows: Any, where: str = "true") -> int:
    """The number of rows that are in only one of two tables; repeated rows count each time.

    Args:
        answer: From `flights` or `clickstream`.
        table: One of its tables.
        rows: The lake's rows as an Arrow table.
        where: A condition for both tables.
    """
    answer.register("_lake", rows)
    listed = ", ".join(f'"{name}"' for name in columns)
    expected, actual = (f"SELECT {listed} FROM {name} WHERE {where}" for name in (table, "_lake"))
    query = f"SELECT count(*) FROM (({expected} EXCEPT ALL {actual}) UNION ALL ({actual} EXCEPT ALL {expected}))"
    ((number,),) = answer.execute(query).fetchall()
    answer.unregister("_lake")
    return int(number)


def _answer(
    pipeline: str, fields: Sequence[str], records: Sequence[Sequence[str | None]], bad: Sequence[str]
) -> DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect()
    connection.execute(_MACROS)
    _fill(connection, "records", (*_COORDINATES, *fields), records)
    _fill(connection, "bad_files", ("path",), [(path,) for path in bad])
    connection.execute(_sql(pipeline))
    return connection


def _sql(pipeline: str) -> str:
    return Path(__file__).with_name(f"{pipeline}.sql").read_text()


def _fill(
    connection: DuckDBPyConnection, table: str, names: Sequence[str], rows: Sequence[Sequence[str | None]]
) -> None:
    import pyarrow

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    arrow = pyarrow.table({n: pyarrow.array(c, pyarrow.string()) for n, c in zip(names, columns, strict=True)})
    connection.register("_rows", arrow)
    connection.execute(f"CREATE TABLE {table} AS SELECT * FROM _rows")
    connection.unregister("_rows")


def _read_files(folder: Path | Address, names: Sequence[str]) -> tuple[list[tuple[str | None, ...]], list[str]]:
    """Records as texts with their coordinates, and the files that cannot be read completely."""
    records: list[tuple[str | None, ...]] = []
    bad: list[str] = []
    address = folder if isinstance(folder, Address) else Address.local(folder)
    for entry in address.list():
        if entry.name.startswith(("_", ".")) or not entry.name.endswith((".csv", ".csv.gz", ".csv.bz2")):
            continue
        file = address.at(entry)
        try:
            lines = _lines(file)
        except (EOFError, OSError, zlib.error, UnicodeDecodeError, ValueError):
            bad.append(str(file))
            continue
        records += _records(str(file), entry.modified_ns // 1_000_000, lines, names)
    return records, bad


def _lines(file: Address) -> list[str]:
    content = file.read().data
    if file.name.endswith(".gz"):
        content = gzip.decompress(content)
    elif file.name.endswith(".bz2"):
        content = bz2.decompress(content)
    if not content:
        raise ValueError("empty")
    lines = re.split(r"\r\n|\n|\r", content.decode().removeprefix("\ufeff"))
    return lines if lines[-1] else lines[:-1]


def _records(path: str, modified_ms: int, lines: list[str], names: Sequence[str]) -> Iterable[tuple[str | None, ...]]:
    header = [name.strip() for name in next(csv.reader(lines[:1]))]
    for number, line in enumerate(lines[1:], start=2):
        cells = next(csv.reader([line]), [])
        fields = {n: c for n, c in zip(header, cells, strict=False) if c not in ("", "NA")}
        yield (
            f"{path}@{modified_ms}#{number}",
            str(modified_ms),
            path,
            str(number),
            "true" if len(cells) != len(header) else "false",
            _rescued(fields, names),
            *(fields.get(name) for name in names),
        )


def _rescued(fields: Mapping[str, str | None], names: Sequence[str]) -> str | None:
    """The undeclared fields as JSON, formatted like Spark's ``to_json`` of a map."""
    unknown = {name: text for name, text in fields.items() if name not in names and text is not None}
    return json.dumps(unknown, separators=(",", ":"), ensure_ascii=False) if unknown else None


def _json_texts(value: bytes | None) -> dict[str, str | None] | None:
    try:
        event = json.loads(value or b"")
    except ValueError:
        return None
    if not isinstance(event, dict):
        return None
    return {
        name: value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for name, value in event.items()
    }
