"""``tidegate quarantine take``, ``waive`` and ``expire``: decisions about refused batches and open entries. Starts no JVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from tidegate.checkpoints import checkpoint, lease, refusal
from tidegate.cli import console, project
from tidegate.errors import RequestError
from tidegate.layout import Layout
from tidegate.quarantine import decision, lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.spec import Flow

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name, show_default=False)
]
OneFlow = Annotated[str, typer.Argument(metavar="FLOW", help="The flow.", show_default=False)]
Rule = Annotated[str | None, typer.Option(metavar="RULE", help="Only entries that broke this rule.")]
Since = Annotated[str | None, typer.Option(metavar="DAY", help="Only entries quarantined on this day (UTC) or later.")]
Until = Annotated[
    str | None, typer.Option(metavar="DAY", help="Only entries quarantined on this day (UTC) or earlier.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")]


def waive(
    name: Name,
    flow: OneFlow,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="The reason; recorded with each entry.", show_default=False)
    ],
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
) -> None:
    """Close open entries for good; who, when and why is recorded with them. Starts no JVM.

    The entries stay in the table with state `waived`. Exit code 75 while a run holds the flow's lease.
    """
    if not reason.strip():
        raise RequestError("--reason is empty: state why these records will not be repaired")
    selection = Selection.check(rule=rule, since=since, until=until)
    layout, flows = selected_flows(name, flow)

    def act(flow: str) -> int:
        return decision.waive(layout, name, flow, selection, by=project.current_user(), reason=reason)

    _decide(layout, name, flows, "waived", selection, dry_run, act)


def take(
    name: Name,
    flow: OneFlow,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="The reason; recorded with each row.", show_default=False)
    ],
) -> None:
    """Let the flow's next run quarantine a refused batch as a whole. Starts no JVM.

    Each of its rows gets the rule `refused_batch` in addition to the rules that it breaks; the batch's offsets are
    committed, and the flow continues. `tidegate plan` shows that there is work. Exit code 75 while a run holds the
    flow's lease.
    """
    layout, (only,) = selected_flows(name, flow)
    ref = checkpoint.current(layout, project.load(name), only)
    resource = lease.checkpoint_resource(name, only.name)
    with lease.hold(layout, (resource,), what=f"tidegate quarantine take of {name}/{only.name}"):
        batch_id = refusal.decide(layout, ref, only, by=project.current_user(), reason=reason)
    console.echo(f"{only.name}: batch {batch_id} goes to quarantine whole with the next run: tidegate run {name}")


def expire(
    name: Name,
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Days or hours, as in 30d or 12h.", show_default=False)
    ],
    flow: Annotated[str | None, typer.Argument(metavar="FLOW", help="One flow; default: all.")] = None,
    rule: Rule = None,
    dry_run: DryRun = False,
) -> None:
    """Close open entries that are older than an age. Starts no JVM.

    The entries stay in the table with state `expired`. Exit code 75 while a run holds a flow's lease.
    """
    selection = Selection.check(rule=rule, older_than=older_than)
    layout, flows = selected_flows(name, flow)

    def act(flow: str) -> int:
        return decision.expire(layout, name, flow, selection, by=project.current_user())

    _decide(layout, name, flows, "expired", selection, dry_run, act)


def selected_flows(name: str, flow: str | None) -> tuple[Layout, Sequence[Flow]]:
    """The layout of the lake, and the named flow or all flows."""
    environment = project.read()
    return Layout.of(environment), project.choose(project.load(name), [flow] if flow is not None else [])


def _decide(
    layout: Layout,
    name: str,
    flows: Sequence[Flow],
    state: str,
    selection: Selection,
    dry_run: bool,
    act: Callable[[str], int],
) -> None:
    """Apply a decision to each flow's entries under its lease, and print how many entries remain open."""
    for flow in flows:
        path = layout.quarantine(name, flow.name)
        if dry_run:
            entries = lifecycle.count_unclaimed(path, selection)
            console.echo(f"{flow.name}: {entries:,} would be {state}")
            continue
        if not path.exists():
            console.echo(f"{flow.name}: nothing is quarantined")
            continue
        resource = lease.checkpoint_resource(name, flow.name)
        with lease.hold(layout, (resource,), what=f"tidegate quarantine of {name}/{flow.name}"):
            entries = act(flow.name)
        console.echo(f"{flow.name}: {entries:,} {state}, {lifecycle.entry_counts(path).open:,} still open")
