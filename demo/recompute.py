"""What the tables must hold, worked out anew by DuckDB from the landing zone and the topic alone.

Independent of the Spark code on purpose: another reader, another engine, the rules written once more in SQL. An answer
is a connection with these tables:

- ``ids(_row_id)``: every record that was landed in a readable file, or every message;
- ``bad_files(path)``: files that cannot be read whole;
- ``quarantined(_row_id)``: records that break a type, a NOT NULL or an expectation;
- ``filtered(_row_id)``: records that a named rule sets aside;
- ``silver``: the columns of the silver table that a transform makes, and ``_deleted``;
- ``gold``: the columns of the gold table.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import re
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import SourceUnavailableError

if TYPE_CHECKING:
    import duckdb

FLIGHT_NUMBERS = (
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "flight",
    "air_time",
    "distance",
    "hour",
    "minute",
)
FLIGHT_INSTANTS = ("time_hour", "published_on")
FLIGHT_TEXTS = ("carrier", "tailnum", "origin", "dest")
FLIGHT_REQUIRED = (
    "year",
    "month",
    "day",
    "sched_dep_time",
    "sched_arr_time",
    "carrier",
    "flight",
    "origin",
    "dest",
    "distance",
    "time_hour",
    "published_on",
)
CLICK_TEXTS = ("event_id", "kind", "user_id", "page", "agent")


@dataclass(frozen=True)
class Message:
    """One message as it stands in a topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def flights(landing: Path) -> duckdb.DuckDBPyConnection:
    """What the flights pipeline must make of the landing zone.

    Args:
        landing: The root of the landing zones; files are read from its folder ``flights``.
    """
    names = (*FLIGHT_NUMBERS, *FLIGHT_INSTANTS, *FLIGHT_TEXTS)
    records, bad = _read_files(landing / "flights", names)
    connection = _connect()
    _fill(connection, "records", ("_row_id", "_at1", "_at2", "_at3", "_malformed", "_rescued", *names), records)
    _fill(connection, "bad_files", ("path",), [(path,) for path in bad])
    connection.execute(_FLIGHTS)
    return connection


def clickstream(messages: Iterable[Message], topic: str = "clickstream") -> duckdb.DuckDBPyConnection:
    """What the clickstream pipeline must make of the messages of its topic."""
    names = (*CLICK_TEXTS, "sequence", "occurred_at", "duration_ms")
    records = []
    for message in messages:
        texts = _json_texts(message.value)
        known = texts or {}
        rescued = {name: text for name, text in known.items() if name not in names and text is not None}
        at = (str(message.timestamp_ms), str(message.partition), str(message.offset))
        row_id = f"{topic}/{message.partition}/{message.offset}"
        told = json.dumps(rescued, separators=(",", ":")) if rescued else None
        records.append((row_id, *at, str(texts is None), told, *(known.get(name) for name in names)))
    connection = _connect()
    _fill(connection, "records", ("_row_id", "_at1", "_at2", "_at3", "_malformed", "_rescued", *names), records)
    _fill(connection, "bad_files", ("path",), [])
    connection.execute(_CLICKSTREAM)
    return connection


def read_topic(bootstrap: str, topic: str = "clickstream", *, patience: float = 30.0) -> list[Message]:
    """Every message that the topic holds now, by a consumer that commits nothing.

    Args:
        bootstrap: The broker.
        topic: Its name.
        patience: Seconds to wait for the broker.

    Raises:
        SourceUnavailableError: The broker did not hand out all messages in time.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "tidegate-recompute", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, timeout=patience).topics[topic].partitions
        ranges = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=patience) for p in partitions}
        consumer.assign([TopicPartition(topic, p, low) for p, (low, _) in ranges.items()])
        wanted = sum(high - low for low, high in ranges.values())
        found: list[Message] = []
        until = time.monotonic() + patience
        while len(found) < wanted and time.monotonic() < until:
            for message in consumer.consume(10_000, timeout=0.5):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                partition, offset = int(message.partition() or 0), int(message.offset() or 0)
                if offset < ranges[partition][1]:
                    found.append(Message(partition, offset, message.timestamp()[1], message.key(), message.value()))
    except KafkaException as error:
        raise SourceUnavailableError(
            f"The broker at {bootstrap} did not hand out the topic {topic!r}: {error}"
        ) from error
    finally:
        consumer.close()
    if len(found) < wanted:
        raise SourceUnavailableError(f"The broker at {bootstrap} handed out {len(found)} of {wanted} messages in time.")
    return found


def differences(
    answer: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], rows: Any, where: str = "true"
) -> int:
    """How many rows stand in only one of the two, counting repeated rows as often as they stand there.

    Args:
        answer: From `flights` or `clickstream`.
        table: One of its tables.
        columns: What to compare.
        rows: The lake's own rows as an Arrow table.
        where: A condition on both sides.
    """
    answer.register("_given", rows)
    listed = ", ".join(f'"{name}"' for name in columns)
    expected, given = (f"SELECT {listed} FROM {name} WHERE {where}" for name in (table, "_given"))
    query = f"SELECT count(*) FROM (({expected} EXCEPT ALL {given}) UNION ALL ({given} EXCEPT ALL {expected}))"
    (found,) = answer.execute(query).fetchone() or (0,)
    answer.unregister("_given")
    return int(found)


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _fill(
    connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str], rows: Sequence[Sequence[str | None]]
) -> None:
    import pyarrow

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    arrow = pyarrow.table({n: pyarrow.array(c, pyarrow.string()) for n, c in zip(names, columns, strict=True)})
    connection.register("_rows", arrow)
    connection.execute(f"CREATE TABLE {table} AS SELECT * FROM _rows")
    connection.unregister("_rows")


def _read_files(folder: Path, names: Sequence[str]) -> tuple[list[tuple[str | None, ...]], list[str]]:
    """Records as texts with their coordinates, and the files that cannot be read whole."""
    records: list[tuple[str | None, ...]] = []
    bad: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(("_", ".")) or not path.name.endswith((".csv", ".csv.gz", ".csv.bz2")):
            continue
        try:
            lines = _lines(path)
        except (EOFError, OSError, zlib.error, UnicodeDecodeError, ValueError):
            bad.append(str(path))
            continue
        records += _records(path, lines, names)
    return records, bad


def _lines(path: Path) -> list[str]:
    content = path.read_bytes()
    if path.name.endswith(".gz"):
        content = gzip.decompress(content)
    elif path.name.endswith(".bz2"):
        content = bz2.decompress(content)
    if not content:
        raise ValueError("empty")
    lines = re.split(r"\r\n|\n|\r", content.decode().removeprefix("\ufeff"))
    return lines if lines[-1] else lines[:-1]


def _records(path: Path, lines: list[str], names: Sequence[str]) -> Iterable[tuple[str | None, ...]]:
    header = [name.strip() for name in next(csv.reader(lines[:1]))]
    modified_ms = path.stat().st_mtime_ns // 1_000_000
    for number, line in enumerate(lines[1:], start=2):
        cells = next(csv.reader([line]), [])
        found = {n: c for n, c in zip(header, cells, strict=False) if c not in ("", "NA")}
        rescued = {name: text for name, text in found.items() if name not in names}
        yield (
            f"{path}@{modified_ms}#{number}",
            str(modified_ms),
            str(path),
            str(number),
            str(len(cells) != len(header)),
            json.dumps(rescued, separators=(",", ":")) if rescued else None,
            *(found.get(name) for name in names),
        )


def _json_texts(value: bytes | None) -> dict[str, str | None] | None:
    try:
        event = json.loads(value or b"")
    except ValueError:
        return None
    if not isinstance(event, dict):
        return None
    return {
        name: found if found is None or isinstance(found, str) else json.dumps(found, separators=(",", ":"))
        for name, found in event.items()
    }


def _number(name: str, kind: str = "INTEGER") -> str:
    return f"CASE WHEN regexp_full_match(trim({name}), '[+-]?[0-9]+') THEN TRY_CAST(trim({name}) AS {kind}) END"


def _instant(name: str) -> str:
    return f"TRY_CAST(trim({name}) AS TIMESTAMPTZ)"


_FLIGHT_TYPED = ", ".join(
    [f"{_number(name)} AS {name}" for name in FLIGHT_NUMBERS]
    + [f"{_instant(name)} AS {name}" for name in FLIGHT_INSTANTS]
    + list(FLIGHT_TEXTS)
)
_FLIGHT_WRONG = " OR ".join(
    [f"(r.{name} IS NOT NULL AND t.{name} IS NULL)" for name in (*FLIGHT_NUMBERS, *FLIGHT_INSTANTS)]
    + [f"r.{name} IS NULL" for name in FLIGHT_REQUIRED]
)

_FLIGHTS = f"""
CREATE TABLE ids AS SELECT _row_id FROM records;
CREATE TABLE typed AS
SELECT _row_id, _rescued, _at1::BIGINT AS _at1, _at2, _at3::BIGINT AS _at3, {_FLIGHT_TYPED} FROM records;
CREATE TABLE made AS
SELECT _row_id, _at1, _at2, _at3, dep_time,
       strftime(timezone('UTC', time_hour), '%Y%m%dT%HZ') || '-' || carrier || '-' || flight AS flight_id,
       TRY(make_date(year, month, day)) AS day,
       TRY(make_timestamp(year, month, day, sched_dep_time // 100, sched_dep_time % 100, 0.0)) AS local_time,
       timezone('America/New_York', local_time) AS scheduled_at,
       scheduled_at + to_minutes(dep_delay) AS departed_at,
       carrier, flight, tailnum, origin, dest, dep_time IS NULL AS cancelled, dep_delay, arr_delay, air_time, distance,
       published_on, _rescued AS rescued
FROM typed;
CREATE TABLE quarantined AS
SELECT _row_id FROM records r JOIN typed t USING (_row_id) JOIN made m USING (_row_id)
WHERE r._malformed = 'True' OR {_FLIGHT_WRONG} OR m.scheduled_at IS NULL OR m.origin NOT IN ('EWR', 'JFK', 'LGA')
   OR NOT (m.distance > 0 AND m.distance <= 6000) OR m.dep_delay NOT BETWEEN -120 AND 2000
   OR m.air_time NOT BETWEEN 1 AND 1200 OR length(m.carrier) <> 2;
CREATE TABLE filtered AS
SELECT _row_id FROM made
WHERE origin IN ('EWR', 'JFK', 'LGA') AND dest IN ('EWR', 'JFK', 'LGA') AND _row_id NOT IN (FROM quarantined);
CREATE TABLE silver AS
SELECT * EXCLUDE (_at1, _at2, _at3, dep_time, local_time), false AS _deleted FROM made
WHERE _row_id NOT IN (FROM quarantined) AND _row_id NOT IN (FROM filtered)
QUALIFY row_number() OVER (PARTITION BY flight_id ORDER BY published_on DESC, _at1 DESC, _at2 DESC, _at3 DESC) = 1;
CREATE TABLE gold AS
SELECT day, carrier, count(*) AS flights, count(*) FILTER (cancelled) AS cancelled,
       count(*) FILTER (dep_delay >= 15) AS late, avg(dep_delay) AS mean_delay,
       min(dep_delay) FILTER (10 * place >= 9 * of_how_many) AS p90_delay, max(dep_delay) AS max_delay
FROM (SELECT *, row_number() OVER (PARTITION BY day, carrier, dep_delay IS NULL ORDER BY dep_delay) AS place,
             count(dep_delay) OVER (PARTITION BY day, carrier) AS of_how_many FROM silver)
GROUP BY ALL;
"""

_CLICKSTREAM = f"""
CREATE TABLE ids AS SELECT _row_id FROM records;
CREATE TABLE made AS
SELECT _row_id, _at1::BIGINT AS _at1, _at2::BIGINT AS _at2, _at3::BIGINT AS _at3, agent, event_id,
       {_number("sequence", "BIGINT")} AS sequence, kind, {_instant("occurred_at")} AS occurred_at,
       date_trunc('hour', {_instant("occurred_at")}) AS hour, user_id, lower(split_part(page, '?', 1)) AS page,
       {_number("duration_ms")} / 1000 AS seconds, _rescued AS rescued, coalesce(kind = 'delete', false) AS _deleted
FROM records;
CREATE TABLE quarantined AS
SELECT _row_id FROM records r JOIN made m USING (_row_id)
WHERE r._malformed = 'True' OR r.event_id IS NULL OR m.sequence IS NULL OR r.kind IS NULL
   OR r.kind NOT IN ('view', 'delete')
   OR (r.occurred_at IS NOT NULL AND m.occurred_at IS NULL) OR (r.duration_ms IS NOT NULL AND m.seconds IS NULL)
   OR (r.kind = 'view' AND (m.page IS NULL OR m.occurred_at IS NULL OR m.user_id IS NULL))
   OR m.seconds NOT BETWEEN 0 AND 86400 OR NOT starts_with(m.page, '/');
CREATE TABLE filtered AS SELECT _row_id FROM made WHERE agent = 'uptime-probe' AND _row_id NOT IN (FROM quarantined);
CREATE TABLE silver AS
SELECT * EXCLUDE (_at1, _at2, _at3, agent) FROM made
WHERE _row_id NOT IN (FROM quarantined) AND _row_id NOT IN (FROM filtered)
QUALIFY row_number() OVER (PARTITION BY event_id ORDER BY sequence DESC, _at1 DESC, _at2 DESC, _at3 DESC) = 1;
CREATE TABLE gold AS
SELECT page, hour, count(*) AS views, count(DISTINCT user_id) AS users, max(seconds) AS longest_stay
FROM silver WHERE NOT _deleted GROUP BY ALL;
"""
