"""``tidegate doctor``."""

from __future__ import annotations

import typer

from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson
from tidegate.formatting import count
from tidegate.reports.report import ErrorReport
from tidegate.status import deployment
from tidegate.status.deployment import CheckedPart


def doctor(*, as_json: AsJson = False) -> None:
    """Check what runs of this deployment need, before the first one. Starts no JVM.

    A key is created in the lake, updated and deleted, by which a bucket shows whether it is safe with several writers; nothing else is
    written. The exit code is 0 if all parts are well, else that of the first error which a retry would not end, else 75.
    """
    environment = project.read()
    parts = list(deployment.check(environment))
    if as_json:
        console.print_json({"format": 1, "parts": [_json_of(part) for part in parts]})
    else:
        console.print_table(("part", "state", "what it has, or what to do"), [_row(part) for part in parts])
    _exit(parts)


def _row(part: CheckedPart) -> tuple[str, str, str]:
    return part.name, part.state, part.detail


def _json_of(part: CheckedPart) -> dict[str, object]:
    error = ErrorReport.of(part.error).to_json() if part.error is not None else None
    return {"part": part.name, "state": part.state, "detail": part.detail, "error": error}


def _exit(parts: list[CheckedPart]) -> None:
    errors = sorted((part.error for part in parts if part.error is not None), key=lambda error: error.transient)
    if errors:
        console.print_error(f"{count(len(errors), 'part')} of {len(parts)} failed.")
        raise typer.Exit(errors[0].exit_code)
    return None
