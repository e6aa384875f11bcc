"""Foreign acts: what other writers, administrators, backups and failing disks do to the tables, checkpoints and notes of a lake."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.acts import losses, writers
from tests.acts.effects import TABLES, WHOLE, Effect, NoTableError
from tests.acts.lake import Lake

__all__ = ["ACTS", "TABLES", "Act", "Acts"]


@dataclass(frozen=True)
class Act:
    """One act: its kind, the table or part that it is done to, and a number that chooses among its variants."""

    kind: str
    table: str
    number: int

    def do(self, lake: Lake) -> Effect | None:
        """Do it to a lake; None if it cannot be done to it as it is, and nothing was done."""
        return ACTS[self.kind](lake, self.table, self.number)

    def __str__(self) -> str:
        return f"{self.kind}({self.table}, {self.number})"


Do = Callable[[Lake, str, int], Effect | None]
ACTS: dict[str, Do] = {
    name: act
    for module in (writers, losses)
    for name, act in vars(module).items()
    if inspect.isfunction(act) and act.__module__ == module.__name__ and not name.startswith("_")
}
"""By name: the public functions of both modules."""


@dataclass
class Acts:
    """What acts together mean, as they are done one after the other."""

    may_refuse: set[str] = field(default_factory=set)
    tainted: bool = False
    names: set[str] = field(default_factory=set)
    done: list[Act] = field(default_factory=list)

    def do(self, lake: Lake, act: Act) -> None:
        """Do an act, if it can be done."""
        from deltalake.exceptions import DeltaError

        events = list(lake.events)
        try:
            effect = act.do(lake)
        except (NoTableError, DeltaError, KeyError, ValueError) as error:
            # There is no table; or after an earlier act delta-rs does not write it, a column has another name, or an entry is torn.
            if isinstance(error, (KeyError, ValueError)) and not self.tainted:
                raise
            lake.events[:] = events
            return
        if effect is None:
            return
        self.done.append(act)
        if effect is WHOLE:
            self.may_refuse, self.tainted, self.names = set(), False, set()
        self.may_refuse |= effect.may_refuse
        self.tainted |= effect.taints
        if effect.names:
            self.names.add(effect.names)
