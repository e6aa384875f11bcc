"""The sources of a history: generated files of one format, or a topic of a real broker, with what the judge has to know of them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import fastavro
import pyarrow
import pyarrow.parquet

from tests.hunt.rules import FIELDS, Record
from tests.topics import delete_before
from tests.waiting import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from devstack.broker import Broker

Fields = dict[str, str | None]
FORMATS = ("csv", "json", "parquet", "avro")
LANDED = 1_767_225_600
"""The first modification time of a file, and timestamp of a message, in seconds since 1970."""
AVRO = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": name, "type": ["null", "string"]} for name in FIELDS],
    }
)


def generated_fields(rng: random.Random) -> Fields:
    """One record. Few keys and sequences, so that records meet; one in five has something wrong."""
    fields: Fields = {
        "id": str(rng.randrange(25)),
        "at": str(rng.randrange(12)),
        "day": f"2026-03-{rng.randrange(20, 32)}",
        "amount": str(rng.randrange(130)),
        "op": rng.choices(["", "delete"], [9, 1])[0] or None,
    }
    error = rng.randrange(60)
    if error < 8:
        name = ("id", "at", "amount", "day", "amount", "at", "id", "day")[error]
        fields[name] = None if error % 2 else "many"
    elif error == 8:
        fields["id"] = "-4"
    elif error == 9:
        fields["amount"] = "-1"
    return fields


HEADERS: list[list[tuple[str, str | bytes | None]]] = [[], [("trace", b"\x00\x01")], [("trace", None), ("trace", b"2")]]
"""Of messages, one of them chosen at random."""
ODD_TIMES = (2**63 - 1, LANDED * 10**9, LANDED * 10**6, 253_402_300_800_000, -12_219_292_800_001, -62_135_596_800_000)
"""Timestamps of messages that no table holds: nanoseconds, microseconds, the year 10000, before 1582-10-15."""


def _by_numbers(path: Path) -> list[str | int]:
    """The order of paths: by the numbers in them, as docs/architecture/kinds.md says."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))]


class Source(Protocol):
    """A source of a history. What it returns is what an increment of the landing flow reads next."""

    @property
    def declaration(self) -> str:
        """The source in the declaration of the pipeline."""

    def add(self, rng: random.Random) -> str:
        """Add something new, and describe it."""

    def read(self) -> tuple[Sequence[Record], Mapping[str, str], int]:
        """Records, bad files or messages with their rules, and the number of files, since the last call."""


@dataclass
class Files:
    """Files of one format in a landing folder."""

    folder: Path
    format: str
    at_once: int = 100
    spread: int = 40
    """Files have modification times within so many seconds; 1 gives all of them the same."""
    landed: int = 0
    _records: list[Record] = field(default_factory=list)
    _bad: dict[str, str] = field(default_factory=dict)
    _files: int = 0
    _earlier: list[list[Fields]] = field(default_factory=list)
    _bad_paths: dict[str, Path] = field(default_factory=dict)
    _unread: list[Path] = field(default_factory=list)
    _read: list[Path] = field(default_factory=list)

    @property
    def declaration(self) -> str:
        return f'FileSource(path="hunt", format="{self.format}", schema=SCHEMA, max_files_per_trigger={self.at_once})'

    def add(self, rng: random.Random) -> str:
        """Land a file: good or bad, new or the same records once more. Times of files repeat, and go back."""
        self.landed += 1
        self._files += 1
        zipped = self.format in ("csv", "json") and rng.random() < 0.3
        path = self.folder / f"{rng.choice('zam')} {self.landed}.{self.format}{'.gz' if zipped else ''}"
        seconds = LANDED + rng.randrange(self.spread)
        if rng.random() < 0.12:
            rule, content = bad_content(rng, self.format, zipped=zipped)
            self._land_bad(path, rule, content, seconds)
            return f"landed {path.name} ({rule})"
        if self._earlier and rng.random() < 0.15:
            chosen = rng.choice(self._earlier)
        else:
            chosen = [generated_fields(rng) for _ in range(rng.randrange(1, 25))]
            self._earlier.append(chosen)
        self._records += self._land(rng, path, chosen, seconds)
        return f"landed {path.name} ({len(chosen)} records)"

    def add_bad(self, name: str, rule: str, content: bytes) -> None:
        """Land a file that breaks a rule as a whole."""
        self._files += 1
        self._land_bad(self.folder / name, rule, content, LANDED)

    def _land_bad(self, path: Path, rule: str, content: bytes, seconds: int) -> None:
        row_of_file = f"{path}@{seconds * 1000}"
        self._bad[row_of_file], self._bad_paths[row_of_file] = rule, path
        self._write(path, content, seconds)

    def correct(self, rng: random.Random, bad_file: str) -> list[Record]:
        """Correct a bad file in place, and return the records that it has now."""
        chosen = [generated_fields(rng) for _ in range(rng.randrange(1, 9))]
        return self._land(rng, self._bad_paths[bad_file], chosen, LANDED + 100 + rng.randrange(40))

    def _land(self, rng: random.Random, path: Path, chosen: Sequence[Fields], seconds: int) -> list[Record]:
        content, broken = content_of(rng, self.format, chosen)
        self._write(path, gzip.compress(content) if path.suffix == ".gz" else content, seconds)
        first = 2 if self.format == "csv" else 1
        return [
            Record(
                f"{path}@{seconds * 1000}#{number}",
                (seconds * 1000, _by_numbers(path), number),
                fields,
                broken.get(number - first, ""),
            )
            for number, fields in enumerate(chosen, start=first)
        ]

    def read(self) -> tuple[Sequence[Record], Mapping[str, str], int]:
        """See `Source`."""
        new = self._records, self._bad, self._files
        self._records, self._bad, self._files = [], {}, 0
        self._read, self._unread = [*self._read, *self._unread], []
        return new

    def touch(self, rng: random.Random) -> str:
        """Give some of the files that were read other times, as a copy does, in any order: nothing of them is new."""
        chosen = [path for path in self._read if rng.random() < 0.4]
        for path in chosen:
            seconds = LANDED + 200 + rng.randrange(10_000)
            os.utime(path, (seconds, seconds))
        return f"touched {len(chosen)} files"

    def _write(self, path: Path, content: bytes, seconds: int) -> None:
        if path not in (*self._read, *self._unread):
            self._unread.append(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.parent / ".draft"
        draft.write_bytes(content)
        os.utime(draft, (seconds, seconds))
        draft.rename(path)


def content_of(rng: random.Random, format: str, records: Sequence[Fields]) -> tuple[bytes, dict[int, str]]:
    """A file with the records, and the rules that some of its records break as a whole, by number from 0."""
    broken: dict[int, str] = {}
    out = io.BytesIO()
    if format == "parquet":
        schema = pyarrow.schema([(name, pyarrow.string()) for name in FIELDS])
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records, schema=schema), out)
    elif format == "avro":
        fastavro.writer(out, cast("dict[str, Any]", AVRO), records)
    else:
        for number in range(len(records)):
            if rng.random() < 0.03:
                broken[number] = "malformed_line" if format == "csv" else "malformed_json"
        text = csv_text(rng, records, broken) if format == "csv" else json_text(rng, records, broken)
        out.write(text.encode())
    return out.getvalue(), broken


def csv_text(rng: random.Random, records: Sequence[Fields], broken: Mapping[int, str]) -> str:
    """With columns in any order, in which a broken line has a cell too many."""
    out = io.StringIO()
    names = rng.sample(FIELDS, len(FIELDS))
    writer = csv.writer(
        out, lineterminator=rng.choice(["\n", "\r\n"]), quoting=rng.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
    )
    writer.writerow(names)
    for number, fields in enumerate(records):
        writer.writerow([fields[name] or "" for name in names] + ["more"] * (number in broken))
    return out.getvalue()


def json_text(rng: random.Random, records: Sequence[Fields], broken: Mapping[int, str]) -> str:
    """With numbers as numbers or as text, in which a broken line has no end."""
    lines = []
    for number, fields in enumerate(records):
        values = {
            name: json_value(rng, value) for name, value in fields.items() if value is not None or rng.random() < 0.5
        }
        lines.append('{"id": 1, "at' if number in broken else json.dumps(values))
    return "\n".join(lines)


def json_value(rng: random.Random, text: str | None) -> Any:
    is_number = text is not None and text.lstrip("-").isdigit()
    return int(text or 0) if is_number and rng.random() < 0.5 else text


def bad_content(rng: random.Random, format: str, *, zipped: bool) -> tuple[str, bytes]:
    """The rule that a file breaks as a whole, and its content."""
    records = [generated_fields(rng) for _ in range(5)]
    content, _ = content_of(random.Random(0), format, records)
    if rng.random() < 0.2:
        return "empty_file", b""
    if format in ("parquet", "avro"):
        return "corrupt_file", content[: len(content) // 2]
    if zipped:
        packed = gzip.compress(content)
        return "corrupt_compression", packed[: len(packed) // 2]
    if format == "csv" and rng.random() < 0.5:
        return "open_quote", content + b'1,"2'
    return "not_utf8", content + b"\xff\xfe\n"


@dataclass
class Topic:
    """A topic of a real broker. The judge is told what a consumer of committed messages reads before each increment."""

    broker: Broker
    name: str
    at_once: int = 1000
    partitions: int = 2
    _known: set[str] = field(default_factory=set)
    _read_to: dict[int, int] = field(default_factory=dict)
    """By partition: the first offset that no increment has read."""
    _sent: int = 0

    @property
    def declaration(self) -> str:
        limit = f"max_offsets_per_trigger={self.at_once}"
        return f'KafkaSource(topic="{self.name}", schema=SCHEMA, format="json", {limit})'

    def create(self) -> None:
        """Create the topic. Its messages are older than Kafka's retention, and some have a time of any year."""
        any_time = {f"message.timestamp.{side}.max.ms": str(2**63 - 1) for side in ("before", "after")}
        self.broker.create_topic(self.name, self.partitions, {"retention.ms": "-1", "segment.ms": "1000", **any_time})

    def compact(self) -> None:
        """Let the broker compact it: of each key the newest message stays, and all of the newest segment."""
        from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

        changes = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        entries = [ConfigEntry(*item, incremental_operation=AlterConfigOpType.SET) for item in changes.items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_SECONDS)

    def send_one_by_one(self, rng: random.Random, number: int) -> None:
        """Send messages of three keys to partition 0, each in a segment of its own: two seconds after the one before, or of the year 1."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        for each in range(number):
            value = json_text(rng, [generated_fields(rng)], {}).encode()
            timestamp = ODD_TIMES[-1] if rng.random() < 0.15 else (LANDED + 2 * (self._sent + each)) * 1000
            producer.produce(self.name, key=rng.choice("abc").encode(), value=value, partition=0, timestamp=timestamp)
            # A batch is never divided into segments.
            assert producer.flush(TIMEOUT_SECONDS) == 0
        self._sent += number

    def add(self, rng: random.Random) -> str:
        """Send messages, whose transaction may be aborted; sometimes add a partition, or delete what was read, as retention does."""
        from confluent_kafka import Producer

        if rng.random() < 0.15:
            return self._add_partition()
        if self._read_to and rng.random() < 0.15:
            partition, offset = rng.choice(sorted(self._read_to.items()))
            delete_before(self.broker, self.name, offset, partition)
            return f"deleted messages of partition {partition} below {offset}"
        settings: dict[str, Any] = {"bootstrap.servers": self.broker.bootstrap, "log_level": 0}
        outcome = rng.choice(["none", "none", "commit", "abort"])
        if outcome != "none":
            settings["transactional.id"] = f"{self.name}-{self._sent}"
        self._sent += 1
        producer = Producer(settings)
        if outcome != "none":
            producer.init_transactions(60)
            producer.begin_transaction()
        number = rng.randrange(1, 25)
        for _ in range(number):
            fields = generated_fields(rng)
            value: bytes | None = json_text(rng, [fields], {0: ""} if rng.random() < 0.03 else {}).encode()
            producer.produce(
                self.name,
                key=rng.choice([None, b"k", b"\xff"]),
                value=None if rng.random() < 0.04 else value,
                headers=rng.choice(HEADERS),
                partition=rng.randrange(self.partitions),
                timestamp=rng.choice(ODD_TIMES) if rng.random() < 0.04 else (LANDED + rng.randrange(40)) * 1000,
            )
        if outcome == "commit":
            producer.commit_transaction(60)
        elif outcome == "abort":
            producer.flush(TIMEOUT_SECONDS)
            producer.abort_transaction(60)
        assert producer.flush(TIMEOUT_SECONDS) == 0
        return f"sent {number} messages (transaction: {outcome})"

    def read(self) -> tuple[Sequence[Record], Mapping[str, str], int]:
        """See `Source`; the bad ones are messages."""
        new = [record for record in self.committed() if record.row_id not in self._known]
        self._known |= {record.row_id for record in new}
        for record in new:
            partition, offset = record.at[1:]
            self._read_to[partition] = max(self._read_to.get(partition, 0), offset + 1)
        odd = {record.row_id: "timestamp_out_of_range" for record in new if record.at[0] in ODD_TIMES}
        return [record for record in new if record.row_id not in odd], odd, 0

    def _add_partition(self) -> str:
        from confluent_kafka.admin import AdminClient, NewPartitions

        self.partitions += 1
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        admin.create_partitions([NewPartitions(self.name, self.partitions)])[self.name].result(TIMEOUT_SECONDS)
        return f"added partition {self.partitions - 1}"

    def committed(self) -> list[Record]:
        """What a consumer of committed messages reads now."""
        from confluent_kafka import Consumer, TopicCollection, TopicPartition
        from confluent_kafka.admin import AdminClient

        servers: dict[str, Any] = {"bootstrap.servers": self.broker.bootstrap, "log_level": 0}
        admin = AdminClient(servers)
        described = admin.describe_topics(TopicCollection([self.name]))[self.name].result(TIMEOUT_SECONDS)
        # The client writes the id in base64, Kafka in base64 for addresses.
        source = f"{self.name}/{str(described.topic_id).translate(str.maketrans('+/', '-_'))}"
        group = {
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            # The first messages of a partition may be deleted: by default the consumer would then go to the end.
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer({**servers, **group})
        records = []
        try:
            consumer.assign([TopicPartition(self.name, number, 0) for number in range(self.partitions)])
            ended: set[int] = set()
            while len(ended) < self.partitions:
                message = consumer.poll(TIMEOUT_SECONDS)
                assert message is not None, "the broker is silent"
                partition = int(message.partition() or 0)
                if message.error() is not None:
                    ended.add(partition)
                    continue
                records.append(record_of(source, partition, message))
        finally:
            consumer.close()
        return records


def record_of(source: str, partition: int, message: Any) -> Record:
    """A message as a row of bronze; its value is one JSON object, or broken, or it has none."""
    offset = int(message.offset())
    row_id, at = f"{source}/{partition}/{offset}", (message.timestamp()[1], partition, offset)
    if message.value() is None:
        return Record(row_id, at)
    try:
        values = json.loads(message.value())
    except ValueError:
        return Record(row_id, at, broken="malformed_json")
    return Record(row_id, at, {name: None if values.get(name) is None else str(values[name]) for name in FIELDS})
