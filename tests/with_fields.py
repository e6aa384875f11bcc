"""Dataclasses with other fields, where the type checker cannot know which fields a value has, or where they are wrong on purpose."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

T = TypeVar("T")


def with_fields(value: T, **fields: Any) -> T:
    """`dataclasses.replace` for any dataclass: the target of a flow is a table or a sink, its source a folder, topic or feed."""
    result: T = dataclasses.replace(value, **fields)  # type: ignore[type-var]  # T is a dataclass
    return result
