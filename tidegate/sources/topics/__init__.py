"""The declaration of topics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from tidegate.errors import FieldError
from tidegate.formatting import count
from tidegate.schema.contract import DEFAULT_CONTRACT, Contract
from tidegate.schema.ddl import parse_ddl
from tidegate.schema.names import FieldNames, Renames, field_names
from tidegate.spec.change_records import ChangeRecords, check_changes
from tidegate.spec.checks import check_choice, check_positive, check_schema, check_size, fits
from tidegate.spec.formats import DEFAULT_FORMATS, Formats, check_contract, check_formats, checked_fields
from tidegate.spec.intervals import TopicIntervals
from tidegate.spec.sinks import TOPIC, check_cluster

ValueFormat = Literal["json", "avro"]
Isolation = Literal["read_committed", "read_uncommitted"]
Missing = Literal["wait", "refuse"]
_PART = re.compile(r"key|key(\.[^\s.'?\[\]]+)+|header\.[^\n'\\]+|topic|partition|offset|timestamp")
EARLIEST, LATEST = "earliest", "latest"
_OFFSETS = re.compile(r"\d{1,9}:\d{1,18}( \d{1,9}:\d{1,18})*")


@dataclass(frozen=True, kw_only=True)
class KafkaSource:
    """A topic of JSON or Avro values, or several. Offsets live in the checkpoint alone; no consumer group is committed."""

    topic: str | tuple[str, ...]
    """Its name, or the names of several of the same cluster, whose values have the same schema. Names may be added at the end later.
    Another first name, or one less that was read, needs a new ``checkpoint_version``."""
    schema: str
    """The fields of one value as DDL, parsed by name in silver."""
    fields: Renames = ()
    """Fields whose name in the values is not that in the schema: ``{"Order ID": "order_id"}``, and of nested fields
    ``{("customer", "First Name"): "first_name"}``. A value may also have the name in the schema, but not both. The name in the
    values is kept as the column's comment."""
    cluster: str = "default"
    """The name of its cluster in the settings: ``kafka.<name>.servers``. A topic of another cluster is another topic."""
    format: ValueFormat = "json"
    """``json``, or ``avro``: each value contains the id of its writer's schema in the registry of the cluster: its own, else that of
    ``TIDEGATE_REGISTRY``. A JSON value may contain one too."""
    contract: Contract = DEFAULT_CONTRACT
    """What happens with messages that have other fields than the schema; by default the fields are rescued."""
    formats: Formats = DEFAULT_FORMATS
    """How values are written, where it differs from ``docs/formats.md``."""
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Columns of the schema that are not in the value, with the part of the message that they are in: ``key`` (as text), ``key.id`` (a
    member of a JSON key), ``header.trace`` (the last header of that name, as text), ``topic``, ``partition``, ``offset``,
    ``timestamp``. A value with the same field and another text breaks the rule ``repeated_field(column)``."""
    changes: ChangeRecords | None = None
    """If each record inserts, updates or deletes a row: how it says so. ``debezium(lsn="source.lsn")`` for Debezium's."""
    start: str = EARLIEST
    """Where the first run of a checkpoint version begins: ``earliest``, ``latest``, a time as in ``2026-11-01T00:00:00Z`` (the
    first message at or after it in each partition), or offsets as in ``0:15 1:3`` (partition and offset; other partitions begin
    with their first message). What was read before is not read twice. Later runs continue, so another start needs a new version."""
    missing: Missing = "wait"
    """What is done while a topic does not exist that was never read: ``wait`` for it and read the others, or ``refuse`` the run. One that
    appears is read from its first message. One that was read and disappears is an error."""
    max_offsets_per_trigger: int = 500_000
    """Maximum number of messages per micro-batch, over all partitions."""
    max_bytes_per_trigger: str = "256m"
    """Approximate bytes of keys, values and headers per micro-batch. A soft limit: Spark limits the number of messages only,
    so the limit is converted with the mean size of up to 200 messages that come next in the topic."""
    isolation: Isolation = "read_committed"
    """``read_committed`` skips messages of aborted transactions and waits for open ones, as Kafka's own
    ``isolation.level``. ``read_uncommitted`` reads all messages."""
    intervals: TopicIntervals | None = None
    """The days or hours of the messages, and when one is complete. Messages are read as they arrive nevertheless."""

    def __post_init__(self) -> None:
        names = self.topics if isinstance(self.topics, tuple) else ()
        valid = all(fits(TOPIC, each) and each not in (".", "..") for each in names)
        if not names or not valid or len(set(names)) < len(names):
            allowed = "letters, digits, '.', '_' and '-', at most 249; or a tuple of such names, each once"
            raise FieldError("KafkaSource", "topic", self.topic, allowed)
        check_cluster("KafkaSource", self.cluster)
        check_schema(self, self.schema)
        check_choice(self, "format", self.format, get_args(ValueFormat))
        check_choice(self, "isolation", self.isolation, get_args(Isolation))
        check_choice(self, "missing", self.missing, get_args(Missing))
        check_contract(self, self.contract, self.schema)
        check_formats(self, self.formats, self.schema, self.format)
        check_changes(type(self).__name__, self.changes, self.schema, self.format)
        fields = checked_fields(self, self.fields, self.schema, self.contract, self.changes)
        object.__setattr__(self, "fields", fields)
        self._check_start()
        self._check_metadata()
        check_positive(self, "max_offsets_per_trigger", self.max_offsets_per_trigger)
        if self.intervals is not None and not isinstance(self.intervals, TopicIntervals):
            raise FieldError("KafkaSource", "intervals", self.intervals, "TopicIntervals(…) or None")
        check_size(self, self.max_bytes_per_trigger)

    @property
    def names(self) -> FieldNames:
        """The names of fields in values that are not those in the schema."""
        return field_names(self.fields, parse_ddl("schema", self.schema))

    @property
    def deletes_unread(self) -> bool:
        """Whether it deletes data after a time, read or not, by a setting of its own."""
        return True

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of its topics."""
        return (self.topic,) if isinstance(self.topic, str) else self.topic

    def prefix(self, topic: str) -> str:
        """What is before a partition of a topic in texts: ``orders/`` if there are several topics."""
        return f"{topic}/" if len(self.topics) > 1 else ""

    def identity(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores."""
        cluster = {} if self.cluster == "default" else {"cluster": self.cluster}
        # The others are recorded beside the checkpoint once they exist, so that names may be added.
        return {"kind": "kafka", "topic": self.topics[0], **cluster}

    @property
    def start_offsets(self) -> dict[int, int]:
        """Partition to the offset that `start` names; empty if it names none."""
        if not fits(_OFFSETS, self.start):
            return {}
        pairs = (pair.split(":") for pair in self.start.split(" "))
        return {int(partition): int(offset) for partition, offset in pairs}

    @property
    def start_time(self) -> datetime | None:
        """The time that `start` names, with its zone; None if it names none."""
        if self.start in (EARLIEST, LATEST) or fits(_OFFSETS, self.start):
            return None
        return datetime.fromisoformat(self.start)

    def _check_start(self) -> None:
        try:
            moment = self.start_time
        except (TypeError, ValueError):
            valid = False
        else:
            valid = moment is None or moment.tzinfo is not None
        of_one = fits(_OFFSETS, self.start)
        repeated = of_one and len(self.start_offsets) < self.start.count(":")
        if not valid or repeated or (of_one and len(self.topics) > 1):
            allowed = (
                "earliest, latest, a time with its zone as in '2026-11-01T00:00:00Z', or of one topic offsets as in '0:15 1:3', "
                "each partition once"
            )
            raise FieldError("KafkaSource", "start", self.start, allowed)

    @property
    def named(self) -> str:
        """The topics with their cluster, for messages."""
        return f"{self._topics_with(repr)}, cluster {self.cluster} of Kafka"

    def _topics_with(self, written: Callable[[str], str]) -> str:
        return f"topic{'s'[: len(self.topics) - 1]} {', '.join(map(written, self.topics))}"

    def _check_metadata(self) -> None:
        if not isinstance(self.metadata, Mapping) or not all(fits(_PART, part) for part in self.metadata.values()):
            allowed = (
                "{<column>: key, key.<member>, header.<name>, topic, partition, offset or timestamp}, as in "
                "{'id': 'key.id', 'trace': 'header.trace'}"
            )
            raise FieldError("KafkaSource", "metadata", self.metadata, allowed)
        in_value = {column.name for column in parse_ddl("schema", self.schema)}
        if self.changes is not None:
            in_value -= self.changes.paths.keys()
        if unknown := sorted(self.metadata.keys() - in_value):
            raise FieldError(
                "KafkaSource",
                "metadata",
                ", ".join(unknown),
                "columns of the schema that changes does not name in paths",
            )
        has_key = any(part == "key" or part.startswith("key.") for part in self.metadata.values())
        if self.changes is not None and self.changes.no_value == "delete" and not has_key:
            allowed = "a column of the key, as in {'id': 'key.id'}, because a message without value deletes the row of its key"
            raise FieldError("KafkaSource", "metadata", dict(self.metadata), allowed)

    def summary(self) -> str:
        """For pages."""
        return self._topics_with(str) + (f" of cluster {self.cluster}" if self.cluster != "default" else "")

    def describe(self) -> str:
        """For the documentation of DAGs, as Markdown, with the limit of a batch."""
        begins = "" if self.start == EARLIEST else f" from `{self.start}` on"
        return f"{self._topics_with('`{}`'.format)}{begins}, at most {count(self.max_offsets_per_trigger, 'offset')} a batch"
