"""``tidegate alerts``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import project

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.status.observation import Open

_HEADERS = ("flow", "rule", "open since", "why")


def alerts(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="One pipeline; all of them without it.", autocompletion=project.complete_name
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Seconds to wait for the sources.", min=0.1)] = 10.0,
) -> None:
    """Look at every flow now, and show its open alerts, why, and since when. Starts no JVM and changes nothing.

    The DAG `alerts` records when an alert opens and ends, and tells people; what it has not seen yet is open since now.

    The exit code is 0 whether alerts are open or not.
    """
    import pendulum

    from tidegate.cli import console
    from tidegate.layout import Layout
    from tidegate.status import observation

    environment = project.read()
    now = pendulum.now("UTC")
    judged = observation.judge(environment, project.load_all(name), now, timeout)
    found = [each for one in judged for each in observation.open_alerts(Layout.of(environment), one, now)]
    if as_json:
        console.print_json({"format": 1, "as_of": now.isoformat(), "alerts": [_plain(each) for each in found]})
    elif found:
        console.print_table(_HEADERS, [_row(each, now) for each in found])
    else:
        console.say("No alert is open.")


def _plain(each: Open) -> dict[str, Any]:
    return {
        "pipeline": each.pipeline,
        "flow": each.flow or None,
        "rule": each.rule,
        "since": each.since.isoformat(),
        "recorded": each.recorded,
        "message": each.message,
        "certain": each.certain,
    }


def _row(each: Open, now: datetime) -> tuple[str, ...]:
    from tidegate import wording

    since = f"{each.since:%Y-%m-%d %H:%M} UTC ({wording.span(now - each.since)})" if each.recorded else "now"
    why = each.message if each.certain else f"{each.message} (as it began; nobody can tell now)"
    return (f"{each.pipeline}/{each.flow}" if each.flow else each.pipeline, each.rule, since, why)
