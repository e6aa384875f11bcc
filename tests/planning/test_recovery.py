"""The steps of a recovery over random graphs of flows, of which any are damaged; and what is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.planning import recovery_steps
from tidegate.planning.recovery_steps import Key, RecoveryStep
from tidegate.project.resolution import ResolvedFlow, resolve
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSink, Pipeline, Table, Watermark
from tidegate.status.damage import Damage, Kind

pytestmark = pytest.mark.slow

TARGETS: dict[str, Callable[[str], Table | KafkaSink]] = {
    "bronze": lambda name: Table(f"bronze.{name}"),
    "keyed": lambda name: Table(f"silver.{name}", keys=("id",), sequence_by=("at",)),
    "append": lambda name: Table(f"silver.{name}"),
    "ordered": lambda name: Table(f"silver.{name}", event_time="at"),
    "groups": lambda name: Table(f"gold.{name}", keys=("day",)),
    "join": lambda name: Table(f"gold.{name}", keys=("day",)),
    "sink": KafkaSink,
}


def flow(kind: str, name: str, sources: list[str]) -> Flow:
    """A flow of a kind, which reads these tables."""
    target = TARGETS[kind](name)
    if kind == "bronze":
        return Flow(name=name, source=FileSource(path=name, format="csv", schema="id INT"), target=target)
    if kind == "join":
        feeds = (ChangeFeed(sources[0]), ChangeFeed(sources[-1], on={"day": "day"}))
        return Flow(name=name, sources=feeds, transform="x:y", target=target)
    return Flow(
        name=name,
        source=ChangeFeed(sources[0]),
        target=target,
        transform=None if kind == "sink" else "x:y",
        watermark=Watermark(delay="1 day") if kind == "ordered" else None,
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[ResolvedFlow], dict[Key, tuple[Damage, ...]]]:
    """Flows of two pipelines in any order, and the damages of some."""
    flows: list[Flow] = []
    of: dict[str, list[Flow]] = {"a": [], "b": []}
    for number in range(draw(st.integers(1, 9))):
        # No flow may read a table to which rows are appended without an order.
        tables = [each.target.name for each in flows if not each.feeds or each.target.keys or each.watermark]
        kinds_of_flow = ["bronze"] if not tables else sorted(TARGETS if len(tables) > 1 else TARGETS.keys() - {"join"})
        kind = draw(st.sampled_from(kinds_of_flow))
        reads = draw(st.permutations(tables))[:2]
        made = flow(kind, f"t{number}", reads)
        flows.append(made)
        of[draw(st.sampled_from(sorted(of)))].append(made)
    declared = {name: Pipeline(name=name, flows=tuple(own)) for name, own in of.items() if own}
    resolved = [
        replace(each, error=None)
        for pipeline in declared.values()
        for each in resolve(pipeline, Path(), declared).flows
    ]
    damaged = draw(st.lists(st.sampled_from(resolved), unique_by=lambda each: each.flow.name))
    kinds: st.SearchStrategy[Kind] = st.sampled_from(("table", "checkpoint", "source", "unfinished"))
    damages: dict[Key, tuple[Damage, ...]] = {
        (each.pipeline.name, each.flow.name): (
            Damage(kind=draw(kinds), pipeline=each.pipeline.name, flow=each.flow.name, what="it", cause="is gone"),
        )
        for each in damaged
    }
    return draw(st.permutations(resolved)), damages


def below(flows: list[ResolvedFlow], of: set[Key]) -> set[Key]:
    """By the definition: these flows, and those that read a table of one of them, and so on."""
    while True:
        tables = {each.flow.target.name for each in flows if (each.pipeline.name, each.flow.name) in of}
        more = {(each.pipeline.name, each.flow.name) for each in flows if tables & set(each.flow.source_tables)}
        if more <= of:
            return of
        of = of | more


def made_of(flows: list[ResolvedFlow], damages: dict[Key, tuple[Damage, ...]]) -> tuple[RecoveryStep, ...]:
    return recovery_steps.steps(recovery_steps.ordered(flows), damages)


@settings(max_examples=150)
@given(graphs())
def test_everything_that_stands_on_damage_has_one_step_after_those_above_it_and_nothing_else_has(
    graph: tuple[list[ResolvedFlow], dict[Key, tuple[Damage, ...]]],
) -> None:
    flows, damages = graph
    made = made_of(flows, damages)
    assert len({step.key for step in made}) == len(made)
    assert {step.key for step in made} == below(flows, set(damages))
    places = {step.resolved.flow.target.name: number for number, step in enumerate(made)}
    for number, step in enumerate(made):
        sources = [table for table in step.resolved.flow.source_tables if table in places]
        assert all(places[table] < number for table in sources)
        own, flow = damages.get(step.key, ()), step.resolved.flow
        is_replaced = any(made[places[table]].replaces for table in sources)
        is_whole = all(each.kind == "unfinished" for each in own)
        if (own and not is_whole) or (not own and is_replaced):
            expected = "read again" if not flow.feeds else "send again" if flow.kind.sends else "derive again"
        else:
            expected = "go on" if own else "follow"
        assert step.action == expected
        assert step.replaces == (expected == "derive again" and not flow.target.keys)


@settings(max_examples=100)
@given(graphs(), st.data())
def test_the_steps_of_a_table_are_all_below_it_and_what_they_stand_on(
    graph: tuple[list[ResolvedFlow], dict[Key, tuple[Damage, ...]]], data: st.DataObject
) -> None:
    flows, damages = graph
    made = made_of(flows, damages)
    table = data.draw(st.sampled_from(sorted({each.flow.target.name for each in flows})))
    chosen = {step.key for step in recovery_steps.around(table, recovery_steps.ordered(flows), made)}
    owner = {(each.pipeline.name, each.flow.name) for each in flows if each.flow.target.name == table}
    wanted = {step.key for step in made} & below(flows, owner)
    writers = {each.flow.target.name: (each.pipeline.name, each.flow.name) for each in flows}
    stood_on = set(wanted)
    while True:
        above = {
            writers[source]
            for step in made
            if step.key in stood_on
            for source in step.resolved.flow.source_tables
            if writers[source] in {each.key for each in made}
        }
        if above <= stood_on:
            break
        stood_on |= above
    assert chosen == stood_on
