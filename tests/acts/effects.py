"""What an act means for the flows: who may refuse, and whether rows or their history may be lost."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tests.acts.project import READERS, TARGETS

TABLES = tuple(TARGETS.values())
WRITERS = {table: flow for flow, table in TARGETS.items()}
FRESH = itertools.count(1)
"""Numbers for keys that nobody else has."""


@dataclass(frozen=True)
class Effect:
    """What an act means for the flows."""

    may_refuse: frozenset[str] = frozenset()
    """The flows that may refuse to go on."""
    taints: bool = False
    """Whether rows or the history of them may be lost, so that a flow that goes on must have healed them."""
    names: str = ""
    """The table of which a change of rows by another writer must be named."""


HARMLESS = Effect()
WHOLE = Effect()
"""The effect of an act after which nothing of earlier acts is left."""


class NoTableError(Exception):
    """There is no table to which an act could be done."""


def flows_on(table: str) -> frozenset[str]:
    """The flow that writes a table, and those that read it."""
    return frozenset((WRITERS[table], *READERS[table]))


def damaged(table: str) -> Effect:
    """The effect of an act that loses or replaces history."""
    return Effect(may_refuse=flows_on(table), taints=True)
