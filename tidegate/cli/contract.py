"""``tidegate contract``: how schemas changed, which drift waits for an answer, and how a field becomes a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidegate.cli import project

if TYPE_CHECKING:
    from tidegate.layout import Layout
    from tidegate.schema.ddl import Column

app = typer.Typer(
    help="Show how schemas changed, answer a drift that waits, or see how to promote a field to a column.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)]


@app.command()
def show(
    name: Name,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print the history of a pipeline's schemas, oldest first, and which drift waits for an answer. Starts no JVM."""
    import dataclasses

    from tidegate.cli import console
    from tidegate.ops import evolution

    project_layout = _layout()
    pipeline = project.load(name)
    lines, waiting = evolution.read(project_layout, name), evolution.waiting(project_layout, pipeline)
    if as_json:
        told = [{**dataclasses.asdict(line), "change": line.change.to_json()} for line in lines]
        console.print_json({"format": 1, "pipeline": name, "changes": told, "waiting": list(waiting)})
        return
    if not lines:
        console.say(f"No schema of {name!r} has changed.")
        return
    rows = [
        (
            line.recorded_at[:16].replace("T", " "),
            line.flow,
            line.event,
            line.change.told(),
            line.decision + (f" by {line.decided_by}" if line.decided_by else ""),
            f"v{line.version_before}"
            if line.version_before == line.version_after
            else f"v{line.version_before} -> v{line.version_after}",
            ", ".join(line.breaks),
        )
        for line in lines
    ]
    console.print_table(("when", "flow", "event", "change", "decision", "checkpoint", "may break"), rows)
    for drift, refused in waiting.items():
        console.say(
            f"{refused[0].flow} waits for drift {drift}; `tidegate contract answer {name} {drift} evolve` or `… quarantine` "
            "answers it"
        )


@app.command()
def answer(
    name: Name,
    drift: Annotated[str, typer.Argument(metavar="DRIFT", help="The drift, as `tidegate contract show` names it.")],
    answer: Annotated[
        Literal["evolve", "quarantine"],
        typer.Argument(metavar="ANSWER", help="evolve: accept it; quarantine: set aside the rows that have it."),
    ],
    by: Annotated[str, typer.Option(metavar="WHO", help="Who decided; you by default.")] = "",
) -> None:
    """Answer a drift that a frozen contract refused; the next run acts on it. The same as in Airflow. Starts no JVM."""
    from tidegate.cli import console
    from tidegate.ops import evolution

    project_layout = _layout()
    project.load(name)
    lines = evolution.answer(project_layout, name, drift, answer, by or project.who())
    if not lines:
        console.say(f"Drift {drift} had that answer already.")
        return
    for line in lines:
        console.say(f"{line.flow}: {line.change.told()}: {answer}")
    console.say(f"The next run acts on it: `tidegate run {name}`.")


@app.command()
def promote(
    name: Name,
    field: Annotated[str, typer.Argument(metavar="FIELD", help="A field that records brought and the schema lacks.")],
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="The column's type, as in DDL.")] = "STRING",
) -> None:
    """Print the edits that make a field a declared column, with its history from bronze. Edits nothing. Starts no JVM."""
    from tidegate import registry
    from tidegate.cli import console
    from tidegate.errors import RequestError
    from tidegate.ops import evolution
    from tidegate.schema.ddl import parse_ddl

    project_layout = _layout()
    pipeline = project.load(name)
    seen = [line for line in evolution.read(project_layout, name) if line.change.field == field]
    if not seen:
        brought = sorted(
            {line.change.field for line in evolution.read(project_layout, name) if line.event != "declared"}
        )
        told = ", ".join(brought) or "none"
        raise RequestError(f"no record of {name!r} brought a field {field!r}; fields that were seen: {told}.")
    flow = pipeline.flow(seen[-1].flow)
    source = registry.landing_behind(flow, pipeline)
    if source is None:
        raise RequestError(
            f"flow {flow.name!r} of {name!r} parses no records any more; promote the field where they are parsed."
        )
    columns = (*parse_ddl("schema", source.schema), *parse_ddl("type", f"{field} {kind}"))
    twice = [column.name for column in columns[:-1] if column.name.lower() == field.lower()]
    if twice:
        raise RequestError(f"the schema of {name!r} has {twice[0]} already; Delta cannot tell it from {field}.")
    console.say(f"To make {field} a column of {flow.target.name}, with what bronze holds of it since the beginning:")
    console.say(f"1. pipelines/{name}.py: schema={', '.join(map(_ddl, columns))!r}")
    if flow.transform is not None:
        module, _, function = flow.transform.partition(":")
        console.say(f"2. spark_jobs/{module}.py: let {function} return the column {field}")
    console.say(f"3. pipelines/{name}.py, flow {flow.name!r}: checkpoint_version={flow.checkpoint_version + 1}")
    console.say(f"4. tidegate run {name}")


def _ddl(column: Column) -> str:
    return f"{column.name} {column.type}{' NOT NULL' if column.required else ''}"


def _layout() -> Layout:
    from tidegate.layout import Layout

    return Layout.of(project.read())
