"""``tidegate checkpoint``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from tidegate.checkpoints import checkpoint as checkpoints
from tidegate.checkpoints import progress
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson, Name
from tidegate.errors import EX_CONFIG, TidegateError
from tidegate.lake.layout import Layout
from tidegate.lake.place import Place
from tidegate.project.resolution import ResolvedFlow

_HEADERS = ("flow", "version", "refresh", "in use", "fingerprint", "created at", "planned", "committed", "note")


def checkpoint(name: Name, as_json: AsJson = False) -> None:
    """Show every checkpoint of a pipeline: versions, refreshes, fingerprints and last batches. Starts no JVM.

    The exit code is 78 when the declaration no longer matches a checkpoint, or a checkpoint cannot be read.
    """
    environment = project.read()
    resolved, layout = project.resolve(environment, name), Layout.of(environment)
    lines = [line for flow in resolved.flows for line in _lines(layout, flow)]
    if as_json:
        console.print_json({"format": 1, "checkpoints": lines})
    elif lines:
        console.print_table(_HEADERS, [_row(line) for line in lines], right=("planned", "committed"))
    else:
        console.echo(f"Pipeline {name!r} has no checkpoint yet: it has never run.")
    raise typer.Exit(EX_CONFIG if any(line["error"] for line in lines) else 0)


def _lines(layout: Layout, resolved: ResolvedFlow) -> Iterator[dict[str, Any]]:
    current = checkpoints.current(resolved.place(layout), resolved.flow.checkpoint_version)
    try:
        sidecars = checkpoints.versions(current)
    except TidegateError as error:
        yield {**_empty(current), "in_use": True, "error": error.message}
        return
    for version, sidecar in sidecars.items():
        first = current.of_version(version)
        for place in checkpoints.of_version(first) or [first]:
            in_use = place == current
            line = {**_empty(place), "in_use": in_use}
            line |= {"fingerprint": sidecar.fingerprint, "created_at": sidecar.created_at}
            yield line | _progress(place, resolved, in_use=in_use)


def _progress(place: Place, resolved: ResolvedFlow, *, in_use: bool) -> dict[str, Any]:

    values: dict[str, Any] = {}
    try:
        state = progress.read(place.checkpoint)
        values = {"last_planned": state.last_planned, "last_committed": state.last_committed}
        if in_use or place.version > resolved.flow.checkpoint_version:
            checkpoints.check_compatible(place.layout, resolved)
    except TidegateError as error:
        values["error"] = error.message
    return values


def _empty(place: Place) -> dict[str, Any]:
    names = ("fingerprint", "created_at", "last_planned", "last_committed", "error")
    return {
        "flow": place.flow,
        "version": place.version,
        "refresh": place.refresh,
        "in_use": False,
        **dict.fromkeys(names),
    }


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    note = line["error"] or ""
    if not note and line["last_planned"] != line["last_committed"]:
        note = f"batch {line['last_planned']} is pending; the next run finishes it"
    numbers = ["-" if line[name] is None else str(line[name]) for name in ("last_planned", "last_committed")]
    created = (line["created_at"] or "-")[:19].replace("T", " ")
    return (
        line["flow"],
        f"v{line['version']}",
        str(line["refresh"]),
        "yes" if line["in_use"] else "-",
        line["fingerprint"] or "-",
        created,
        *numbers,
        note,
    )
