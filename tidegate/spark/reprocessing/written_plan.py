"""What a replay or a reingest of a window means to do, as files beside the checkpoint: written before anything is written.

Each has a number, its ``txnVersion``. So after a crash it is known what was in hand, and whether it had begun.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Protocol

from tidegate import atomic
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from dataclasses import Field
    from pathlib import Path
    from typing import ClassVar

    from tidegate.spark.context import FlowContext


class Plan(Protocol):
    """A dataclass of plain values with a number."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def number(self) -> int:
        """Its ``txnVersion``."""
        ...


def numbers(context: FlowContext) -> list[int]:
    """Of all plans of the flow, in order."""
    return sorted(int(path.stem) for path in folder(context).glob("*.json") if path.stem.isdigit())


def read(context: FlowContext, number: int) -> dict[str, Any]:
    """The values of one plan."""
    plain: dict[str, Any] = json.loads(_path(context, number).read_text(encoding="utf-8"))
    return plain


def write(context: FlowContext, plan: Plan) -> None:
    """Write a plan so that a reader sees the old one or the new one, never half of one."""
    path = _path(context, plan.number)
    atomic.write_text(path, json.dumps(dataclasses.asdict(plan), indent=1))


def drop(context: FlowContext, number: int) -> None:
    """Forget a plan of which nothing was written."""
    _path(context, number).unlink()


def has_begun(context: FlowContext, number: int) -> bool:
    """Whether a table holds something that was written by a plan."""
    app_id = context.of_windows().app_id
    return any(
        tables.transactions(context.spark, path).get(app_id, -1) == number
        for path in (context.quarantine, context.live)
    )


def folder(context: FlowContext) -> Path:
    """Where the flow's plans lie, and what else belongs to them."""
    return context.layout.replays(context.pipeline.name, context.flow.name)


def _path(context: FlowContext, number: int) -> Path:
    return folder(context) / f"{number}.json"
