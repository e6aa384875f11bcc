"""``tidegate claim``."""

from __future__ import annotations

from tidegate.advice import Edit
from tidegate.cli import console, project
from tidegate.cli.arguments import Reason
from tidegate.environment.settings import FILE
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.reports.report import now


def claim(reason: Reason) -> None:
    """Record that the lake belongs to this project and environment from now on; who, when and why is recorded. Starts no JVM.

    A lake belongs to the project whose run was the first to open it with a tidegate.toml. Other projects, and other environments of the
    same one, are refused: a second writer of the same tables would be one by mistake. After the project or the environment got another
    name, or the lake another project, this is the way to say so.
    """
    environment = project.read()
    if not environment.project_name:
        raise RequestError(
            f"{environment.project} has no name that the lake could record",
            Edit(f"write a {FILE} with project = '…'", "setting"),
        )
    layout = Layout.of(environment)
    before = layout.claim(project.current_user(), now(), reason)
    if not before.project:
        console.echo(f"{layout.root} is that of {layout.owner}")
    else:
        console.echo(f"{layout.root} is that of {layout.owner}; before, of {before}")
