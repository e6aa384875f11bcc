"""``tidegate docs``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import project


def docs(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
) -> None:
    """Make the pages about a pipeline's batches anew from ledger and verdicts, and print where they begin. Starts no JVM.

    Runs add their batches to these pages themselves. This is for a lake whose pages are older than its Tidegate, were
    deleted, or could not be written because the disk was full. Let no run of the pipeline write meanwhile.
    """
    from tidegate import pages
    from tidegate.cli import console
    from tidegate.layout import Layout

    environment = project.read()
    pipeline = project.load(name)
    console.say(str(pages.rebuild(Layout.of(environment), pipeline)))
