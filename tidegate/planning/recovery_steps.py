"""Which flows a recovery derives again, and in which order. Pure functions of the declarations and of what is damaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tidegate.status.damage import Damage

if TYPE_CHECKING:
    from tidegate.project.resolution import ResolvedFlow


Key = tuple[str, str]
"""Pipeline and flow."""
Action = Literal["read again", "derive again", "send again", "go on", "follow"]
"""``go on``: an earlier recovery of the flow was interrupted. ``follow``: an ordinary increment."""


@dataclass(frozen=True, kw_only=True)
class RecoveryStep:
    """What is done to one flow."""

    resolved: ResolvedFlow
    action: Action
    damages: tuple[Damage, ...]
    because: str
    """Why, for a flow that is not damaged itself."""

    @property
    def key(self) -> Key:
        """The pipeline and the flow."""
        return self.resolved.pipeline.name, self.resolved.flow.name

    @property
    def replaces(self) -> bool:
        """Whether one commit replaces all rows of the table, so that no reader can follow its feed."""
        flow = self.resolved.flow
        return self.action == "derive again" and not flow.target.keys


def ordered(flows: Sequence[ResolvedFlow]) -> tuple[ResolvedFlow, ...]:
    """Flows of all pipelines, each after those that write what it reads; those of one pipeline stay together where that allows it."""
    writers = {each.flow.target.name: each for each in flows if not each.flow.kind.sends}
    done: dict[Key, ResolvedFlow] = {}
    left = list(flows)
    while left:
        free = [each for each in left if all(key_of(above) in done for above in _above(each, writers) if above in left)]
        last = next(reversed(done), ("", ""))[0]
        # Pipelines may feed each other, flows never: a circle is left in the order of the declarations.
        chosen = next((each for each in free if each.pipeline.name == last), (free or left)[0])
        done[key_of(chosen)] = chosen
        left.remove(chosen)
    return tuple(done.values())


def steps(flows: Sequence[ResolvedFlow], damages: Mapping[Key, tuple[Damage, ...]]) -> tuple[RecoveryStep, ...]:
    """What is done to each flow that is damaged, or that stands on one that is.

    Args:
        flows: In the order of `ordered`.
        damages: By flow; none for a flow that is whole.
    """
    made: dict[str, RecoveryStep] = {}
    for each in flows:
        own = damages.get(key_of(each), ())
        above = [made[table] for table in dict.fromkeys(each.flow.source_tables) if table in made]
        replaced = [step for step in above if step.replaces]
        if own and all(item.kind == "unfinished" for item in own):
            action: Action = "go on"
        elif own or replaced:
            action = _again(each)
        elif above:
            action = "follow"
        else:
            continue
        tables = ", ".join(step.resolved.flow.target.name for step in replaced or above)
        words = f"{tables} is replaced as a whole" if replaced else f"it reads what {tables} gets"
        name = each.flow.target.name if not each.flow.kind.sends else "/".join(key_of(each))
        made[name] = RecoveryStep(resolved=each, action=action, damages=own, because="" if own else words)
    return tuple(made.values())


def around(table: str, flows: Sequence[ResolvedFlow], made: Sequence[RecoveryStep]) -> tuple[RecoveryStep, ...]:
    """The steps of a table, of everything below it, and of what these stand on.

    Args:
        flows: All flows, in the order of `ordered`.
    """
    chosen: set[Key] = set()
    reached = {table}
    for each in flows:
        if each.flow.target.name == table or reached & set(each.flow.source_tables):
            chosen.add(key_of(each))
            reached.add(each.flow.target.name)
    needed = {each for step in made if step.key in chosen for each in step.resolved.flow.source_tables}
    for step in reversed(made):
        if step.resolved.flow.target.name in needed:
            chosen.add(step.key)
            needed |= set(step.resolved.flow.source_tables)
    return tuple(step for step in made if step.key in chosen)


def _again(resolved: ResolvedFlow) -> Action:
    if not resolved.flow.feeds:
        return "read again"
    return "send again" if resolved.flow.kind.sends else "derive again"


def _above(resolved: ResolvedFlow, writers: Mapping[str, ResolvedFlow]) -> list[ResolvedFlow]:
    return [writers[table] for table in resolved.flow.source_tables if table in writers]


def key_of(resolved: ResolvedFlow) -> Key:
    """The pipeline and the flow."""
    return resolved.pipeline.name, resolved.flow.name
