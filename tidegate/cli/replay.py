"""``tidegate quarantine replay``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import project
from tidegate.cli.decisions import Name, OneFlow, Rule, Since, Until


def replay(
    name: Name,
    flow: OneFlow,
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[
        int | None, typer.Option(metavar="COUNT", help="At most so many entries, the oldest first.", min=1)
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Judge the oldest 10,000 of them and say what would happen; write nothing."),
    ] = False,
) -> None:
    """Run open entries through today's transform and suite, and write those that pass. Starts a JVM.

    Each entry goes once, by the way of every micro-batch: an old row never replaces a newer one. What breaks a rule
    again stays open, with one attempt more. A file is read again, as it lies there now. Flows below take the rows with
    their next run. When a replay was interrupted, its entries are finished first.

    Exit codes: those of `tidegate run`; 64 also when the flow is switched off.
    """
    from tidegate.checkpoints import intervention
    from tidegate.cli import console
    from tidegate.cli.run import attempt
    from tidegate.layout import Layout
    from tidegate.planning.extent import sized
    from tidegate.quarantine import claims, lifecycle
    from tidegate.quarantine.selection import Selection
    from tidegate.report import now
    from tidegate.request import RunRequest

    selection = Selection.check(rule=rule, since=since, until=until)
    environment = project.read()
    pipeline = project.load(name)
    (only,) = project.choose(pipeline, [flow])
    layout = Layout.of(environment)
    intervention.check_on(layout, name, only.name)
    path = layout.quarantine(name, only.name)
    free, unfinished = lifecycle.count_free(path, selection), claims.in_hand(path)
    if not free and (unfinished is None or dry_run):
        console.say(
            f"{only.name}: nothing {f'{selection.told()} ' if selection.told() else ''}is open; no JVM was started"
        )
        return
    if unfinished is not None and not dry_run:
        console.say(f"{only.name}: {unfinished.entries:,} entries of an interrupted replay are finished first")
    request = RunRequest.of_quarantine(
        pipeline, only.name, f"cli__{now()}", selection, requested_by=project.who(), limit=limit, dry_run=dry_run
    )
    code = attempt(environment, sized(environment, pipeline, request))
    held = lifecycle.held(path)
    console.say(f"{only.name}: {held.open:,} open, {held.states.get('replayed', 0):,} replayed")
    raise typer.Exit(code)
