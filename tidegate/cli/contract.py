"""``tidegate contract``: how schemas changed, which schema change waits for an answer, and how a field becomes a column."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tidegate import json_codec
from tidegate.advice import Edit
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson, Name
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import evolution
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.schema.names import COLUMN, hashed_name
from tidegate.schema.transliteration import column_name

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Print the history of a pipeline's schemas, oldest first, and which schema change waits for an answer. Starts no JVM."""
    environment = project.read()
    layout, resolved = Layout.of(environment), project.resolve(environment, name)
    lines, waiting = evolution.read(resolved.place(layout)), evolution.open_schema_changes(layout, resolved)
    if as_json:
        changes = json_codec.to_plain(lines)
        console.print_json({"format": 1, "pipeline": name, "changes": changes, "waiting": list(waiting)})
        return
    if not lines:
        console.echo(f"No schema of {name!r} has changed.")
        return
    rows = [
        (
            f"{line.recorded_at:%Y-%m-%d %H:%M}",
            line.flow,
            line.event,
            line.change.summary(resolved.pipeline.names_of(line.flow)),
            line.decision + (f" by {line.decided_by}" if line.decided_by else ""),
            f"v{line.version_before}"
            if line.version_before == line.version_after
            else f"v{line.version_before} -> v{line.version_after}",
            ", ".join(line.breaks),
        )
        for line in lines
    ]
    console.print_table(("when", "flow", "event", "change", "decision", "checkpoint", "may break"), rows)
    for schema_change_id, refused in waiting.items():
        console.echo(
            f"{refused[0].flow} waits for schema change {schema_change_id}; "
            f"`tidegate contract answer {name} {schema_change_id} evolve` or `… quarantine` answers it"
        )


@app.command()
def answer(
    name: Name,
    schema_change_id: Annotated[
        str,
        typer.Argument(metavar="SCHEMA_CHANGE", help="The id of the schema change, as in `tidegate contract show`."),
    ],
    answer: Annotated[
        Literal["evolve", "quarantine"],
        typer.Argument(metavar="ANSWER", help="evolve: accept it; quarantine: quarantine the rows that have it."),
    ],
    by: Annotated[str, typer.Option(metavar="WHO", help="Who decided; by default the current user.")] = "",
) -> None:
    """Answer a schema change that a frozen contract refused, as in Airflow; the next run applies it. Starts no JVM."""
    layout = project.lake(project.read())
    pipeline = project.load(name)
    lines = evolution.answer(PipelinePlace(layout, name), schema_change_id, answer, by or project.current_user())
    if not lines:
        console.echo(f"Schema change {schema_change_id} already has that answer.")
        return
    for line in lines:
        console.echo(f"{line.flow}: {line.change.summary(pipeline.names_of(line.flow))}: {answer}")
    console.echo(f"The next run applies it: `tidegate run {name}`.")


@app.command()
def promote(
    name: Name,
    field: Annotated[str, typer.Argument(metavar="FIELD", help="A field of records that is missing in the schema.")],
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="The column's type, as in DDL.")] = "STRING",
) -> None:
    """Print the edits that make a field a declared column, with its history from bronze. Changes no file. Starts no JVM."""
    environment = project.read()
    layout, resolved = Layout.of(environment), project.resolve(environment, name)
    history = evolution.read(resolved.place(layout))
    changes = [line for line in history if line.change.field in (field, hashed_name(field))]
    if not changes:
        fields = sorted({line.change.field for line in history if line.event != "declared"})
        names = ", ".join(fields) or "none"
        raise RequestError(
            f"no record of {name!r} has an undeclared field {field!r}", Edit(f"recorded fields: {names}", "request")
        )
    flow, source = resolved.flow(changes[-1].flow).flow, resolved.flow(changes[-1].flow).landing
    if source is None:
        raise RequestError(
            f"flow {flow.name!r} of {name!r} no longer parses records",
            Edit("promote the field in the flow that parses them", "request"),
        )
    declared = parse_ddl("schema", source.schema)
    if source.names.declared(field) in (column.name for column in declared):
        raise RequestError(
            f"the schema of {name!r} has the field {field!r} already, as {source.names.declared(field)}",
            Edit("name a field that is missing in the schema", "request"),
        )
    used = {column.name.lower() for column in declared}
    # Names of columns in Delta are case-insensitive.
    is_column = COLUMN.fullmatch(field) is not None and field.lower() not in used
    column = field if is_column else column_name(field, used)
    columns = (*declared, *parse_ddl("type", f"{column} {kind}"))
    console.echo(f"To make {field} a column of {flow.target.name}, with its values from bronze since the beginning:")
    console.echo(f"1. pipelines/{name}.py: schema={', '.join(map(_ddl, columns))!r}{'' if is_column else ','}")
    if not is_column:
        console.echo(f"   fields={dict(source.fields) | {field: column}!r}")
    if flow.transform is not None:
        console.echo(f"2. {flow.transform_place} must return the column {column}")
    console.echo(f"3. pipelines/{name}.py, flow {flow.name!r}: checkpoint_version={flow.checkpoint_version + 1}")
    console.echo(f"4. tidegate run {name}")


def _ddl(column: Column) -> str:
    return f"{column.name} {column.type}{' NOT NULL' if column.required else ''}"
