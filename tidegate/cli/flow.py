"""``tidegate flow``: switch a flow off and on, set a file aside unopened, give up messages that a topic lost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli import project

if TYPE_CHECKING:
    from tidegate.layout import Layout
    from tidegate.spec import Flow

app = typer.Typer(
    help="Switch a flow off or on, skip a file that stops it, give up messages that are gone; who, when and why is kept.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)]
OneFlow = Annotated[str, typer.Argument(metavar="FLOW", help="The flow.", show_default=False)]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept.", show_default=False)]


@app.command()
def off(name: Name, flow: OneFlow, reason: Reason) -> None:
    """Switch a flow off from the next run on, until somebody switches it on. Starts no JVM.

    Its source is not read and its checkpoint stays where it is, so nothing is lost or read twice. Flows that read its
    table go on with what the table holds.
    """
    _switch(name, flow, reason, on=False)


@app.command()
def on(name: Name, flow: OneFlow, reason: Reason) -> None:
    """Switch a flow on again: its next run goes on where it stopped. Starts no JVM."""
    _switch(name, flow, reason, on=True)


@app.command()
def skip(
    name: Name,
    flow: OneFlow,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Relative to the landing folder.", show_default=False)],
    reason: Reason,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back: the file is read when its turn comes.")] = False,
) -> None:
    """Have a file put into quarantine unopened when its turn comes: for one that stops every run. Starts no JVM.

    Bad files go there by themselves; this is for one that brings the whole application down. Its entry has the rule
    `skipped_file`, and `tidegate quarantine replay` reads it after all.
    """
    from tidegate.checkpoints import checkpoint, intervention
    from tidegate.cli import console

    layout, only = _chosen(name, flow)
    ref = checkpoint.current(layout, project.load(name), only)
    done = intervention.skip(layout, only, ref, file, by=project.who(), reason=reason, undo=undo)
    console.say(f"{name}/{flow}: {done.told()}")


@app.command("accept-gap")
def accept_gap(
    name: Name,
    flow: OneFlow,
    offsets: Annotated[
        list[str],
        typer.Argument(
            metavar="OFFSETS...", help="What is gone: partition:first-last, as in 0:10-14.", show_default=False
        ),
    ],
    reason: Reason,
) -> None:
    """Give up messages that the broker deleted before they were read, so that reading goes on behind them. Starts no JVM.

    `tidegate plan` and `tidegate status` name what is gone; exactly that is given up, and no more. The ledger gets a line
    of kind `gap`. If more is gone by the next run, the flow stops again and names it.
    """
    from tidegate.checkpoints import gap
    from tidegate.cli import console
    from tidegate.status import lost

    environment, pipeline = project.read(), project.load(name)
    (only,) = project.choose(pipeline, [flow])
    done = lost.give_up(environment, pipeline, only, gap.parse(offsets), by=project.who(), reason=reason)
    console.say(f"{name}/{flow}: {done.told()}")


@app.command()
def show(
    name: Name,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show what people decided about a pipeline's flows, oldest first. Starts no JVM."""
    from tidegate.checkpoints import intervention
    from tidegate.cli import console
    from tidegate.layout import Layout

    layout = Layout.of(project.read())
    found = [
        (flow.name, each) for flow in project.load(name).flows for each in intervention.history(layout, name, flow.name)
    ]
    if as_json:
        told = [{"flow": flow, **asdict(each)} for flow, each in found]
        console.print_json({"format": 1, "pipeline": name, "decisions": told})
    elif found:
        rows = [(each.at[:16].replace("T", " "), flow, each.told()) for flow, each in found]
        console.print_table(("when", "flow", "decision"), sorted(rows))
    else:
        console.say(f"Nobody has switched a flow of {name!r} or skipped a file.")


def _switch(name: str, flow: str, reason: str, *, on: bool) -> None:
    from tidegate.checkpoints import intervention
    from tidegate.cli import console

    layout, only = _chosen(name, flow)
    done = intervention.switch(layout, name, only.name, on=on, by=project.who(), reason=reason)
    console.say(f"{name}/{flow}: {done.told()}")


def _chosen(name: str, flow: str) -> tuple[Layout, Flow]:
    from tidegate.layout import Layout

    environment = project.read()
    (only,) = project.choose(project.load(name), [flow])
    return Layout.of(environment), only
