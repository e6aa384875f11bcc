"""``tidegate quarantine replay``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate import formatting
from tidegate.cli import console, project
from tidegate.cli.arguments import Name, OneFlow, Rule, Since, Until
from tidegate.cli.run import attempt
from tidegate.lake.place import FlowPlace
from tidegate.planning.extent import with_size
from tidegate.quarantine import decision, lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.reports.report import now
from tidegate.requests.request import RunRequest


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
        typer.Option("--dry-run", help="Judge the oldest 10,000 entries and show what would happen; write nothing."),
    ] = False,
) -> None:
    """Replay open entries through today's transform and suite, and write those that pass. Starts a JVM.

    Each entry is written at most once, in the same way as by a micro-batch: an old row never replaces a newer one. An
    entry that breaks a rule again stays open, with its attempts increased. A quarantined file is read again with its
    current content. Downstream flows read the rows with their next run. An interrupted replay is finished first.

    Exit codes: those of `tidegate run`; 64 also when the flow is switched off.
    """
    selection = Selection.check(rule=rule, since=since, until=until)
    environment = project.read()
    resolved = project.resolve(environment, name)
    pipeline = resolved.pipeline
    (only,) = project.choose(pipeline, [flow])
    layout = project.lake(environment)
    resolved.check_runnable([only])
    replayable = decision.check_replay(FlowPlace(layout, name, only.name), selection, dry_run=dry_run)
    if not replayable.entries and not replayable.interrupted:
        console.echo(
            f"{only.name}: nothing {f'{selection.summary()} ' if selection.summary() else ''}is open; no JVM was started"
        )
        return
    if replayable.interrupted:
        entries = formatting.count(replayable.interrupted, "entry", "entries")
        console.echo(f"{only.name}: first finishes {entries} of an interrupted replay")
    request = RunRequest.of_replay(
        pipeline,
        only.name,
        f"cli__{now()}",
        selection,
        requested_by=project.current_user(),
        limit=limit,
        dry_run=dry_run,
    )
    code = attempt(environment, with_size(environment, pipeline, request))
    counts = lifecycle.entry_counts(FlowPlace(layout, name, only.name).quarantine)
    console.echo(f"{only.name}: {counts.open:,} open, {counts.states.get('replayed', 0):,} replayed")
    raise typer.Exit(code)
