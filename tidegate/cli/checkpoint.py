"""``tidegate checkpoint``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import project

if TYPE_CHECKING:
    from tidegate.layout import Layout
    from tidegate.spec import Flow, Pipeline

_HEADERS = ("flow", "version", "refresh", "in use", "fingerprint", "created at", "planned", "committed", "note")


def checkpoint(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show every checkpoint of a pipeline: versions, refreshes, their fingerprints, the last batches. Starts no JVM.

    The exit code is 78 when the declaration no longer fits a checkpoint, or a checkpoint cannot be read.
    """
    from tidegate.cli import console
    from tidegate.errors import EX_CONFIG
    from tidegate.layout import Layout

    environment = project.read()
    pipeline, layout = project.load(name), Layout.of(environment)
    found = [line for flow in pipeline.flows for line in _lines(layout, pipeline, flow)]
    if as_json:
        console.print_json({"format": 1, "checkpoints": found})
    elif found:
        console.print_table(_HEADERS, [_row(line) for line in found], right=("planned", "committed"))
    else:
        console.say(f"Pipeline {name!r} has no checkpoint yet: it has never run.")
    raise typer.Exit(EX_CONFIG if any(line["error"] for line in found) else 0)


def _lines(layout: Layout, pipeline: Pipeline, flow: Flow) -> Iterator[dict[str, Any]]:
    from tidegate.checkpoints import checkpoint
    from tidegate.errors import TidegateError

    used = checkpoint.current(layout, pipeline, flow)
    try:
        sidecars = checkpoint.versions(layout, pipeline.name, flow.name)
    except TidegateError as error:
        yield {**_empty(flow.name, flow.checkpoint_version, used.refresh), "in_use": True, "error": error.message}
        return
    for version, sidecar in sidecars.items():
        folder = layout.checkpoints(pipeline.name, flow.name) / f"v{version}"
        refreshes = sorted(int(entry.name) for entry in folder.glob("*") if entry.name.isdigit()) or [0]
        for refresh in refreshes:
            in_use = (version, refresh) == (used.version, used.refresh)
            told = {**_empty(flow.name, version, refresh), "in_use": in_use}
            told |= {"fingerprint": sidecar["fingerprint"], "created_at": sidecar.get("created_at")}
            yield told | _progress(layout, pipeline, flow, version, refresh, in_use=in_use)


def _progress(
    layout: Layout, pipeline: Pipeline, flow: Flow, version: int, refresh: int, *, in_use: bool
) -> dict[str, Any]:
    from tidegate.checkpoints import checkpoint, progress
    from tidegate.errors import TidegateError

    told: dict[str, Any] = {}
    try:
        found = progress.read(layout.checkpoint(pipeline.name, flow.name, version, refresh))
        told = {"last_planned": found.last_planned, "last_committed": found.last_committed}
        if in_use or version > flow.checkpoint_version:
            checkpoint.check_compatible(layout, pipeline, flow)
    except TidegateError as error:
        told["error"] = error.message
    return told


def _empty(flow: str, version: int, refresh: int) -> dict[str, Any]:
    names = ("fingerprint", "created_at", "last_planned", "last_committed", "error")
    return {"flow": flow, "version": version, "refresh": refresh, "in_use": False, **dict.fromkeys(names)}


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    note = line["error"] or ""
    if not note and line["last_planned"] != line["last_committed"]:
        note = f"batch {line['last_planned']} is in hand; the next run finishes it"
    numbers = ["-" if line[name] is None else str(line[name]) for name in ("last_planned", "last_committed")]
    made = (line["created_at"] or "-")[:19].replace("T", " ")
    return (
        line["flow"],
        f"v{line['version']}",
        str(line["refresh"]),
        "yes" if line["in_use"] else "-",
        line["fingerprint"] or "-",
        made,
        *numbers,
        note,
    )
