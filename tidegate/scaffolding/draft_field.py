"""A field of a sample and its column in silver."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tidegate.formatting import count
from tidegate.scaffolding.value_types import Guess
from tidegate.schema.names import FieldPath

_EXAMPLES = 3
_LONGEST_EXAMPLE = 16


@dataclass(frozen=True, kw_only=True)
class DraftField:
    """A field of the sample, and its column in silver."""

    name: str
    """As in the sample."""
    declared: str
    """As in the schema: the same, unless a column cannot have it."""
    column: str
    guess: Guess
    values: Sequence[Any]
    """One per record: texts of a STRING, else as in the sample; None for no value."""
    renames: Mapping[FieldPath, str] = field(default_factory=dict)
    """The renames of the field and of what is in it."""

    @property
    def shown_name(self) -> str:
        """The name for people, who would not see an empty one."""
        return self.name or "''"

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """The records in which the column has no value, because there is none or it does not fit the type."""
        misfits = {each.record for each in self.guess.misfits}
        return tuple(record for record, value in enumerate(self.values) if value is None or record in misfits)

    @property
    def empty(self) -> tuple[int, ...]:
        """The records in which the field has no value."""
        return tuple(record for record, value in enumerate(self.values) if value is None)

    def summary(self) -> str:
        """What the sample has in this field: ``380 values, 4 empty, 377 different: A-1, A-2, A-3``."""
        texts = [text_of(value) for value in self.values if value is not None]
        empty = f"{len(self.empty):,} empty" if self.empty else ""
        parts = [count(len(texts), "value"), empty, f"{len({*texts}):,} different"]
        examples = [shortened(text) for text in list(dict.fromkeys(texts))[:_EXAMPLES]]
        return f"{', '.join(filter(None, parts))}{': ' if examples else ''}{', '.join(examples)}"


def sent_to_quarantine(records: Sequence[int]) -> str:
    """What becomes of records without a value that their table requires."""
    return f"{'its record goes' if len(records) == 1 else 'their records go'} to quarantine"


def text_of(value: Any) -> str:
    """A value as it is in the records."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def shortened(text: str) -> str:
    """A value for people, not longer than what one line has room for."""
    return text if len(text) <= _LONGEST_EXAMPLE else f"{text[: _LONGEST_EXAMPLE - 1]}…"
