"""Declarations of sinks: systems outside of the lake to which a flow sends the changes of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tidegate.errors import FieldError
from tidegate.spec.checks import fits

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Names that Kafka allows for topics, except ``.`` and ``..``."""


class _Outside:
    """What shared code reads of every target and what only tables have."""

    keys: ClassVar[tuple[str, ...]] = ()
    sequence_by: ClassVar[tuple[str, ...]] = ()
    replace_by: ClassVar[tuple[str, ...]] = ()
    scope: ClassVar[tuple[str, ...]] = ()
    child_keys: ClassVar[tuple[str, ...]] = ()
    untracked: ClassVar[tuple[str, ...]] = ()
    history: ClassVar[None] = None
    windows: ClassVar[None] = None
    event_time: ClassVar[None] = None
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


Sink = KafkaSink
