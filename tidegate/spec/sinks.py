"""Declarations of sinks: systems outside of the lake to which a flow sends the changes of a table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from tidegate.errors import FieldError
from tidegate.spec.checks import Layer, fits

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Names that Kafka allows for topics, except ``.`` and ``..``."""
_NAME = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]{0,62}")
_FUNCTION = re.compile(r"[a-z][a-z0-9_]*:[a-z][a-z0-9_]*")


class _Outside:
    """What shared code reads of every target and what only tables have."""

    keys: ClassVar[tuple[str, ...]] = ()
    sequence_by: ClassVar[tuple[str, ...]] = ()
    text_order: ClassVar[Mapping[str, str]] = {}
    replace_by: ClassVar[tuple[str, ...]] = ()
    scope: ClassVar[tuple[str, ...]] = ()
    child_keys: ClassVar[tuple[str, ...]] = ()
    untracked: ClassVar[tuple[str, ...]] = ()
    history: ClassVar[None] = None
    windows: ClassVar[None] = None
    event_time: ClassVar[None] = None
    first_day: ClassVar[None] = None
    last_day: ClassVar[None] = None
    write_mode: ClassVar[Literal["send"]] = "send"


@dataclass(frozen=True)
class KafkaSink(_Outside):
    """A topic of the brokers in ``TIDEGATE_KAFKA``, which exists. It gets one record for each change of a row, at least once.

    The key of a record is the row's key as JSON, its value the row without the columns of the platform, or NULL for a delete.
    """

    topic: str

    def __post_init__(self) -> None:
        if not fits(TOPIC, self.topic) or self.topic in (".", ".."):
            raise FieldError("KafkaSink", "topic", self.topic, "letters, digits, '.', '_' and '-', at most 249")

    @property
    def name(self) -> str:
        """``kafka.<topic>``: the name in messages, reports and Assets."""
        return f"{self.layer}.{self.topic}"

    @property
    def layer(self) -> str:
        """What stands in place of the layer of a table."""
        return "kafka"

    def remembered(self) -> dict[str, Any]:
        """Nothing but the name."""
        return {}


@dataclass(frozen=True)
class FunctionSink(_Outside):
    """Whatever a function of the project writes to, for example a table of a database.

    The function takes the changes of a batch (`tidegate.changes`), at least once, and returns when all of them are stored.
    """

    name: str
    """``<system>.<what>``, for example ``postgres.orders``: the name in messages, reports and Assets."""
    _: dataclasses.KW_ONLY
    write: str
    """``<module>:<function>`` in ``spark_jobs``."""

    def __post_init__(self) -> None:
        if not fits(_NAME, self.name) or self.layer in ("kafka", *get_args(Layer)):
            allowed = (
                "'<system>.<what>' in lower case, as in 'postgres.orders', with a system other than a layer and kafka"
            )
            raise FieldError("FunctionSink", "name", self.name, allowed)
        if not fits(_FUNCTION, self.write):
            allowed = "'<module>:<function>' in spark_jobs, as in 'orders_out:upsert'"
            raise FieldError(f"FunctionSink {self.name!r}", "write", self.write, allowed)

    @property
    def layer(self) -> str:
        """What stands in place of the layer of a table."""
        return self.name.partition(".")[0]

    def remembered(self) -> dict[str, Any]:
        """Nothing but the name: another function for the same system continues."""
        return {}


Sink = KafkaSink | FunctionSink
