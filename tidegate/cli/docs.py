"""``tidegate docs``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate import pages
from tidegate.cli import console, project
from tidegate.layout import Layout


def docs(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
) -> None:
    """Rebuild the pages about a pipeline's batches from ledger and verdicts, and print the path of the index. Starts no JVM.

    Runs add their batches to these pages themselves. Rebuild them if they were written by an older Tidegate, were deleted,
    or could not be written because the disk was full. No run of the pipeline may write at the same time.
    """
    environment = project.read()
    pipeline = project.load(name)
    console.echo(str(pages.rebuild(Layout.of(environment), pipeline)))
