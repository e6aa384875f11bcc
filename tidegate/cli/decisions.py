"""``tidegate quarantine take``, ``accept``, ``waive`` and ``expire``: decisions about refused batches and open entries.

They start no JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tidegate.cli import console, project
from tidegate.cli.arguments import AnyFlow, DryRun, Name, OneFlow, Rule, Since, Until
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.quarantine import decision
from tidegate.quarantine.decision import Closed
from tidegate.quarantine.selection import Selection
from tidegate.spec import Flow


def waive(
    name: Name,
    flow: OneFlow,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason; recorded with each entry.")],
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
) -> None:
    """Close open entries for good; who, when and why is recorded with them. Starts no JVM.

    The entries stay in the table with state `waived`. Exit code 75 while a run holds the flow's lease.
    """
    selection = Selection.check(rule=rule, since=since, until=until)
    layout, (only,) = selected_flows(name, flow)
    by = project.current_user()
    closed = decision.waive(FlowPlace(layout, name, only.name), selection, by=by, reason=reason, dry_run=dry_run)
    _print(only.name, "waived", closed, dry_run)


def take(
    name: Name,
    flow: OneFlow,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason; recorded with each row.")],
) -> None:
    """Let the flow's next run quarantine a refused batch as a whole. Starts no JVM.

    Each of its rows gets the rule `refused_batch` in addition to the rules that it breaks; the batch's offsets are
    committed, and the flow continues. `tidegate plan` shows that there is work. Exit code 75 while a run holds the
    flow's lease.
    """
    layout, (only,) = selected_flows(name, flow)
    batch_id = decision.decide_batch(FlowPlace(layout, name, only.name), only, by=project.current_user(), reason=reason)
    console.echo(f"{only.name}: batch {batch_id} goes to quarantine whole with the next run: tidegate run {name}")


def accept(
    name: Name,
    flow: OneFlow,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason; recorded with the verdict.")],
) -> None:
    """Let a batch pass that a statistic holds. Starts no JVM.

    The flow's next run judges it by the suite alone, and continues. It counts as an earlier batch from then on. Exit code 75 while
    a run holds the flow's lease.
    """
    layout, (only,) = selected_flows(name, flow)
    by = project.current_user()
    batch_id = decision.decide_batch(FlowPlace(layout, name, only.name), only, by=by, reason=reason, action="accept")
    console.echo(f"{only.name}: batch {batch_id} is accepted and passes with the next run: tidegate run {name}")


def expire(
    name: Name,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Days or hours, as in 30d or 12h.")],
    flow: AnyFlow = None,
    rule: Rule = None,
    dry_run: DryRun = False,
) -> None:
    """Close open entries that are older than an age. Starts no JVM.

    The entries stay in the table with state `expired`. Exit code 75 while a run holds a flow's lease.
    """
    selection = Selection.check(rule=rule, older_than=older_than)
    layout, flows = selected_flows(name, flow)
    for each in flows:
        closed = decision.expire(
            FlowPlace(layout, name, each.name), selection, by=project.current_user(), dry_run=dry_run
        )
        _print(each.name, "expired", closed, dry_run)


def selected_flows(name: str, flow: str | None) -> tuple[Layout, Sequence[Flow]]:
    """The layout of the lake, and the named flow or all flows."""
    environment = project.read()
    return project.lake(environment), project.choose(project.load(name), [flow] if flow is not None else [])


def _print(flow: str, state: str, closed: Closed, dry_run: bool) -> None:
    """Print how many entries of a flow a decision closed, and how many remain open."""
    if dry_run:
        console.echo(f"{flow}: {closed.entries:,} would be {state}")
    elif closed.counts.states:
        console.echo(f"{flow}: {closed.entries:,} {state}, {closed.counts.open:,} still open")
    else:
        console.echo(f"{flow}: nothing is quarantined")
