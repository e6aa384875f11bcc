"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import project

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)]
AnyName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="One pipeline; default: all.", autocompletion=project.complete_name),
]
OneFlow = Annotated[str, typer.Argument(metavar="FLOW", help="The flow.")]
AnyFlow = Annotated[str | None, typer.Argument(metavar="FLOW", help="One flow; default: all.")]
Flows = Annotated[
    list[str] | None, typer.Option("--flow", metavar="FLOW", help="Only this flow; may be given several times.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Patience = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="Seconds to wait for the sources.", min=0.1)
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="The reason; it is recorded.")]
Mode = Annotated[
    str,
    typer.Option(
        metavar="MODE",
        help="incremental, backfill (of a window), reingest (the source again), full_refresh, or recover (what is damaged).",
    ),
]
First = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="DAY",
        help="First day, YYYY-MM-DD: of a backfill by event time, of a reingest by when files were changed or messages sent.",
    ),
]
Last = Annotated[str | None, typer.Option("--to", metavar="DAY", help="Last day, included.")]
Gaps = Annotated[
    bool,
    typer.Option(
        "--gaps",
        help="Of a reingest: only the files of days or hours that are not complete, where the source declares intervals; with --from "
        "and --to, of those days.",
    ),
]
Rule = Annotated[str | None, typer.Option(metavar="RULE", help="Only entries that broke this rule.")]
Since = Annotated[str | None, typer.Option(metavar="DAY", help="Only entries quarantined on this day (UTC) or later.")]
Until = Annotated[
    str | None, typer.Option(metavar="DAY", help="Only entries quarantined on this day (UTC) or earlier.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")]
